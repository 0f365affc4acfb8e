//! A far end at which one folder is all that a near end reaches, and near ends that try to leave it.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use howdah_transfer::Reach;
use rustix::fs::{CWD, RenameFlags, mkfifoat, renameat_with};
use serde_json::{Value, json};

use crate::ends::{Ends, content, listing, pull, push};

const SECRET: &[u8] = b"what nobody may see or change";
const OUT: &str = "it leads out of the folder that this login reaches; name a path in it";

/// The folder `root` that is served, `outside` beside it with a secret, and `near` at the near end.
struct World {
    base: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        for name in ["root", "outside", "near"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let world = Self { base };
        fs::write(world.path("outside/secret"), SECRET).unwrap();
        fs::write(world.path("near/file"), content(3000)).unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn start(&self, read_only: bool, job: &Value) -> Ends {
        let root = File::open(self.path("root")).unwrap();
        let plan = json!({"block_bytes": 1 << 16});
        Ends::start_within(Reach::beneath(root.into(), read_only), job, &plan)
    }

    fn run(&self, job: &Value) -> Result<Value, String> {
        self.start(false, job).result()
    }

    /// The copy fails in one line, and nothing outside the folder that is served has changed.
    fn refused(&self, job: &Value) -> String {
        let before = listing(&self.path("outside"));
        let refusal = self.run(job).unwrap_err();
        assert_eq!(listing(&self.path("outside")), before);
        assert!(!refusal.contains('\n'), "{refusal}");
        refusal
    }

    /// Links that lead out, as somebody with another way into the folder may have left them.
    fn plant(&self) {
        symlink("../outside", self.path("root/relative")).unwrap();
        symlink(self.path("outside"), self.path("root/absolute")).unwrap();
        symlink("/proc/self/root", self.path("root/magic")).unwrap();
        symlink("../outside/secret", self.path("root/leaf")).unwrap();
    }
}

#[test]
fn paths_begin_at_the_folder_whatever_they_look_like() {
    let world = World::new();
    let file = world.path("near/file");
    for (number, path) in ["/one", "two", "~/three", "/", "~", "sub/../four"]
        .iter()
        .enumerate()
    {
        if number == 5 {
            fs::create_dir(world.path("root/sub")).unwrap();
        }
        world.run(&push(&[&file], Path::new(path))).unwrap();
    }
    for name in ["one", "two", "three", "file", "four"] {
        let copied = fs::read(world.path("root").join(name)).unwrap();
        assert_eq!(copied, content(3000), "{name}");
    }
    let back = world.path("near/back");
    for path in ["/one", "two", "~/three", "sub/../four"] {
        world.run(&pull(&[Path::new(path)], &back)).unwrap();
        assert_eq!(fs::read(&back).unwrap(), content(3000), "{path}");
        fs::remove_file(&back).unwrap();
    }
    fs::create_dir(&back).unwrap();
    world.run(&pull(&[Path::new("/.")], &back)).unwrap();
    assert_eq!(fs::read_dir(&back).unwrap().count(), 6);
}

#[test]
fn a_push_does_not_leave_the_folder() {
    let world = World::new();
    world.plant();
    let file = world.path("near/file");
    for path in [
        "../new",
        "/../new",
        "../outside",
        "../outside/",
        "../outside/secret",
        "relative",
        "relative/",
        "relative/new",
        "relative/secret",
        "/absolute/new",
        "absolute",
        "magic/tmp/new",
        "leaf",
        "./relative/../new",
    ] {
        let refusal = world.refused(&push(&[&file], Path::new(path)));
        assert!(refusal.ends_with(OUT), "{path}: {refusal}");
    }
    let mut made = push(&[&file], Path::new("relative/made"));
    made["destination_is_folder"] = json!(true);
    assert!(world.refused(&made).ends_with(OUT));
    assert!(!world.path("new").exists());
}

#[test]
fn a_pull_does_not_leave_the_folder() {
    let world = World::new();
    world.plant();
    let to = world.path("near/got");
    for path in [
        "../outside",
        "../outside/secret",
        "/../outside/secret",
        "relative",
        "relative/secret",
        "relative/.",
        "absolute/secret",
        "magic/etc/passwd",
        "leaf",
    ] {
        let refusal = world.refused(&pull(&[Path::new(path)], &to));
        assert!(refusal.ends_with(OUT), "{path}: {refusal}");
        assert!(!to.exists(), "{path}");
    }
    // What exists outside is not told from what does not.
    let missing = world.refused(&pull(&[Path::new("../none")], &to));
    assert!(missing.ends_with(OUT), "{missing}");
}

#[test]
fn a_tree_with_links_that_lead_out_keeps_them_as_links() {
    let world = World::new();
    world.plant();
    let to = world.path("near/got");
    fs::create_dir(&to).unwrap();
    world.run(&pull(&[Path::new("/.")], &to)).unwrap();
    assert_eq!(
        fs::read_link(to.join("leaf")).unwrap(),
        Path::new("../outside/secret")
    );
    assert!(to.join("relative").is_symlink() && to.join("absolute").is_symlink());

    // A tree whose folders have the names of such links takes their place, and does not go through them.
    for name in ["relative", "absolute"] {
        let tree = world.path("near").join(name);
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("new"), b"new").unwrap();
        let whole = world.path("near/.");
        world.run(&push(&[&whole], Path::new("."))).unwrap();
        let there = world.path("root").join(name);
        assert!(!there.is_symlink() && there.join("new").exists());
        assert!(!world.path("outside/new").exists());
        fs::remove_dir_all(tree).unwrap();
    }
}

