//! What docs/guarantees.md excludes of a disk that lost its power.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::copies::{Copy, Kind, Node, Tree, tree_of};

/// The targets of the copies.
pub const TARGETS: [&str; 4] = ["one", "two", "new", "mirror"];
/// The mode of a folder until it gets its own.
const CLOSED: u32 = libc::S_IFDIR | 0o700;

/// How far a step of a copy was at a cut.
#[derive(Debug, Default, Clone, Copy)]
pub struct Step {
    pub done: usize,
    pub all: usize,
}

impl Step {
    pub fn is_amid(self) -> bool {
        0 < self.done && self.done < self.all
    }
}

/// The steps of a mirror that come after the last byte; without one that runs, nothing is to be done.
#[derive(Debug, Default, Clone, Copy)]
pub struct Steps {
    /// What the source has not goes.
    pub removal: Step,
    /// Files get their other names.
    pub other_names: Step,
    /// Folders get their attributes.
    pub folders: Step,
}

/// What a target may be after a cut.
struct Sight<'a> {
    target: &'a str,
    found: Tree,
    /// The last copy that had ended, if one had.
    finished: Option<&'a Copy>,
    /// The one that had begun after it, if one had.
    running: Option<&'a Copy>,
    wrong: Vec<String>,
}

/// Says what is excluded of what is on the disk after a cut behind `cut` events, and how far the mirror was.
pub fn excluded(root: &Path, copies: &[Copy], cut: usize) -> (Vec<String>, Steps) {
    let mut wrong = Vec::new();
    let mut steps = Steps::default();
    for target in TARGETS {
        let begun: Vec<&Copy> = copies
            .iter()
            .filter(|copy| copy.target == target && copy.begun < cut)
            .collect();
        let finished = begun.iter().rposition(|copy| copy.ended <= cut);
        let mut sight = Sight {
            target,
            found: tree_of(&root.join(target)),
            finished: finished.map(|at| begun[at]),
            running: begun.get(finished.map_or(0, |at| at + 1)).copied(),
            wrong: Vec::new(),
        };
        sight.each_name_is_of_a_copy();
        sight.what_was_finished_is_there();
        sight.what_is_removed_goes_last();
        sight.other_names_are_of_one_file();
        if target == "mirror" {
            steps = sight.steps();
        }
        wrong.append(&mut sight.wrong);
    }
    (wrong, steps)
}

impl<'a> Sight<'a> {
    fn say(&mut self, path: &Path, what: &str) {
        self.wrong
            .push(format!("{}/{}: {what}", self.target, path.display()));
    }

