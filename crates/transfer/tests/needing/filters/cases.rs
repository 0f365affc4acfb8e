//! A random tree and random rules for it, of few names, so that the rules meet the tree often.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use howdah_filter::Option as Given;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const NAMES: [&str; 9] = ["a", "b", "ab", "a.o", "b.o", "abc", "x", "A1", "-b"];
const FILTER_FILE: &str = ".f";
const MOST_ENTRIES: usize = 16;
const MOST_DEPTH: usize = 4;

/// The option by which a rule is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Filter,
    Exclude,
    Include,
    ExcludeFrom,
    IncludeFrom,
}

impl By {
    /// What stands before the value on rsync's command line.
    pub fn flag(self) -> &'static [u8] {
        match self {
            Self::Filter => b"--filter=",
            Self::Exclude => b"--exclude=",
            Self::Include => b"--include=",
            Self::ExcludeFrom => b"--exclude-from=",
            Self::IncludeFrom => b"--include-from=",
        }
    }

    /// The same for howdah.
    pub fn option(self) -> Given {
        match self {
            Self::Filter => Given::Filter,
            Self::Exclude => Given::Exclude,
            Self::Include => Given::Include,
            Self::ExcludeFrom => Given::ExcludeFrom,
            Self::IncludeFrom => Given::IncludeFrom,
        }
    }
}

/// A mistake made on purpose: how it changes a rule.
pub struct Mistake {
    pub what: &'static str,
    change: fn(&str) -> String,
}

pub const MISTAKES: [Mistake; 5] = [
    Mistake {
        what: "the last rule that matches decides",
        change: str::to_owned,
    },
    Mistake {
        what: "a leading slash anchors nothing",
        change: |text| text.replace(" /", " "),
    },
    Mistake {
        what: "a rule of folders is of files too",
        change: |text| text.strip_suffix('/').unwrap_or(text).to_owned(),
    },
    Mistake {
        what: "one star crosses slashes",
        change: |text| text.replace("**", "*").replace('*', "**"),
    },
    Mistake {
        what: "two stars do not cross slashes",
        change: |text| text.replace("***", "*").replace("**", "*"),
    },
];

/// One case: a tree, what of it is copied, and the rules.
#[derive(Debug, Clone)]
pub struct Case {
    /// By path: `None` a folder, else a file with this text; a text that begins with `->` is a link's.
    tree: BTreeMap<String, Option<String>>,
    /// Files of rules beside the tree.
    files: BTreeMap<String, String>,
    /// As for rsync: a trailing slash stands for the content.
    pub sources: Vec<String>,
    pub rules: Vec<(By, String)>,
}

struct Chance(Xoshiro256PlusPlus);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        (self.0.next_u64() % most as u64) as usize
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}

impl Case {
    /// The case of a number.
    pub fn new(number: u64) -> Self {
        let chance = &mut Chance(Xoshiro256PlusPlus::seed_from_u64(number));
        let mut case = Self {
            tree: BTreeMap::new(),
            files: BTreeMap::new(),
            sources: Vec::new(),
            rules: Vec::new(),
        };
        case.tree.insert("root".to_owned(), None);
        let per_folder = chance.one_in(3);
        case.grow(chance, "root", 0, per_folder);
        case.choose_sources(chance);
        for _ in 0..1 + chance.below(5) {
            let rule = case.rule(chance);
            case.rules.push(rule);
        }
        if per_folder {
            let modifiers = chance.of(&["", "", "n", "e", "-", "+", "w-", "n-", "s"]);
            let slash = chance.of(&["", "", "/"]);
            // With a slash rsync also reads the filter files above the sources, which howdah does not look for
            // (docs/leave-out.md). There are some where what is in the root is named.
            let above = case
                .sources
                .iter()
                .any(|source| source.starts_with("root/") && source != "root/");
            let slash = if above { "" } else { slash };
            let rule = (By::Filter, format!(":{modifiers} {slash}{FILTER_FILE}"));
            let at = chance.below(case.rules.len() + 1);
            case.rules.insert(at, rule);
            case.write_filter_files(chance, modifiers);
        }
        case
    }

    fn grow(&mut self, chance: &mut Chance, folder: &str, depth: usize, per_folder: bool) {
        for _ in 0..2 + chance.below(4) {
            if self.tree.len() > MOST_ENTRIES {
                return;
            }
            let path = format!("{folder}/{}", chance.of(&NAMES));
            if self.tree.contains_key(&path) {
                continue;
            }
            if depth < MOST_DEPTH && !chance.one_in(3) {
                self.tree.insert(path.clone(), None);
                self.grow(chance, &path, depth + 1, per_folder);
            } else if chance.one_in(6) {
                self.tree.insert(path, Some("->a".to_owned()));
            } else {
                self.tree.insert(path, Some(String::new()));
            }
        }
        if per_folder && chance.one_in(2) {
            self.tree
                .insert(format!("{folder}/{FILTER_FILE}"), Some("-".to_owned()));
        }
    }