#[test]
fn special_files_that_are_left_out_are_not_counted() {
    let world = World::new();
    let tree = world.path("near/tree");
    fs::create_dir(&tree).unwrap();
    UnixListener::bind(tree.join("socket")).unwrap();
    mkfifoat(CWD, tree.join("fifo"), 0o600.into()).unwrap();
    symlink("socket", tree.join("link")).unwrap();
    let mut job = push(&[&tree], Path::new("/"));
    job["keep"] = json!({"specials": true});
    for _ in 0..2 {
        let outcome = world.run(&job).unwrap();
        let counted = (&outcome["links"], &outcome["special_files"]);
        assert_eq!(counted, (&json!(1), &json!(0)));
        let told = outcome["warnings"].as_array().unwrap();
        let left_out = |line: &&Value| {
            line.as_str()
                .unwrap()
                .starts_with("far end: left out /tree/")
        };
        assert_eq!(told.iter().filter(left_out).count(), 2, "{told:?}");
    }
    assert_eq!(fs::read_dir(world.path("root/tree")).unwrap().count(), 1);
}

#[test]
fn a_link_that_a_copy_brings_leads_no_later_copy_out() {
    let world = World::new();
    let planted = world.path("near/planted");
    fs::create_dir(&planted).unwrap();
    symlink(world.path("outside"), planted.join("way")).unwrap();
    world.run(&push(&[&planted], Path::new("/"))).unwrap();
    assert!(world.path("root/planted/way").is_symlink());
    let file = world.path("near/file");
    let refusal = world.refused(&push(&[&file], Path::new("planted/way/new")));
    assert!(refusal.ends_with(OUT), "{refusal}");
    let to = world.path("near/got");
    let refusal = world.refused(&pull(&[Path::new("planted/way/secret")], &to));
    assert!(refusal.ends_with(OUT), "{refusal}");
    // Through a folder whose own name leads into the folder again.
    symlink("planted", world.path("root/inner")).unwrap();
    world.run(&push(&[&file], Path::new("inner/new"))).unwrap();
    assert_eq!(
        fs::read(world.path("root/planted/new")).unwrap(),
        content(3000)
    );
}

