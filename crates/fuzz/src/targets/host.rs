//! What a host is told by others than its administrator, and by them: commands of logins for copies alone, requests of
//! a confined far end, policies.

use crate::memory::within;
use crate::shown::assert_shown;

pub mod forced_logins {
    //! Words of `howdah serve`, and the command that a client has asked sshd for in their place.

    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    use howdah_far::options::{Asked, Options, asked_for};

    use super::*;

    /// Most bytes of an error: a word of 200 bytes, and what to do.
    const MOST_SHOWN: usize = 700;
    const MEMORY: usize = 16 << 10;
    const MEMORY_PER_BYTE: usize = 128;

    /// The first byte says which of the two it is; words are set apart by NUL bytes.
    pub fn run(data: &[u8]) {
        let Some((kind, bytes)) = data.split_first() else {
            return;
        };
        let most = MEMORY + MEMORY_PER_BYTE * bytes.len();
        if kind & 1 == 0 {
            match within(most, || asked_for(OsStr::from_bytes(bytes))) {
                Ok(asked) => {
                    assert_sound(asked);
                    let command = format!("howdah serve {}", in_words(asked).join(" "));
                    assert_eq!(asked_for(OsStr::new(&command)), Ok(asked));
                }
                Err(error) => assert_shown(&error, MOST_SHOWN),
            }
            return;
        }
        let words: Vec<OsString> = bytes
            .split(|byte| *byte == 0)
            .map(|word| OsString::from_vec(word.to_vec()))
            .collect();
        let options = match within(most, || Options::of(&words)) {
            Ok(options) => options,
            Err(wrong) => return assert_shown(&wrong.in_words(kind & 2 != 0), MOST_SHOWN),
        };
        assert_sound(options.asked);
        assert!(options.root.as_ref().is_none_or(|root| !root.is_empty()));
        assert!(options.root.is_some() || !options.read_only);
        let mut again: Vec<OsString> = in_words(options.asked).map(Into::into).to_vec();
        again.retain(|word| !word.is_empty());
        if let Some(root) = &options.root {
            again.extend(["--root".into(), root.clone()]);
        }
        if options.read_only {
            again.push("--read-only".into());
        }
        assert_eq!(Options::of(&again), Ok(options));
    }

    fn assert_sound(Asked { ports, ahead }: Asked) {
        assert!(ports.is_none_or(|(least, most)| 0 < least && least <= most));
        assert!(ahead.is_none_or(|ahead| (1..=64).contains(&ahead)));
    }

    /// The words that ask for it; empty where there is nothing to say.
    fn in_words(Asked { ports, ahead }: Asked) -> [String; 4] {
        let mut words = [const { String::new() }; 4];
        if let Some((least, most)) = ports {
            (words[0], words[1]) = ("--ports".to_owned(), format!("{least}-{most}"));
        }
        if let Some(ahead) = ahead {
            (words[2], words[3]) = ("--ahead".to_owned(), ahead.to_string());
        }
        words
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        [
            &b"\0howdah serve --ports 50-99 --ahead 8"[..],
            b"\0'/opt/my howdah' serve",
            b"\0sh -c 'a; \"b\"' howdah 'serve --ports 5-9 --ahead 8' anew",
            b"\0howdah serve --root /",
            b"\0howdah reread",
            b"\0sh -c 'rm -r /' howdah\x1b[2J",
            b"\x01--root\0/data\0--read-only\0--ports=5-9\0--ahead\x0016",
            b"\x01--root=\0--ports\0\x1b",
            b"\x03--root\0",
            b"\x03--ports\x005-4\0--read-only=1\0now",
        ]
        .map(<[u8]>::to_vec)
        .to_vec()
    }
}

pub mod requests {
    //! Requests of a confined far end, which may have been taken over, to the process that oversees it.

    use std::io::{self, Read, Write};
    use std::path::Path;
    use std::sync::Mutex;

    use howdah_far::apart::{Request, answer, receive, send};
    use howdah_far::oversight::Oversight;
    use howdah_site::{Account, Copy, End, Outcome, Places, Policy, Quota};
    use howdah_transfer::Overseer;

    use super::*;

    const ROOT: &str = "/no/such folder";
    /// rsyslog's, of which its own head takes a part.
    const MOST_LINE: usize = 8192 - 64;
    /// Memory that a byte of a request may cost: a source of a job takes 3 and becomes a vector and a path.
    const MEMORY_PER_BYTE: usize = 64;
    const MEMORY: usize = 256 << 10;

