//! What a dry run lists, held against rsync's, and against what the copy then does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};

use crate::ends::{self, Ends, job};
use crate::far_ends::{between, run};

const USUAL_S: u64 = 1_000_000_000;
const TEXT: &str = "from source";

fn file(path: &Path, text: &str, at_s: u64) {
    fs::write(path, text).unwrap();
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(at_s);
    let file = File::options().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(at)).unwrap();
}

fn node(path: &Path, kind: FileType, number: u64) {
    let private = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, path, kind, private, number).unwrap();
}

/// The source `src`, and at the target `dst` what differs from it in one way each.
fn world(base: &Path) {
    let [src, dst] = ["src", "dst"].map(|name| base.join(name));
    for folder in ["src/new folder/deep", "src/folder", "src/way", "dst/folder"] {
        fs::create_dir_all(base.join(folder)).unwrap();
    }
    for name in [
        "new",
        "same",
        "size",
        "older",
        "newer",
        "bytes",
        "new folder/file",
        "new folder/deep/file",
        "new folder.txt",
        "folder/new",
        "way/in",
    ] {
        file(&src.join(name), TEXT, USUAL_S);
    }
    file(&dst.join("same"), TEXT, USUAL_S);
    fs::set_permissions(dst.join("same"), fs::Permissions::from_mode(0o600)).unwrap();
    file(&dst.join("size"), "of another size", USUAL_S);
    file(&dst.join("older"), "at  target!", USUAL_S - 10);
    file(&dst.join("newer"), "at  target!", USUAL_S + 10);
    file(&dst.join("bytes"), "at  target!", USUAL_S);
    file(&dst.join("way"), TEXT, USUAL_S);
    for name in [
        "link new",
        "link same",
        "link other",
        "link file",
        "link folder",
    ] {
        symlink(TEXT, src.join(name)).unwrap();
    }
    symlink(TEXT, dst.join("link same")).unwrap();
    symlink("other", dst.join("link other")).unwrap();
    file(&dst.join("link file"), TEXT, USUAL_S);
    fs::create_dir(dst.join("link folder")).unwrap();
    // Two names of one file each: new, the same, another one, and two files of their own.
    for name in ["h new", "h same", "h other", "h apart"] {
        let [one, two] = [1, 2].map(|number| format!("{name} {number}"));
        file(&src.join(&one), TEXT, USUAL_S);
        fs::hard_link(src.join(&one), src.join(&two)).unwrap();
        match name {
            "h same" => file(&dst.join(&one), TEXT, USUAL_S),
            "h other" => file(&dst.join(&one), "of another size", USUAL_S),
            "h apart" => {
                file(&dst.join(&one), TEXT, USUAL_S);
                file(&dst.join(&two), TEXT, USUAL_S);
                continue;
            }
            _ => continue,
        }
        fs::hard_link(dst.join(&one), dst.join(&two)).unwrap();
    }
    for name in ["s new", "s same", "s file"] {
        node(&src.join(name), FileType::Fifo, 0);
    }
    node(&dst.join("s same"), FileType::Fifo, 0);
    file(&dst.join("s file"), TEXT, USUAL_S);
    if rustix::process::geteuid().is_root() {
        let null = rustix::fs::makedev(1, 3);
        node(&src.join("s device"), FileType::CharacterDevice, null);
    }
    fs::create_dir_all(dst.join("old folder/deep")).unwrap();
    for name in ["old", "old folder/old", "folder/old"] {
        file(&dst.join(name), TEXT, USUAL_S);
    }
    symlink("old", dst.join("old link")).unwrap();
}

/// The options of rsync, and the same as a job has it.
fn options() -> Vec<(&'static [&'static str], Value)> {
    let skip = |missing, there, newer, same| json!({"skip": {"missing": missing, "there": there, "newer": newer, "same": same}});
    let usual = "size-and-time";
    vec![
        (&[], json!({})),
        (&["--delete"], json!({"delete": true})),
        (&["--existing"], skip(true, false, false, usual)),
        (&["--ignore-existing"], skip(false, true, false, usual)),
        (&["--update"], skip(false, false, true, usual)),
        (&["--checksum"], skip(false, false, false, "content")),
        (&["--size-only"], skip(false, false, false, "size")),
        (&["--ignore-times"], skip(false, false, false, "nothing")),
        (
            &["--existing", "--checksum"],
            skip(true, false, false, "content"),
        ),
    ]
}

