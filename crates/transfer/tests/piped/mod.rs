//! Copies out of a pipe of the near end, and into one.

use std::fs;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::ends::{self, Ends, content, pull, push};
use crate::session::MIB;

/// Around every border: of blocks, of the subtrees of a digest, of nothing.
const SIZES: [usize; 10] = [
    0,
    1,
    1 << 18,
    (1 << 18) + 1,
    MIB - 1,
    MIB,
    MIB + 1,
    2 * MIB,
    4 * MIB,
    9 * MIB + 12_345,
];

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub fn out_of(reader: &PipeReader, destination: &Path) -> Value {
    let mut job = push(&[Path::new("-")], destination);
    job["pipe"] = json!(reader.as_raw_fd());
    job
}

pub fn into(writer: &PipeWriter, source: &Path) -> Value {
    let mut job = pull(&[source], Path::new("-"));
    job["pipe"] = json!(writer.as_raw_fd());
    job
}

/// Starts a copy of what a pipe gives; the other end of the pipe.
fn start_out(destination: &Path, plan: &Value) -> (Ends, PipeWriter) {
    let (reader, writer) = pipe().unwrap();
    let ends = Ends::start(&out_of(&reader, destination), plan);
    (ends, writer)
}

/// Starts a copy of a file into a pipe; the other end of the pipe.
fn start_into(source: &Path) -> (Ends, PipeReader) {
    let (reader, writer) = pipe().unwrap();
    let ends = Ends::start(&into(&writer, source), &json!({}));
    (ends, reader)
}

#[test]
fn what_a_pipe_gives_arrives_under_its_name_with_its_digest() {
    for size in SIZES {
        let base = tempfile::tempdir().unwrap();
        let (target, kept) = (base.path().join("dst/dump"), base.path().join("digests"));
        fs::create_dir(base.path().join("dst")).unwrap();
        let (reader, mut writer) = pipe().unwrap();
        let mut job = out_of(&reader, &target);
        ends::keep_digests(&mut job, &kept);
        let ends = Ends::start(&job, &json!({}));
        let given = content(size);
        for some in given.chunks(77_777) {
            writer.write_all(some).unwrap();
        }
        drop((reader, writer));
        let outcome = ends.result().unwrap();
        assert!(fs::read(&target).unwrap() == given, "{size}");
        assert_eq!(names(target.parent().unwrap()), ["dump"]);
        assert_eq!(
            (&outcome["files"], &outcome["bytes"]),
            (&json!(1), &json!(size))
        );
        assert_eq!(outcome["target"], target.to_str().unwrap());
        let expected = blake3::hash(&given).to_hex().to_string();
        assert_eq!(ends::digests(&kept), [("dump".into(), expected)]);
        // As a shell makes it: what others may do with it the umask says.
        let mode = fs::metadata(&target).unwrap().permissions().mode();
        assert_eq!(mode & 0o7111, 0, "{mode:o}");
        assert_eq!(mode & 0o600, 0o600, "{mode:o}");
    }
}

#[test]
fn a_file_comes_out_of_a_pipe_in_order() {
    for size in SIZES {
        let base = tempfile::tempdir().unwrap();
        let source = base.path().join("dump");
        fs::write(&source, content(size)).unwrap();
        let (ends, mut reader) = start_into(&source);
        let mut came = Vec::new();
        thread::scope(|scope| {
            let read = scope.spawn(|| reader.read_to_end(&mut came).unwrap());
            let outcome = ends.result().unwrap();
            assert_eq!(
                (&outcome["files"], &outcome["bytes"]),
                (&json!(1), &json!(size))
            );
            assert_eq!(outcome["target"], Value::Null);
            assert_eq!(read.join().unwrap(), size);
        });
        assert!(came == content(size), "{size}");
    }
}

#[test]
fn the_end_of_a_pipe_gives_its_file_the_name_and_nothing_else_does() {
    let base = tempfile::tempdir().unwrap();
    let target = base.path().join("dump");
    fs::write(&target, b"before").unwrap();
    let inode = fs::metadata(&target).unwrap().ino();
    let (ends, mut writer) = start_out(&target, &json!({}));
    writer.write_all(&content(5 * MIB)).unwrap();
    ends.wait_for_bytes(4 * MIB as u64);
    assert_eq!(fs::metadata(&target).unwrap().ino(), inode);
    ends.session.cancel();
    assert!(ends.result().unwrap_err().contains("cancelled"));
    assert_eq!(names(base.path()), ["dump"]);
    assert_eq!(fs::read(&target).unwrap(), b"before");
    drop(writer);
}