#[test]
fn a_file_that_is_also_linked_outside_is_replaced_and_not_written_to() {
    let world = World::new();
    fs::hard_link(world.path("outside/secret"), world.path("root/file")).unwrap();
    let before = fs::metadata(world.path("outside/secret")).unwrap();
    world
        .run(&push(&[&world.path("near/file")], Path::new(".")))
        .unwrap();
    assert_eq!(fs::read(world.path("root/file")).unwrap(), content(3000));
    assert_eq!(fs::read(world.path("outside/secret")).unwrap(), SECRET);
    let after = fs::metadata(world.path("outside/secret")).unwrap();
    let kept = |of: &fs::Metadata| (of.ino(), of.mode(), of.mtime_nsec());
    assert_eq!(kept(&after), kept(&before));
}

/// Swaps two names again and again until it is dropped.
struct Swapping {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Swapping {
    fn of(one: PathBuf, two: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).unwrap();
                thread::yield_now();
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Swapping {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// A tree of folders with a file each, and a file of the name that the secret has.
fn tree(top: &Path) {
    for number in 0..200 {
        let folder = top.join(format!("{number}/sub"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), content(100 + number)).unwrap();
    }
    fs::write(top.join("secret"), content(77)).unwrap();
}

#[test]
fn a_link_that_takes_a_folders_place_while_files_move_leads_nothing_out() {
    let world = World::new();
    let (near, to) = (world.path("near/tree"), world.path("near/got"));
    tree(&near);
    world.run(&push(&[&near], Path::new("/"))).unwrap();
    symlink("../outside", world.path("root/link")).unwrap();
    let before = listing(&world.path("outside"));
    let (mut through, mut met) = (0, 0);
    for round in 0..40 {
        let swapping = Swapping::of(world.path("root/tree"), world.path("root/link"));
        let path = Path::new(["tree", "tree/.", "/tree"][round % 3]);
        fs::create_dir_all(&to).unwrap();
        let outcome = match round % 4 {
            0 | 2 => world.run(&push(&[&near.join(".")], path)),
            1 => world.run(&pull(&[path], &to)),
            _ => world.run(&pull(&[&path.join("secret")], &to)),
        };
        drop(swapping);
        match outcome {
            Ok(_) => through += 1,
            Err(why) if why.ends_with(OUT) => met += 1,
            // The link came after the folder had been opened, or a file has gone with it.
            Err(why) => assert!(why.starts_with("far end: cannot "), "{why}"),
        }
        assert_eq!(listing(&world.path("outside")), before);
        for (path, .., bytes) in listing(&to) {
            assert_ne!(bytes, SECRET, "{}", path.display());
        }
        fs::remove_dir_all(&to).unwrap();
    }
    assert!(
        through > 0 && met > 0,
        "{through} went through, {met} met the link"
    );
}

#[test]
fn a_login_that_may_only_read_takes_no_push() {
    let world = World::new();
    fs::write(world.path("root/data"), content(5000)).unwrap();
    let before = listing(&world.path("root"));
    let file = world.path("near/file");
    let mut memory = push(&[], Path::new(""));
    memory["memory_bytes"] = json!(1 << 20);
    let mut dry = push(&[&file], Path::new("new"));
    dry["dry_run"] = json!(true);
    let mut folder = push(&[&file], Path::new("made"));
    folder["destination_is_folder"] = json!(true);
    for job in [push(&[&file], Path::new("new")), memory, dry, folder] {
        let refusal = world.start(true, &job).result().unwrap_err();
        assert!(
            refusal.starts_with("far end: this login may only read here"),
            "{refusal}"
        );
        assert_eq!(listing(&world.path("root")), before);
    }
    let to = world.path("near/got");
    world
        .start(true, &pull(&[Path::new("/data")], &to))
        .result()
        .unwrap();
    assert_eq!(fs::read(to).unwrap(), content(5000));
}