    /// The content of the tree's root, the root by its name, or some of what is in it.
    fn choose_sources(&mut self, chance: &mut Chance) {
        // A link that is named itself is followed here, and is not by rsync.
        let in_it = self.tree.iter().filter(|(path, content)| {
            let link = content.as_ref().is_some_and(|text| text.starts_with("->"));
            path.matches('/').count() == 1 && !link
        });
        let in_it: Vec<String> = in_it.map(|(path, _)| path.clone()).collect();
        match chance.below(4) {
            0 if !in_it.is_empty() => {
                let some = in_it.iter().filter(|_| !chance.one_in(3)).cloned();
                self.sources = some.collect();
                if self.sources.is_empty() {
                    self.sources = in_it;
                }
            }
            1 => self.sources.push("root".to_owned()),
            _ => self.sources.push("root/".to_owned()),
        }
    }

    fn rule(&mut self, chance: &mut Chance) -> (By, String) {
        let pattern = self.pattern(chance);
        match chance.below(16) {
            0..=3 => (By::Exclude, pattern),
            4..=5 => (By::Include, pattern),
            6 => (By::Exclude, format!("+ {pattern}")),
            7..=11 => (By::Filter, self.prefixed(chance, &pattern)),
            12 => (By::Filter, "- *".to_owned()),
            13 => {
                let rules: Vec<String> = (0..1 + chance.below(3))
                    .map(|_| self.pattern(chance))
                    .collect();
                let text = format!("# rules\n\n; more\n{}\n", rules.join("\n"));
                let name = self.beside(text);
                (
                    if chance.one_in(2) {
                        By::ExcludeFrom
                    } else {
                        By::IncludeFrom
                    },
                    name,
                )
            }
            14 => {
                let rules: Vec<String> = (0..1 + chance.below(3))
                    .map(|_| {
                        let pattern = self.pattern(chance);
                        self.prefixed(chance, &pattern)
                    })
                    .collect();
                let text = rules.join(if chance.one_in(4) { "\r\n" } else { "\n" });
                let name = self.beside(text);
                let word = chance.of(&[". ", "merge ", ".e ", "._"]);
                (By::Filter, format!("{word}{name}"))
            }
            _ if chance.one_in(3) => (By::Filter, chance.of(&["!", "clear"]).to_owned()),
            _ => (
                By::Filter,
                format!("-! {}", chance.of(&["*/", "*.o", "a", "/root/**"])),
            ),
        }
    }

    fn beside(&mut self, text: String) -> String {
        let name = format!("rules-{}", self.files.len());
        self.files.insert(name.clone(), text);
        name
    }

    fn prefixed(&self, chance: &mut Chance, pattern: &str) -> String {
        let word = chance.of(&[
            "- ",
            "- ",
            "- ",
            "-_",
            "+ ",
            "+ ",
            "exclude ",
            "include ",
            "hide ",
            "show ",
            "protect ",
            "R ",
            "-s ",
            "-r ",
            "+s ",
            "-p ",
            "-! ",
            "+! ",
            "-,s ",
            "H_",
            "exclude,! ",
        ]);
        format!("{word}{pattern}")
    }

    /// Often a path of the tree, or its end, of which something was made a wildcard.
    fn pattern(&self, chance: &mut Chance) -> String {
        if chance.one_in(4) {
            return chance
                .of(&[
                    "*",
                    "*/",
                    "**",
                    "***",
                    "*.o",
                    "a*",
                    "?",
                    "[ab]",
                    "[!a]*",
                    "[[:upper:]]*",
                    "**/a",
                    "a/**",
                    "/*",
                    "/root/*",
                    "/*/a",
                    "a/*",
                    "*/b",
                    "a**b",
                    "**b/",
                    "\\a",
                    "\\*",
                    "a/***",
                    "[a-b]?",
                    "[]a]*",
                    "[^.]*.o",
                    "/**/a",
                    "a//",
                    "/",
                    "[a",
                    "*b*",
                    "[[:alnum:]-]b",
                    "?*/?*",
                    "**.o",
                    "*/*/*",
                    "x/***",
                ])
                .to_owned();
        }
        let paths: Vec<&String> = self.tree.keys().collect();
        let path = paths[chance.below(paths.len())];
        let names: Vec<&str> = path.split('/').collect();
        let root = usize::from(chance.one_in(2)).min(names.len() - 1);
        let first = match chance.below(3) {
            0 => root,
            _ => chance.below(names.len()),
        };
        let mut made = names[first..]
            .iter()
            .map(|name| self.part(chance, name))
            .collect::<Vec<_>>();
        if made.len() > 1 && chance.one_in(4) {
            let at = 1 + chance.below(made.len() - 1);
            made.splice(at..at + usize::from(chance.one_in(2)), ["**".to_owned()]);
        }
        let before = match chance.below(8) {
            0..=2 => "/",
            3 => "**/",
            _ => "",
        };
        let after = match chance.below(8) {
            0..=1 => "/",
            2 => "/***",
            3 => "/**",
            4 => "/*",
            _ => "",
        };
        format!("{before}{}{after}", made.join("/"))
    }

