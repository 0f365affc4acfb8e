//! A check carried out for another process: the job and the list come in, lines of JSON go out.
//!
//! In: one line of JSON, which is a [`Job`], and then the list. Out: one line of JSON an event. The last one is
//! `end` or `failed`; without it the check was cut short. When nobody reads the lines any more, the check ends.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, hex};
use crate::check::{Asked, Event, Summary, What, check};
use crate::work::lock;

/// Longest job, in bytes: the longest path as base64, and a few words.
const MAX_JOB_BYTES: u64 = 16 << 10;
const LIST_BYTES: usize = 1 << 20;

/// What is to be checked; see [`Asked`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The root, as base64.
    pub root: String,
    /// Of which algorithm the list is.
    pub algorithm: Algorithm,
    /// How many files it names.
    pub files: u64,
    /// Another digest to make.
    pub also: Option<Algorithm>,
    /// Whether files that the list does not name are found.
    pub extra: bool,
}

impl Job {
    /// Takes the line that a job is from before a list; the root comes decoded.
    ///
    /// # Errors
    /// When there is none.
    pub fn take(read: &mut impl BufRead) -> Result<(Self, Vec<u8>), String> {
        let mut line = Vec::new();
        read.take(MAX_JOB_BYTES)
            .read_until(b'\n', &mut line)
            .map_err(|error| format!("cannot read what to check: {error}"))?;
        let no_job = "no job came; install the same version of howdah on both hosts";
        let job: Self = serde_json::from_slice(&line).map_err(|_| no_job.to_owned())?;
        let root = STANDARD.decode(&job.root).map_err(|_| no_job.to_owned())?;
        Ok((job, root))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Line<'a> {
    Progress(Summary),
    Finding {
        name: String,
        what: What,
        why: Option<String>,
    },
    Digest {
        name: String,
        digest: String,
    },
    End(Summary),
    Failed(&'a str),
}

/// Checks what the job that comes from `read` asks for and tells `write`; whether it came to its end.
pub fn serve(read: OwnedFd, write: OwnedFd) -> bool {
    let out = Mutex::new(BufWriter::new(File::from(write)));
    let tell = |line: &Line<'_>| {
        let Ok(mut text) = serde_json::to_vec(line) else {
            return false;
        };
        text.push(b'\n');
        let mut out = lock(&out);
        let written = out.write_all(&text);
        // Files that do not agree are to be seen at once, and the others' digests may be millions.
        let flushed = match line {
            Line::Digest { .. } => Ok(()),
            _ => out.flush(),
        };
        written.is_ok() && flushed.is_ok()
    };
    let happened = |event: Event| match event {
        Event::Progress(summary) => tell(&Line::Progress(summary)),
        Event::Finding(finding) => tell(&Line::Finding {
            name: STANDARD.encode(finding.name),
            what: finding.what,
            why: finding.why,
        }),
        Event::Digest { name, digest } => tell(&Line::Digest {
            name: STANDARD.encode(name),
            digest: hex(&digest),
        }),
    };
    match carry_out(File::from(read), &happened) {
        Ok(summary) => tell(&Line::End(summary)),
        Err(why) => {
            tell(&Line::Failed(&why));
            false
        }
    }
}

fn carry_out(
    read: impl Read + Send,
    happened: &(dyn Fn(Event) -> bool + Sync),
) -> Result<Summary, String> {
    let mut read = BufReader::with_capacity(LIST_BYTES, read);
    let (job, root) = Job::take(&mut read)?;
    let asked = Asked {
        root: Path::new(OsStr::from_bytes(&root)),
        algorithm: job.algorithm,
        files: job.files,
        also: job.also,
        extra: job.extra,
    };
    check(&asked, read, happened)
}
