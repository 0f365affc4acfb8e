//! Files on a disk against lists of digests: what agrees, and each way in which a file does not.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use howdah_digest::{
    Algorithm, Asked, Event, Finding, Hasher, Job, Summary, check, hex, serve, write_line,
};
use serde_json::Value;

fn digest(algorithm: Algorithm, content: &[u8]) -> Vec<u8> {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(content);
    hasher.finish()
}

/// Names, and in what they do not agree.
type Found = BTreeSet<(Vec<u8>, String)>;

/// Files in a folder, and the list of them.
struct Tree {
    base: tempfile::TempDir,
    algorithm: Algorithm,
    list: Vec<u8>,
    files: u64,
}

impl Tree {
    fn new(algorithm: Algorithm) -> Self {
        Self {
            base: tempfile::tempdir().unwrap(),
            algorithm,
            list: Vec::new(),
            files: 0,
        }
    }

    fn add(&mut self, name: &[u8], content: &[u8]) {
        let path = self.base.path().join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        let digest = hex(&digest(self.algorithm, content));
        write_line(&mut self.list, &digest, name).unwrap();
        self.files += 1;
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            root: self.base.path(),
            algorithm: self.algorithm,
            files: self.files,
            also: None,
            extra: false,
        }
    }

    fn check(&self, asked: &Asked<'_>) -> (Summary, Found, Vec<Event>) {
        // Or else each file would be flushed alone before it is read from its disk.
        rustix::fs::syncfs(File::open(self.base.path()).unwrap()).unwrap();
        let events = Mutex::new(Vec::new());
        let summary = check(asked, self.list.as_slice(), &|event| {
            events.lock().unwrap().push(event);
            true
        });
        let events = events.into_inner().unwrap();
        let found = events
            .iter()
            .filter_map(|event| match event {
                Event::Finding(Finding { name, what, .. }) => {
                    Some((name.clone(), format!("{what:?}")))
                }
                _ => None,
            })
            .collect();
        (summary.unwrap(), found, events)
    }
}

#[test]
fn every_algorithm_finds_a_flipped_bit() {
    for algorithm in Algorithm::ALL {
        let mut tree = Tree::new(algorithm);
        for number in 0..20u32 {
            tree.add(
                number.to_string().as_bytes(),
                &number.to_le_bytes().repeat(3000),
            );
        }
        let (summary, found, _) = tree.check(&tree.asked());
        assert_eq!(
            (summary.files, summary.bytes),
            (20, 20 * 12_000),
            "{algorithm:?}"
        );
        assert!(found.is_empty(), "{found:?}");
        let damaged = tree.base.path().join("7");
        let mut content = fs::read(&damaged).unwrap();
        content[11_999] ^= 1;
        fs::write(&damaged, content).unwrap();
        let (summary, found, _) = tree.check(&tree.asked());
        assert_eq!(found, [(b"7".to_vec(), "Differs".to_owned())].into());
        assert_eq!((summary.files, summary.differs), (20, 1));
    }
}

#[test]
fn ten_thousand_small_files_and_one_large_one_are_checked_at_once() {
    let mut tree = Tree::new(Algorithm::Blake3);
    let mut large: Vec<u8> = (0..70u32 << 18).flat_map(u32::to_le_bytes).collect();
    tree.add(b"large", &large);
    for number in 0..10_000u32 {
        let name = format!("{}/{number}", number % 100);
        tree.add(name.as_bytes(), &number.to_le_bytes());
    }
    let (summary, found, _) = tree.check(&tree.asked());
    assert_eq!(
        (summary.files, summary.bytes),
        (10_001, (70 << 20) + 40_000)
    );
    assert!(found.is_empty(), "{found:?}");
    // In the last of its slices.
    *large.last_mut().unwrap() ^= 1;
    fs::write(tree.base.path().join("large"), &large).unwrap();
    fs::write(tree.base.path().join("99/9999"), b"else").unwrap();
    fs::remove_file(tree.base.path().join("0/0")).unwrap();
    let (summary, found, _) = tree.check(&tree.asked());
    let expected = [
        ("0/0", "Missing"),
        ("99/9999", "Differs"),
        ("large", "Differs"),
    ];
    assert_eq!(
        found,
        expected
            .map(|(name, what)| (name.as_bytes().to_vec(), what.to_owned()))
            .into()
    );
    assert_eq!(
        (summary.differs, summary.missing, summary.unreadable),
        (2, 1, 0)
    );
}