    fn part(&self, chance: &mut Chance, name: &str) -> String {
        match chance.below(9) {
            0 => "*".to_owned(),
            1 => format!("{}*", &name[..1]),
            2 => format!("*{}", &name[name.len() - 1..]),
            3 => format!("?{}", &name[1..]),
            4 => format!("[{}x]{}", &name[..1], &name[1..]),
            _ => name.to_owned(),
        }
    }

    fn write_filter_files(&mut self, chance: &mut Chance, modifiers: &str) {
        let paths: Vec<String> = self
            .tree
            .keys()
            .filter(|path| path.ends_with(FILTER_FILE))
            .cloned()
            .collect();
        for path in paths {
            let plain = modifiers.contains(['-', '+']);
            let mut text = String::new();
            for _ in 0..1 + chance.below(3) {
                let pattern = self.pattern(chance);
                let sided = modifiers.contains('s');
                text += &match chance.below(8) {
                    0 if !plain => "!".to_owned(),
                    1 => "# nothing".to_owned(),
                    2..=4 if !plain => format!("+ {pattern}"),
                    5 if !plain && !sided => self.prefixed(chance, &pattern),
                    _ if !plain => format!("- {pattern}"),
                    _ => pattern,
                };
                text += if modifiers.contains('w') && chance.one_in(2) {
                    " "
                } else {
                    "\n"
                };
            }
            self.tree.insert(path, Some(text));
        }
    }

    /// Makes the tree and the files of rules.
    pub fn make(&self, base: &Path) {
        for (path, content) in &self.tree {
            let path = base.join(path);
            match content {
                None => fs::create_dir(path).unwrap(),
                Some(text) if text.starts_with("->") => symlink(&text[2..], path).unwrap(),
                Some(text) => fs::write(path, text).unwrap(),
            }
        }
        for (name, text) in &self.files {
            fs::write(base.join(name), text).unwrap();
        }
    }

    /// Puts at a target what another case has, but for what would be in the way.
    pub fn clutter(&self, other: &Self, target: &Path) {
        fs::create_dir(target).unwrap();
        let named = self.sources.iter().any(|source| source == "root");
        let place = |path: &str| match (named, path.strip_prefix("root/")) {
            (false, Some(inside)) => inside.to_owned(),
            (false, None) => String::new(),
            (true, _) => path.to_owned(),
        };
        for (path, content) in &other.tree {
            let there = self.tree.get(path);
            // A folder in the place of a file, or the other way round, is no question of what is removed.
            let other_kind = there.is_some_and(|there| there.is_none() != content.is_none());
            let path = target.join(place(path));
            let has_folder = path.parent().is_some_and(Path::is_dir);
            if other_kind || !has_folder || path.symlink_metadata().is_ok() {
                continue;
            }
            match content {
                None => fs::create_dir(path).unwrap(),
                Some(text) if text.starts_with("->") => symlink(&text[2..], path).unwrap(),
                Some(text) => fs::write(path, text).unwrap(),
            }
        }
    }

    /// What would be copied without rules.
    pub fn content(&self) -> Vec<&str> {
        let whole = |path: &&str| {
            self.sources
                .iter()
                .any(|source| match source.strip_suffix('/') {
                    Some(folder) => path.starts_with(source.as_str()) && *path != folder,
                    None => path == source || path.starts_with(&format!("{source}/")),
                })
        };
        self.tree.keys().map(String::as_str).filter(whole).collect()
    }

    /// Whether there are filter files of folders.
    pub fn has_filter_files(&self) -> bool {
        self.rules.iter().any(|(_, text)| text.starts_with(':'))
            && self.tree.keys().any(|path| path.ends_with(FILTER_FILE))
    }

    /// Whether a rule takes something.
    pub fn includes(&self) -> bool {
        let takes = |(by, text): &(By, String)| {
            *by == By::Include || *by == By::IncludeFrom || text.starts_with(['+', 'S'])
        };
        self.rules.iter().any(takes)
    }

    /// The same case under rules with a mistake; `None` where it changes none.
    pub fn mistaken(&self, mistake: &Mistake) -> Option<Self> {
        let mut changed = self.clone();
        for (by, text) in &mut changed.rules {
            if matches!(by, By::Filter | By::Exclude | By::Include)
                && !text.starts_with([':', '.', 'm'])
            {
                // The change of a pattern that stands alone looks for what stands before it too.
                let lone = *by != By::Filter && !text.starts_with("+ ");
                let whole = if lone {
                    format!(" {text}")
                } else {
                    text.clone()
                };
                let new = (mistake.change)(&whole);
                *text = new
                    .strip_prefix(' ')
                    .filter(|_| lone)
                    .unwrap_or(&new)
                    .to_owned();
            }
        }
        if changed.rules == self.rules {
            changed.rules.reverse();
            let last = mistake.what.starts_with("the last");
            return (last && changed.rules != self.rules).then_some(changed);
        }
        Some(changed)
    }
}