    /// Both ways of a channel.
    struct Channel<'a> {
        requests: &'a [u8],
        answers: Vec<u8>,
    }

    impl Read for Channel<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.requests.read(buffer)
        }
    }

    impl Write for Channel<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.answers.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Reads as the overseer of a far end does, under a policy without limits, and keeps what it would log.
    struct Reader {
        oversight: Oversight,
        held: Mutex<Option<(Copy, Quota)>>,
        policy: Policy,
    }

    impl Overseer for Reader {
        fn accept(&self, job: &[u8]) -> Result<(), String> {
            let job = self.oversight.read(job)?;
            let beneath = |path: &Vec<u8>| path.starts_with(format!("{ROOT}/").as_bytes());
            match job.is_pull() {
                true => assert!(job.sources.iter().all(beneath)),
                false => assert!(beneath(&job.destination)),
            }
            let copy = Copy::new(End::Far, &job, Some(b"192.0.2.1"), None);
            assert_line(&copy, Outcome::Begun, None, &Account::default());
            *self.held.lock().expect("one thread") = Some((copy, Quota::new(&self.policy)));
            Ok(())
        }

        fn moved(&self, moved: u64, known: u64) -> Result<(), String> {
            let mut held = self.held.lock().expect("one thread");
            let (_, quota) = held.as_mut().ok_or("no job was accepted")?;
            quota.moved(moved, known).map_err(|error| error.to_string())
        }

        fn ended(&self, account: &[u8]) -> Result<(), String> {
            let account: Account =
                serde_json::from_slice(account).map_err(|error| error.to_string())?;
            let held = self.held.lock().expect("one thread");
            let (copy, _) = held.as_ref().ok_or("no job was accepted")?;
            assert_line(copy, Outcome::Failed, account.error.as_deref(), &account);
            Ok(())
        }
    }

    fn assert_line(copy: &Copy, outcome: Outcome, error: Option<&str>, account: &Account) {
        let line = copy.said(outcome, error, account).expect("it is JSON");
        assert_shown(&line, MOST_LINE);
        let json = line.strip_prefix("copy ").expect("it says so");
        serde_json::from_str::<serde_json::Value>(json).expect("it is JSON");
    }

    /// The bytes of the channel. With an odd first byte, their first request is repeated in text that is long.
    pub fn run(data: &[u8]) {
        let Some((kind, bytes)) = data.split_first() else {
            return;
        };
        let bytes = match kind & 1 {
            0 => bytes.to_vec(),
            _ => long(bytes, usize::from(kind / 2)),
        };
        let mut channel = Channel {
            requests: &bytes,
            answers: Vec::new(),
        };
        let reader = Reader {
            oversight: Oversight::new(Places::of_this_host(), Some(Path::new(ROOT))),
            held: Mutex::new(None),
            policy: Policy::of_texts(b"", b"").expect("it says nothing"),
        };
        let most = MEMORY + MEMORY_PER_BYTE * bytes.len();
        let ended = within(most, || answer(&mut channel, &reader));
        assert!(ended.is_err(), "it ends with the far end");
        // Whatever was understood can be said again.
        let (mut requests, mut count) = (&bytes[..], 0);
        while let Ok(request) = receive::<Request>(&mut requests) {
            count += 1;
            let mut again = Vec::new();
            send(&mut again, &request).expect("a vector takes it");
            assert_eq!(receive::<Request>(&again[..]).ok(), Some(request));
        }
        let mut answers = &channel.answers[..];
        for _ in 0..count {
            let answer = receive::<Result<(), String>>(&mut answers);
            assert!(answer.is_ok(), "each request has an answer");
        }
        assert!(answers.is_empty());
    }

    /// A job, and then the account of a copy whose texts are `text`, repeated.
    fn long(text: &[u8], times: usize) -> Vec<u8> {
        let text = String::from_utf8_lossy(text).repeat(times);
        let account = serde_json::json!({"bytes": 1, "files": 1, "digest_sum": text, "error": text,
            "cancelled": false});
        let mut bytes = Vec::new();
        let mut job: serde_json::Value = serde_json::from_str(JOB).expect("it is JSON");
        job["other"] = text.into();
        for request in [
            Request::Accept(job.to_string().into_bytes()),
            Request::Ended(account.to_string().into_bytes()),
        ] {
            send(&mut bytes, &request).expect("a vector takes it");
        }
        bytes
    }

    const JOB: &str = r#"{"direction":"pull","sources":["fi9h","L2I=","Li4vYw=="],"destination":"L2lu","from_memory":false,"memory_bytes":5,"dry_run":false,"encrypt":true}"#;

    pub fn seeds() -> Vec<Vec<u8>> {
        let account =
            br#"{"bytes":5,"files":1,"removed":2,"digest_sum":"ab","error":"x","cancelled":true}"#;
        let said = |requests: &[Request]| {
            let mut bytes = vec![0];
            for request in requests {
                send(&mut bytes, request).expect("a vector takes it");
            }
            bytes
        };
        let accept = |job: &str| Request::Accept(job.as_bytes().to_vec());
        vec![
            said(&[
                accept(JOB),
                Request::Moved { moved: 3, known: 5 },
                Request::Ended(account.to_vec()),
            ]),
            said(&[accept(&JOB.replace("pull", "push"))]),
            said(&[Request::Ended(account.to_vec())]),
            "\u{1f}\\\u{202e}\u{7f}\n".as_bytes().to_vec(),
            [&[255][..], "\u{85}\"x".as_bytes()].concat(),
            vec![0, 0xff, 0xff, 0xff, 0xff],
        ]
    }
}