fn with(mut job: Value, more: &Value) -> Value {
    job["keep"] = json!({
        "hard_links": true, "owner": true, "group": true, "devices": true, "specials": true, "top": true,
    });
    for (key, value) in more.as_object().unwrap() {
        job[key] = value.clone();
    }
    job
}

/// What would be made or replaced, each with what it is, and what would be removed.
#[derive(Debug, Default, PartialEq, Eq)]
struct List {
    made: BTreeSet<(String, String)>,
    removed: BTreeSet<String>,
}

impl List {
    /// The same as rsync says it: to it another name of a file is a file, and which of two names is the first one is
    /// left open, as is whether one of them goes with the other. What goes for something that is made is not named.
    fn told_by_rsync(self) -> Self {
        let name = |name: String| match name.starts_with("h ") {
            true => name[..name.len() - 2].to_owned(),
            false => name,
        };
        let kind = |kind: String| match kind.as_str() {
            "hard-link" => "file".to_owned(),
            _ => kind,
        };
        let bare = |name: &str| name.trim_end_matches('/').to_owned();
        let made_names: BTreeSet<_> = self.made.iter().map(|(name, _)| bare(name)).collect();
        let made = self.made.into_iter();
        let mut removed = self.removed;
        removed.retain(|name| !made_names.contains(&bare(name)));
        Self {
            made: made.map(|(path, what)| (name(path), kind(what))).collect(),
            removed,
        }
    }
}

fn of_plan(outcome: &Value) -> List {
    let mut list = List::default();
    let plan = outcome["dry_run_plan"].as_array().unwrap();
    let names: Vec<_> = plan.iter().map(|one| ends::path(&one["path"])).collect();
    let key = |path: &PathBuf| {
        path.to_str()
            .unwrap()
            .replacen("./", "", 1)
            .replace('/', "\0")
    };
    assert!(names.is_sorted_by_key(key), "{names:?}");
    for (one, name) in plan.iter().zip(names) {
        let (name, kind) = (name.to_str().unwrap().to_owned(), one["kind"].as_str());
        let kind = kind.unwrap().to_owned();
        assert_eq!(kind == "folder", name.ends_with('/'), "{one}");
        match one["action"].as_str().unwrap() {
            "copy" => assert!(list.made.insert((name, kind)), "{one} is there twice"),
            "remove" => assert!(list.removed.insert(name), "{one} is there twice"),
            _ => assert_eq!(kind, "file"),
        }
    }
    list
}

fn of_rsync(words: &[&str], source: &str, target: &Path) -> List {
    let done = Command::new("rsync")
        .args(["-aHni"])
        .args(words)
        .arg(source)
        .arg(target)
        .output()
        .unwrap();
    let mut list = List::default();
    for line in String::from_utf8(done.stdout).unwrap().lines() {
        if let Some(name) = line.strip_prefix("*deleting   ") {
            list.removed.insert(name.to_owned());
            continue;
        }
        // A dot: at most its mode, owner or time would change.
        if line.starts_with('.') || line.starts_with("created directory") {
            continue;
        }
        let (what, name) = line.split_once(' ').unwrap();
        let kind = match what.as_bytes()[1] {
            b'f' => "file",
            b'd' => "folder",
            b'L' => "link",
            _ => "special",
        };
        let name = name.trim_start();
        let ends = [" -> ", " => "].iter().filter_map(|mark| name.find(mark));
        let name = &name[..ends.min().unwrap_or(name.len())];
        list.made.insert((name.to_owned(), kind.to_owned()));
    }
    assert!(list.made.len() + list.removed.len() > 3, "{words:?}");
    list
}

/// What is below a folder, by what tells one thing from another that has taken its place.
fn state(root: &Path) -> BTreeMap<String, (&'static str, String)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            let mut name = path.strip_prefix(root).unwrap().display().to_string();
            let told = match stat.file_type() {
                kind if kind.is_symlink() => {
                    let target = fs::read_link(&path).unwrap().display().to_string();
                    ("link", target)
                }
                kind if kind.is_dir() => {
                    folders.push(path);
                    name.push('/');
                    ("folder", String::new())
                }
                kind if kind.is_fifo() || kind.is_char_device() => {
                    ("special", stat.ino().to_string())
                }
                _ => ("file", stat.ino().to_string()),
            };
            found.insert(name, told);
        }
    }
    found
}