    /// What a name may be, and what it may be given.
    fn sent(&self, path: &Path) -> impl Iterator<Item = &'a Node> {
        let copies = self.finished.into_iter().chain(self.running);
        copies.filter_map(|copy| copy.tree.get(path))
    }

    /// A name stands for what a copy has sent, whole and with all that it gets, or is a part.
    fn each_name_is_of_a_copy(&mut self) {
        for (path, node) in self.found.clone() {
            if node.is_file() && self.is_part(&path) {
                continue;
            }
            let as_sent: Vec<&Node> = self.sent(&path).filter(|sent| sent.is_as(&node)).collect();
            if as_sent.is_empty() {
                self.say(&path, "not as it was sent");
            } else if self.running.is_none() {
                // It is compared as a whole.
            } else if node.is_file() {
                // Of a file whose content is the same in both, each is given by itself.
                let field =
                    |of: fn(&Node) -> Vec<u8>| as_sent.iter().any(|sent| of(sent) == of(&node));
                let each = field(|node| node.mode.to_le_bytes().to_vec())
                    && field(|node| node.user.to_le_bytes().to_vec())
                    && field(|node| node.group.to_le_bytes().to_vec())
                    && field(|node| node.xattr.clone());
                let alike = as_sent.len() > 1;
                if !(as_sent.iter().any(|sent| sent.is_given_as(&node)) || alike && each) {
                    self.say(&path, "it is whole, and was not given what it gets");
                }
            } else if !as_sent
                .iter()
                .any(|sent| [CLOSED, sent.mode | 0o700, sent.mode].contains(&node.mode))
            {
                self.say(&path, "a folder has a mode that nobody gave it");
            }
        }
    }

    /// What a copy has finished is there, unless one that has begun since may have changed it.
    fn what_was_finished_is_there(&mut self) {
        let Some(finished) = self.finished else {
            return;
        };
        for (path, sent) in &finished.tree {
            let found = self.found.get(path);
            let stays = match self.running {
                None => found == Some(sent),
                Some(running) => {
                    let goes = running.kind == Kind::Mirrors && !running.tree.contains_key(path);
                    found.is_some() || goes
                }
            };
            if !stays {
                self.say(path, "was finished, and is not there");
            }
        }
    }

    /// Names that the source of a running mirror has not, and of them those that are gone.
    fn extraneous(&self) -> (BTreeSet<PathBuf>, BTreeSet<PathBuf>) {
        let (Some(finished), Some(running)) = (self.finished, self.running) else {
            return Default::default();
        };
        let extraneous: BTreeSet<PathBuf> = finished
            .tree
            .keys()
            .filter(|path| !running.tree.contains_key(*path))
            .cloned()
            .collect();
        let gone = extraneous
            .iter()
            .filter(|path| !self.found.contains_key(*path))
            .cloned()
            .collect();
        (extraneous, gone)
    }

    /// Nothing goes before all that came is there, with all names and all that files get.
    fn what_is_removed_goes_last(&mut self) {
        let (_, gone) = self.extraneous();
        let (Some(running), Some(one)) = (self.running, gone.first()) else {
            return;
        };
        for (path, sent) in &running.tree {
            let there = self
                .found
                .get(path)
                .is_some_and(|found| match sent.is_file() {
                    true => found == sent,
                    false => found.kind() == sent.kind(),
                });
            if !there {
                self.say(
                    path,
                    &format!("is not there, and {} is gone", one.display()),
                );
            }
        }
    }

    /// The names that a file has got are names of one file.
    fn other_names_are_of_one_file(&mut self) {
        let mut files: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
        for copy in self.running.iter().chain(&self.finished) {
            for (path, sent) in copy.tree.iter().filter(|(_, sent)| sent.is_file()) {
                if let Some(found) = self.found.get(path).filter(|found| found.is_as(sent))
                    && copy.kind == Kind::Mirrors
                {
                    files.entry(&sent.first).or_default().insert(&found.first);
                }
            }
            let split: Vec<PathBuf> = files
                .iter()
                .filter(|(_, found)| found.len() > 1)
                .map(|(first, _)| (*first).to_owned())
                .collect();
            files.clear();
            self.wrong.extend(split.into_iter().map(|first| {
                format!(
                    "{}/{}: its names are of several files",
                    self.target,
                    first.display()
                )
            }));
        }
    }

    /// Whether a file is one that a copy writes beside a target, or the mark of a folder that is not complete.
    fn is_part(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap().to_str().unwrap();
        let copies = || self.finished.into_iter().chain(self.running);
        if path == Path::new(".howdah-part") {
            return self.running.is_some_and(|copy| copy.kind == Kind::Renames);
        }
        let of = name
            .strip_prefix('.')
            .and_then(|name| name.strip_suffix(".howdah-part"));
        let Some(of) = of.map(|name| path.with_file_name(name)) else {
            return false;
        };
        copies().any(|copy| copy.tree.contains_key(&of))
    }

    fn steps(&self) -> Steps {
        let Some(running) = self.running else {
            return Steps::default();
        };
        let (extraneous, gone) = self.extraneous();
        let step = |is: &dyn Fn(&Path, &Node) -> bool, is_done: &dyn Fn(&Node, &Node) -> bool| {
            let sent = running.tree.iter().filter(|(path, node)| is(path, node));
            let sent: Vec<_> = sent.collect();
            let found = sent
                .iter()
                .filter(|(path, sent)| {
                    let found = self.found.get(*path);
                    found.is_some_and(|found| is_done(found, sent))
                })
                .count();
            Step {
                done: found,
                all: sent.len(),
            }
        };
        let other_name = |path: &Path, node: &Node| node.is_file() && node.first != path;
        let kept_folder = |path: &Path, node: &Node| !node.is_file() && path.starts_with("folders");
        Steps {
            removal: Step {
                done: gone.len(),
                all: extraneous.len(),
            },
            other_names: step(&other_name, &Node::is_as),
            folders: step(&kept_folder, &Node::is_given_as),
        }
    }
}
