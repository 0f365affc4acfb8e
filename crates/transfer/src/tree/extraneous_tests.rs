//! What is extraneous, and that nothing else is.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::tree::content::Noting;
use crate::tree::removal;
use crate::tree::target::Target;

fn tree_path(path: &str) -> TreePath {
    TreePath::try_from(path.as_bytes().to_vec()).unwrap()
}

/// A target, and what a source has in each of its folders.
struct World {
    base: tempfile::TempDir,
    placement: Placement,
    contents: Contents,
    filters: Filters,
    most_names: usize,
    said: RefCell<Vec<String>>,
}

impl World {
    /// The target `dst`, in which these files and folders are, a folder by the slash at its end.
    fn new(there: &[&str]) -> Self {
        let base = tempfile::tempdir().unwrap();
        let target = base.path().join("dst");
        fs::create_dir(&target).unwrap();
        for path in there {
            let path = target.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                true => fs::create_dir_all(path).unwrap(),
                false => fs::write(path, "x").unwrap(),
            }
        }
        let folder = Arc::new(File::open(&target).unwrap().into());
        let placement = Placement::new(vec![Target {
            folder: Some(folder),
            folder_path: b"dst".to_vec(),
            name: None,
            renamed: None,
        }]);
        Self {
            base,
            placement,
            contents: Contents::default(),
            filters: Filters::default(),
            most_names: 4,
            said: RefCell::default(),
        }
    }

    fn target(&self) -> &Path {
        self.base.path()
    }

    /// The source has these names in a folder and no others.
    fn tell(&mut self, folder: &str, names: &[String]) {
        for (number, some) in names.chunks(3).enumerate() {
            let mut noting = Noting::new(0, &tree_path(folder));
            for name in some {
                assert!(noting.add(name.as_bytes()).is_none());
            }
            let mut content = noting.rest();
            content.complete = (number + 1) * 3 >= names.len();
            self.contents.add(&content, self.root()).unwrap();
        }
        if names.is_empty() {
            let content = Noting::new(0, &tree_path(folder)).rest();
            self.contents.add(&content, self.root()).unwrap();
        }
    }

    fn root(&self) -> Arc<OwnedFd> {
        Arc::clone(self.placement.folder_of(0).unwrap())
    }

    fn filtered(mut self, rules: &[&str]) -> Self {
        let rules = rules.iter().map(|rule| rule.as_bytes().to_vec());
        self.filters = Filters::try_from(rules.collect::<Vec<_>>()).unwrap();
        self
    }

    fn found(&self) -> Candidates {
        let warn = |line| self.said.borrow_mut().push(line);
        let search = Search {
            placement: &self.placement,
            sources: &[b"src/.".to_vec()],
            filters: &self.filters,
            excluded: false,
            one_file_system: false,
            in_the_way: &Spool::default(),
            dry_run: false,
            most_names: self.most_names,
            stop: &|| false,
            warn: &warn,
            looked_at: &AtomicU64::new(0),
        };
        search.run(&self.contents).unwrap()
    }

    /// The paths that are found, in their order, folders with a slash.
    fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let found = self.found();
        let read = found.each(&mut |Candidate { extraneous, .. }| {
            let slash = match extraneous.kind {
                Kind::Folder => "/",
                _ => "",
            };
            let path = String::from_utf8_lossy(extraneous.path.as_bytes()).into_owned();
            paths.push(path + slash);
            Ok(())
        });
        read.unwrap();
        assert_eq!(paths.len() as u64, found.count);
        paths
    }

    /// Removes what is found; how many could not be.
    fn remove(&self) -> (u64, u64) {
        let removed = AtomicU64::new(0);
        let warn = |line| self.said.borrow_mut().push(line);
        let failed =
            removal::remove(&self.placement, &self.found(), &removed, &warn, &|| false).unwrap();
        (removed.into_inner(), failed)
    }
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

fn sorted(mut paths: Vec<String>) -> Vec<String> {
    paths.sort();
    paths
}

#[test]
fn folders_come_behind_what_is_in_them_and_go_with_it() {
    let mut world = World::new(&[
        "keep",
        "gone",
        "old/a/b",
        "old/c",
        "old/empty/",
        "sub/x",
        "sub/y",
    ]);
    symlink("..", world.target().join("dst/old/up")).unwrap();
    world.tell("", &names(&["keep", "sub"]));
    world.tell("sub", &names(&["x"]));
    let paths = world.paths();
    let at = |path: &str| paths.iter().position(|one| one == path).unwrap();
    assert!(at("old/a/b") < at("old/a/") && at("old/a/") < at("old/") && at("old/up") < at("old/"));
    let all = [
        "gone",
        "old/",
        "old/a/",
        "old/a/b",
        "old/c",
        "old/empty/",
        "old/up",
        "sub/y",
    ];
    assert_eq!(sorted(paths), all);
    assert_eq!(world.remove(), (8, 0));
    assert_eq!(world.paths(), names(&[]));
    assert!(world.target().join("dst/sub/x").exists() && world.target().join("dst/keep").exists());
    assert_eq!(*world.said.borrow(), names(&[]));
}

#[test]
fn only_folders_of_the_source_are_looked_into() {
    let mut world = World::new(&["a/x", "b/x"]);
    world.tell("a", &[]);
    world.tell("nowhere", &[]);
    assert_eq!(world.paths(), ["a/x"]);
}