/// What has changed at the target while `change` ran. What is there keeps its inode number from being used again.
fn changed_by(base: &Path, change: impl FnOnce()) -> List {
    let (target, kept) = (base.join("dst"), base.join("kept"));
    fs::create_dir(&kept).unwrap();
    let before = state(&target);
    for (number, name) in before.keys().enumerate() {
        if !name.ends_with('/') {
            fs::hard_link(target.join(name), kept.join(number.to_string())).unwrap();
        }
    }
    change();
    let after = state(&target);
    let changed = after
        .iter()
        .filter(|(name, told)| before.get(*name) != Some(told));
    List {
        made: changed
            .map(|(name, (kind, _))| (name.clone(), (*kind).to_owned()))
            .collect(),
        removed: before
            .into_keys()
            .filter(|name| !after.contains_key(name))
            .collect(),
    }
}

/// A way to carry out a job that pushes: whatever its direction.
const WAYS: [&str; 3] = ["push", "pull", "between"];

fn carry_out(way: &str, mut job: Value) -> Value {
    job["direction"] = json!(if way == "between" { "push" } else { way });
    match way {
        "between" => run(&between(job, "sender")),
        _ => Ends::run(&job),
    }
    .unwrap()
}

pub fn the_list_is_that_of_rsync_and_what_the_copy_then_does() {
    for (words, more) in options() {
        for way in WAYS {
            let base = tempfile::tempdir().unwrap();
            let base = base.path();
            world(base);
            let (source, target) = (base.join("src"), base.join("dst"));
            let slash = format!("{}/", source.display());
            let rsync = of_rsync(words, &slash, &target);
            let job = with(job(way, &[&source.join(".")], &target), &more);
            let mut dry = job.clone();
            dry["dry_run"] = json!(true);
            let before = state(&target);
            let would = carry_out(way, dry);
            assert_eq!(state(&target), before, "it changes nothing");
            let listed = of_plan(&would);
            if words.is_empty() {
                let kinds: BTreeSet<_> = listed.made.iter().map(|(_, kind)| kind).collect();
                assert_eq!(kinds.len(), 5, "{kinds:?}");
            }
            assert_eq!(
                of_plan(&would).told_by_rsync(),
                rsync.told_by_rsync(),
                "{way} {words:?}"
            );
            let done = changed_by(base, || drop(carry_out(way, job)));
            let as_files = |list: List| -> BTreeSet<_> {
                let made = list.made.into_iter();
                made.map(|(name, kind)| (name, kind.replace("hard-link", "file")))
                    .collect()
            };
            if words.contains(&"--delete") {
                // What goes for something of the same kind of name is made anew.
                let made = |name: &&String| done.made.iter().any(|(made, _)| made == *name);
                let gone: BTreeSet<_> = listed.removed.iter().filter(|one| !made(one)).collect();
                assert_eq!(gone, done.removed.iter().collect(), "{way}");
            }
            assert_eq!(as_files(listed), as_files(done), "{way} {words:?}");
        }
    }
}

pub fn a_new_target_is_listed_itself_and_a_named_source_by_its_name() {
    for way in WAYS {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        world(base);
        let source = base.join("src");
        let new = base.join("new");
        let slash = format!("{}/", source.display());
        for (source, word, target) in [
            (source.join("."), slash.as_str(), &new),
            (source.clone(), source.to_str().unwrap(), &base.join("dst")),
        ] {
            let rsync = of_rsync(&[], word, target);
            let more = json!({"dry_run": true, "destination_is_folder": true});
            let would = carry_out(way, with(job(way, &[&source], target), &more));
            let listed = of_plan(&would);
            let first = if target == &new { "./" } else { "src/" };
            let first = (first.to_owned(), "folder".to_owned());
            assert!(listed.made.contains(&first), "{listed:?}");
            let counts = ["folders", "links", "special_files"].map(|key| would[key].as_u64());
            let count = |kinds: &[&str]| {
                let of_kind = |(_, kind): &&(String, String)| kinds.contains(&kind.as_str());
                Some(listed.made.iter().filter(of_kind).count() as u64)
            };
            let expected = [
                count(&["folder"]),
                count(&["link", "hard-link"]),
                count(&["special"]),
            ];
            assert_eq!(counts, expected, "{way}");
            assert_eq!(
                listed.told_by_rsync(),
                rsync.told_by_rsync(),
                "{way} {word}"
            );
            assert!(!new.exists());
        }
    }
}