#[test]
fn odd_names_and_what_is_no_file_are_told_apart() {
    let mut tree = Tree::new(Algorithm::Sha256);
    let odd: [&[u8]; 4] = [b"a\nb", b"back\\slash", b"\xff\xfe", b" lead"];
    for name in odd {
        tree.add(name, name);
    }
    tree.add(b"folder/file", b"in it");
    tree.add(b"was a file", b"once");
    tree.add(b"through", b"a link");
    let base = tree.base.path();
    fs::remove_file(base.join("was a file")).unwrap();
    fs::create_dir(base.join("was a file")).unwrap();
    fs::rename(base.join("through"), base.join("elsewhere")).unwrap();
    symlink("elsewhere", base.join("through")).unwrap();
    fs::write(base.join("folder/more"), b"x").unwrap();
    let (summary, found, _) = tree.check(&tree.asked());
    let unreadable = (b"was a file".to_vec(), "Unreadable".to_owned());
    assert_eq!(found, [unreadable.clone()].into());
    assert_eq!(summary.extra, 0);
    let (summary, found, _) = tree.check(&Asked {
        extra: true,
        ..tree.asked()
    });
    let extra = |name: &[u8]| (name.to_vec(), "Extra".to_owned());
    assert_eq!(
        found,
        [unreadable, extra(b"elsewhere"), extra(b"folder/more")].into()
    );
    assert_eq!((summary.unreadable, summary.extra), (1, 2));
}

#[test]
fn another_digest_is_made_of_the_same_read_and_of_files_that_agree_alone() {
    let mut tree = Tree::new(Algorithm::Blake3);
    tree.add(b"good", b"content");
    tree.add(b"large", &vec![7; 40 << 20]);
    tree.add(b"bad", b"content");
    fs::write(tree.base.path().join("bad"), b"Content").unwrap();
    let (summary, found, events) = tree.check(&Asked {
        also: Some(Algorithm::Md5),
        ..tree.asked()
    });
    assert_eq!(found, [(b"bad".to_vec(), "Differs".to_owned())].into());
    assert_eq!(summary.bytes, (40 << 20) + 14);
    let mut made: Vec<(Vec<u8>, Vec<u8>)> = events
        .into_iter()
        .filter_map(|event| match event {
            Event::Digest { name, digest } => Some((name, digest)),
            _ => None,
        })
        .collect();
    made.sort();
    let md5 = |content: &[u8]| digest(Algorithm::Md5, content);
    assert_eq!(
        made,
        [
            (b"good".to_vec(), md5(b"content")),
            (b"large".to_vec(), md5(&vec![7; 40 << 20]))
        ]
    );
}

#[test]
fn a_list_of_one_file_may_be_checked_against_that_file() {
    let mut tree = Tree::new(Algorithm::Blake3);
    tree.add(b"b.h5", b"content");
    let file = tree.base.path().join("elsewhere.h5");
    fs::rename(tree.base.path().join("b.h5"), &file).unwrap();
    let asked = Asked {
        root: &file,
        ..tree.asked()
    };
    let (_, found, _) = tree.check(&asked);
    assert!(found.is_empty(), "{found:?}");
    fs::write(&file, b"other").unwrap();
    assert_eq!(tree.check(&asked).0.differs, 1);
    let refused = |asked: &Asked<'_>| check(asked, tree.list.as_slice(), &|_| true).unwrap_err();
    assert!(refused(&Asked { files: 2, ..asked }).contains("is no folder"));
    let nowhere = Path::new("/no/such");
    let why = refused(&Asked {
        root: nowhere,
        ..asked
    });
    assert_eq!(why, "cannot read /no/such: No such file or directory");
    let why = refused(&Asked {
        files: 2,
        ..tree.asked()
    });
    assert!(why.contains("named 2 files and has 1"), "{why}");
}