#[test]
fn a_folder_of_more_names_than_fit_into_memory_is_sifted_in_turns() {
    for most_names in [1, 3, 7, 1000] {
        let there: Vec<String> = (0..40).map(|number| format!("big/{number}")).collect();
        let mut world = World::new(&there.iter().map(String::as_str).collect::<Vec<_>>());
        world.most_names = most_names;
        let at_source = (0..60).filter(|number| number % 4 != 1);
        let at_source: Vec<String> = at_source.map(|number| number.to_string()).collect();
        world.tell("", &names(&["big"]));
        world.tell("big", &at_source);
        let gone = (0..40).filter(|number| number % 4 == 1);
        let gone = gone.map(|number: u32| format!("big/{number}")).collect();
        assert_eq!(sorted(world.paths()), sorted(gone), "{most_names}");
    }
}

#[test]
fn a_folder_that_appears_between_two_turns_loses_nothing() {
    let mut world = World::new(&["keep"]);
    world.most_names = 1;
    let at_source: Vec<String> = (0..9).map(|number| number.to_string()).collect();
    world.tell("late", &at_source);
    let looked_at = AtomicU64::new(0);
    let turns = AtomicU64::new(0);
    let late = world.target().join("dst/late");
    // It is made with all that the source has after its first names were told.
    let stop = || {
        if turns.fetch_add(1, Ordering::Relaxed) == 1 {
            fs::create_dir(&late).unwrap();
            for name in &at_source {
                fs::write(late.join(name), "x").unwrap();
            }
        }
        false
    };
    let search = Search {
        placement: &world.placement,
        sources: &[b"src/.".to_vec()],
        filters: &world.filters,
        excluded: false,
        one_file_system: false,
        in_the_way: &Spool::default(),
        dry_run: false,
        most_names: world.most_names,
        stop: &stop,
        warn: &|line| panic!("{line}"),
        looked_at: &looked_at,
    };
    let found = search.run(&world.contents).unwrap();
    assert_eq!((found.count, turns.into_inner()), (0, 3));
}

#[test]
fn no_link_leads_to_anything_that_is_removed() {
    let mut world = World::new(&["keep"]);
    let outside = world.target().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "x").unwrap();
    symlink(&outside, world.target().join("dst/way")).unwrap();
    symlink("../outside", world.target().join("dst/other")).unwrap();
    // The source has a folder of that name, which another program has replaced by a link.
    world.tell("", &names(&["keep", "way"]));
    world.tell("way", &[]);
    assert_eq!(world.paths(), ["other"]);
    assert_eq!(world.remove(), (1, 0));
    assert!(outside.join("precious").exists() && world.target().join("dst/way").is_symlink());
}

#[test]
fn what_has_become_a_link_since_it_was_found_leads_nowhere() {
    let mut world = World::new(&["old/precious"]);
    let outside = world.target().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "x").unwrap();
    world.tell("", &[]);
    let found = world.found();
    fs::rename(world.target().join("dst/old"), world.target().join("moved")).unwrap();
    symlink(&outside, world.target().join("dst/old")).unwrap();
    let warn = |line| world.said.borrow_mut().push(line);
    let removed = AtomicU64::new(0);
    let failed = removal::remove(&world.placement, &found, &removed, &warn, &|| false).unwrap();
    assert_eq!(
        (removed.into_inner(), failed),
        (0, 2),
        "{:?}",
        world.said.borrow()
    );
    assert!(outside.join("precious").exists());
}

#[test]
fn what_the_filters_leave_out_stays_and_so_does_the_folder_around_it() {
    let mut world =
        World::new(&["old/a.o", "old/b", "old/deep/c", "x.o", "y"]).filtered(&["- *.o"]);
    world.tell("", &[]);
    assert_eq!(
        sorted(world.paths()),
        ["old/b", "old/deep/", "old/deep/c", "y"]
    );
}

#[test]
fn filter_files_of_the_target_protect_what_is_below_them() {
    let there = ["a/x", "a/y", "a/b/x", "a/b/z", "c/x"];
    let mut world = World::new(&there).filtered(&[": .f"]);
    let filter_file = world.target().join("dst/a/.f");
    fs::write(filter_file, "- x\n- .f\n").unwrap();
    world.tell("", &names(&["a", "c"]));
    world.tell("a", &names(&["b"]));
    world.tell("a/b", &[]);
    world.tell("c", &[]);
    assert_eq!(sorted(world.paths()), ["a/b/z", "a/y", "c/x"]);
}

#[test]
fn what_a_copy_is_writing_stays_and_what_one_has_left_goes() {
    let mut world = World::new(&["old/.x.howdah-part", ".y.howdah-part", ".howdah-part"]);
    let target = world.target().join("dst");
    fs::write(target.join("old/.z.howdah-1f-2a-0"), "x").unwrap();
    world.tell("", &[]);
    let (locked, _) = part::open(world.root(), b".y.howdah-part").unwrap();
    assert_eq!(world.paths(), ["old/.x.howdah-part"]);
    drop(locked);
    assert_eq!(
        sorted(world.paths()),
        [".y.howdah-part", "old/.x.howdah-part"]
    );
    let (locked, _) = part::open(world.root(), b".y.howdah-part").unwrap();
    let found = {
        drop(locked);
        world.found()
    };
    let _locked = part::open(world.root(), b".y.howdah-part").unwrap();
    let warn = |line| world.said.borrow_mut().push(line);
    let removed = AtomicU64::new(0);
    let failed = removal::remove(&world.placement, &found, &removed, &warn, &|| false).unwrap();
    assert_eq!((removed.into_inner(), failed), (1, 1));
    assert!(target.join(".y.howdah-part").exists() && target.join(".howdah-part").exists());
}