pub mod policies {
    //! A site's policy, a user's, and a far end to hold against both.

    use howdah_site::{Error, Policy};

    use super::*;

    /// Most bytes of an error: what is shown of the file, the host's name, and what to do.
    const MOST_SHOWN: usize = 700;
    /// Memory that a byte may cost: the values that TOML makes of it.
    const MEMORY: usize = 256 << 10;
    const MEMORY_PER_BYTE: usize = 512;

    /// The texts are set apart by NUL bytes, which TOML has not.
    pub fn run(data: &[u8]) {
        let mut texts = data.splitn(3, |byte| *byte == 0);
        let [site, own, host] = std::array::from_fn(|_| texts.next().unwrap_or_default());
        let most = MEMORY + MEMORY_PER_BYTE * data.len();
        let both = match within(most, || Policy::of_texts(site, own)) {
            Ok(both) => both,
            Err(error) => return assert_shown(&error.to_string(), MOST_SHOWN),
        };
        let mut shown = [String::new(), String::new()];
        for (line, path) in both.rules() {
            assert_shown(&line, 16 * data.len());
            let text = &mut shown[usize::from(!path.starts_with("/etc"))];
            text.push_str(&line);
            text.push('\n');
        }
        let [at_site, at_own] = &shown;
        let again = Policy::of_texts(at_site.as_bytes(), at_own.as_bytes());
        assert_eq!(
            again.as_ref(),
            Ok(&both),
            "what is shown could stand in the files"
        );
        let host = String::from_utf8_lossy(host);
        for one in [site, own] {
            let one = Policy::of_texts(one, b"").expect("it was read beside the other one");
            assert_stricter(&both, &one, &host);
        }
    }

    /// What both allow, each allows.
    fn assert_stricter(both: &Policy, one: &Policy, host: &str) {
        assert!(both.audit_required || !one.audit_required);
        assert!(one.keep_logins || !both.keep_logins);
        for (limit, of_one) in [
            (both.copy_bytes, one.copy_bytes),
            (both.day_bytes, one.day_bytes),
        ] {
            assert!(of_one.is_none_or(|of_one| limit.is_some_and(|limit| limit <= of_one)));
        }
        for check in [
            |policy: &Policy, _: &str| policy.check_plaintext(false),
            |policy: &Policy, _: &str| policy.check_programs(),
            |policy: &Policy, _: &str| policy.check_delete(true),
            |policy: &Policy, host: &str| policy.check_far_end(host),
        ] {
            assert!(refused(check(both, host)) || !refused(check(one, host)));
        }
        for asked in [None, Some((1, 65_535)), Some((50_000, 50_001))] {
            let (of_both, of_one) = (both.ports_of(asked), one.ports_of(asked));
            if let Ok(Some((least, most))) = of_both {
                let wider = of_one.expect("it allows no less");
                assert!(wider.is_none_or(|wider| wider.0 <= least && most <= wider.1));
                assert!(asked.is_none_or(|asked| asked.0 <= least && most <= asked.1));
            }
        }
    }

    fn refused(answer: Result<(), Error>) -> bool {
        if let Err(error) = &answer {
            assert_shown(&error.to_string(), MOST_SHOWN);
        }
        answer.is_err()
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let strict = "audit = \"required\"\n[ssh]\nkeep_logins = false\nfar_ends = [\"*.example.org\", \"10.9.0.0/16\"]\n\
            [data]\nplaintext = false\ndelete = false\nports = \"50000-50100\"\n[programs]\nload = false\n\
            [quota]\ncopy = \"1GB\"\nday = \"2GB\"\n";
        let loose = "ssh.far_ends = [\"*\"]\ndata.ports = \"1-65535\"\nquota.copy = \"1 TB\"\n";
        [
            format!("{strict}\0{loose}\0dtn1.example.org"),
            format!("{loose}\0{strict}\x0010.9.0.1"),
            "ssh.far_ends = [\"\\u0085\\\"\\\\\"]\0ssh.far_ends = [\"Ω\"]\0\u{1b}".to_owned(),
            "data.ports = \"\\u001b\"".to_owned(),
            "audit = \"\\u202e\"".to_owned(),
            "quota.day = \"\\u0007B\"".to_owned(),
            "\"\\u001b\" = 1\0x = [".to_owned(),
        ]
        .map(String::into_bytes)
        .to_vec()
    }
}