#[test]
fn a_pipe_goes_to_a_file_and_a_file_to_a_pipe() {
    let base = tempfile::tempdir().unwrap();
    let (ends, writer) = start_out(base.path(), &json!({}));
    let refused = ends.result().unwrap_err();
    assert!(
        refused.contains("a pipe has no name; name the file in it"),
        "{refused}"
    );
    drop(writer);
    let (ends, reader) = start_into(base.path());
    let refused = ends.result().unwrap_err();
    assert!(
        refused.contains("it is a folder; name one file in it"),
        "{refused}"
    );
    drop(reader);
    let (reader, _writer) = pipe().unwrap();
    let job = out_of(&reader, &base.path().join("dump"));
    for (key, value) in [("dry_run", json!(true)), ("delete", json!(true))] {
        let mut job = job.clone();
        job[key] = value;
        assert!(
            Ends::refused(&job).contains("beside it nothing is copied"),
            "{key}"
        );
    }
    assert_eq!(names(base.path()), Vec::<String>::new());
}

#[test]
fn whoever_writes_into_a_pipe_goes_no_faster_than_the_path() {
    let base = tempfile::tempdir().unwrap();
    let target = base.path().join("dump");
    let (ends, mut writer) = start_out(&target, &json!({"streams": 1, "pacing_bps": 8_000_000}));
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    let writing = thread::spawn(move || {
        let some = content(64 << 10);
        while writer.write_all(&some).is_ok() {
            count.fetch_add(some.len() as u64, Ordering::Relaxed);
        }
    });
    ends.wait_for_bytes(MIB as u64);
    thread::sleep(Duration::from_millis(300));
    // The pipe, a block a stream, and what the socket takes: far from the 256 MiB that could be held.
    let ahead = written.load(Ordering::Relaxed) - ends.bytes();
    assert!(ahead < 32 * MIB as u64, "{ahead}");
    ends.session.cancel();
    ends.result().unwrap_err();
    writing.join().unwrap();
}

#[test]
fn a_reader_that_is_slow_slows_the_path() {
    let base = tempfile::tempdir().unwrap();
    let source = base.path().join("dump");
    let size = 500 * MIB as u64;
    fs::File::create(&source).unwrap().set_len(size).unwrap();
    let (ends, mut reader) = start_into(&source);
    let mut first = [0; 1];
    reader.read_exact(&mut first).unwrap();
    ends.wait_for_bytes(120 * MIB as u64);
    thread::sleep(Duration::from_millis(500));
    // What may wait for the reader, and a part a stream.
    let came = ends.bytes();
    assert!(came < 140 * MIB as u64, "{came}");
    let mut buffer = vec![0; MIB];
    let mut left = size - 1;
    thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                left -= count as u64;
            }
        });
        ends.result().unwrap();
    });
    assert_eq!(left, 0);
}

#[test]
fn a_reader_that_ends_early_ends_the_copy_in_words() {
    let base = tempfile::tempdir().unwrap();
    let source = base.path().join("dump");
    fs::write(&source, content(9 * MIB)).unwrap();
    let (ends, mut reader) = start_into(&source);
    reader.read_exact(&mut [0; 1000]).unwrap();
    drop(reader);
    let why = ends.result().unwrap_err();
    assert!(
        why.contains("the program that reads the pipe has ended"),
        "{why}"
    );
}

#[test]
fn what_cannot_be_a_pipe_is_refused() {
    let base = tempfile::tempdir().unwrap();
    let mut job = push(&[Path::new("-")], &base.path().join("dump"));
    for (descriptor, why) in [(-1, "negative"), (1_000_000, "Bad file descriptor")] {
        job["pipe"] = json!(descriptor);
        let refused = Ends::refused(&job);
        assert!(refused.contains(why), "{refused}");
    }
    let (reader, writer) = pipe().unwrap();
    let ends = Ends::start(&out_of(&reader, &base.path().join("dump")), &json!({}));
    // Its descriptor may be closed as soon as the copy has begun.
    drop(reader);
    drop(writer);
    ends.result().unwrap();
    assert_eq!(fs::read(base.path().join("dump")).unwrap(), b"");
}