#[test]
fn a_check_ends_when_nobody_listens() {
    let mut tree = Tree::new(Algorithm::Blake3);
    for number in 0..2000u32 {
        tree.add(number.to_string().as_bytes(), b"x");
    }
    for number in 0..2000u32 {
        fs::write(tree.base.path().join(number.to_string()), b"y").unwrap();
    }
    let seen = Mutex::new(0);
    let summary = check(&tree.asked(), tree.list.as_slice(), &|event| {
        *seen.lock().unwrap() += usize::from(matches!(event, Event::Finding(_)));
        !matches!(event, Event::Finding(_))
    });
    assert!(summary.unwrap().differs < 200);
    assert!(*seen.lock().unwrap() < 200);
}

fn job(tree: &Tree, extra: bool) -> Vec<u8> {
    let job = Job {
        root: STANDARD.encode(tree.base.path().as_os_str().as_bytes()),
        algorithm: tree.algorithm,
        files: tree.files,
        also: None,
        extra,
    };
    [serde_json::to_vec(&job).unwrap(), b"\n".to_vec()].concat()
}

#[test]
fn another_process_is_served_by_lines_and_a_broken_pipe_ends_it() {
    let mut tree = Tree::new(Algorithm::Blake3);
    tree.add(b"good", b"content");
    tree.add(b"bad\n", b"content");
    fs::write(tree.base.path().join("bad\n"), b"other").unwrap();
    let talk = |input: Vec<u8>| {
        let (read, mut near) = std::io::pipe().unwrap();
        let (mut lines, write) = std::io::pipe().unwrap();
        near.write_all(&input).unwrap();
        drop(near);
        let went_well = serve(read.into(), write.into());
        let mut text = String::new();
        lines.read_to_string(&mut text).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|line: &Value| line.get("progress").is_none())
            .collect();
        (went_well, lines)
    };
    let (went_well, lines) = talk([job(&tree, true), tree.list.clone()].concat());
    assert!(went_well);
    assert_eq!(lines[0]["finding"]["name"], STANDARD.encode("bad\n"));
    assert_eq!(lines[0]["finding"]["what"], "differs");
    assert_eq!(lines[1]["end"]["files"], 2);
    for (input, why) in [
        (b"hello\n".to_vec(), "no job came"),
        (job(&tree, false), "named 2 files and has 0"),
        (
            [job(&tree, false), b"x\n".to_vec()].concat(),
            "the list: line 1",
        ),
    ] {
        let (went_well, lines) = talk(input);
        assert!(!went_well);
        assert!(
            lines[0]["failed"].as_str().unwrap().contains(why),
            "{lines:?}"
        );
    }
    // A file that takes long, and a near end that goes away.
    File::create(tree.base.path().join("sparse"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let list = format!("{}  sparse\n", "0".repeat(64));
    tree.files = 1;
    let (read, mut near) = std::io::pipe().unwrap();
    let (lines, write) = std::io::pipe().unwrap();
    near.write_all(&[job(&tree, false), list.into_bytes()].concat())
        .unwrap();
    drop(near);
    let begun = Instant::now();
    let serving = std::thread::spawn(move || serve(read.into(), write.into()));
    let mut first = String::new();
    BufReader::new(lines).read_line(&mut first).unwrap();
    assert!(first.contains("progress"), "{first}");
    assert!(!serving.join().unwrap());
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_file_without_permission_is_unreadable_and_the_others_are_checked() {
    let mut tree = Tree::new(Algorithm::Blake3);
    tree.add(b"a", b"content");
    tree.add(b"closed", b"content");
    let closed = tree.base.path().join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let (_, found, _) = tree.check(&tree.asked());
    // Root reads it all the same.
    let root = File::open(&closed).is_ok();
    let expected = (b"closed".to_vec(), "Unreadable".to_owned());
    assert_eq!(
        found,
        if root {
            BTreeSet::new()
        } else {
            [expected].into()
        }
    );
}
