//! A list of rules, and what it says of a name.

use std::iter::successors;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::line::{Line, Style};
use crate::rule::{Merge, Rule, Side, Sides};
use crate::{FilterError, MAX_RULES, MAX_TEXT_BYTES};

/// What gives the text of a file of that name in the folder, if there is one.
pub type OpenInFolder<'a, E> = dyn FnMut(&[u8]) -> Result<Option<Vec<u8>>, E> + 'a;

/// Rules in their order. As text it is a rule a line, without merged files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<u8>>", into = "Vec<Vec<u8>>")]
pub struct Filters {
    entries: Vec<Entry>,
    /// Filter files that are looked for in each folder.
    per_folder: Vec<Merge>,
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Rule(Rule),
    /// What the filter files of that number say.
    PerFolder(usize),
}

/// What the filter files of a folder and of those above it say, by the number of the file.
#[derive(Debug, Clone, Default)]
pub struct Folder(Vec<Option<Arc<Local>>>);

/// What is asked of names at the target that are not at the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removal {
    /// Rules that name no end protect nothing, so what they leave out is removed too.
    pub excluded: bool,
    /// The folder that the name is in goes away: perishable rules protect nothing in it.
    pub perishes: bool,
}

/// The rules of one filter file.
#[derive(Debug)]
struct Local {
    /// The folder that it is in.
    base: Box<[u8]>,
    rules: Vec<Rule>,
    /// Those of the folders above, which come after them.
    above: Option<Arc<Local>>,
}

impl Filters {
    /// Whether folders are asked for filter files of their own.
    pub fn read_folders(&self) -> bool {
        !self.per_folder.is_empty()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn add(&mut self, rule: Rule) -> Result<(), FilterError> {
        self.count(rule.text().len())?;
        self.entries.push(Entry::Rule(rule));
        Ok(())
    }

    /// Adds a filter file of each folder. One that is there already counts where it was first.
    pub(crate) fn add_per_folder(&mut self, merge: Merge) -> Result<(), FilterError> {
        if self.per_folder.iter().any(|there| there.name == merge.name) {
            return Ok(());
        }
        self.count(merge.text().len())?;
        self.entries.push(Entry::PerFolder(self.per_folder.len()));
        self.per_folder.push(merge);
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), FilterError> {
        self.bytes += bytes;
        if self.entries.len() >= MAX_RULES || self.bytes > MAX_TEXT_BYTES {
            let why = "there are more than 16,384 filter rules, or they are larger than 1 MiB; \
                       use fewer with wildcards";
            return Err(FilterError::List(why));
        }
        Ok(())
    }

    /// What the filter files of a folder add to those of the folder that it is in; `above` is empty at the root.
    ///
    /// # Errors
    /// Of `open`, and when a file says what is no rule, with its name.
    pub fn enter<E>(
        &self,
        folder: &[u8],
        above: &Folder,
        open: &mut OpenInFolder<'_, E>,
    ) -> Result<Folder, (Vec<u8>, EnterError<E>)> {
        let mut here = Vec::with_capacity(self.per_folder.len());
        for (number, merge) in self.per_folder.iter().enumerate() {
            let failed = |error| (merge.name.clone(), error);
            let mut above = above.0.get(number).cloned().flatten();
            if !merge.inherited {
                above = None;
            }
            let text = open(&merge.name).map_err(|error| failed(EnterError::Open(error)))?;
            let Some(text) = text else {
                here.push(above);
                continue;
            };
            let rules = local_rules(&merge.style, &text, &mut above);
            let rules = rules.map_err(|error| failed(EnterError::Rules(error)))?;
            here.push(match rules.is_empty() {
                true => above,
                false => Some(Arc::new(Local {
                    base: folder.into(),
                    rules,
                    above,
                })),
            });
        }
        Ok(Folder(here))
    }

    /// Whether the rules leave out a path below the transfer's root, which is in `folder`.
    pub fn leave_out(&self, side: Side, folder: &Folder, path: &[u8], is_folder: bool) -> bool {
        self.first(side, folder, path, is_folder)
            .is_some_and(|rule| !rule.include)
    }

    /// Whether the rules protect a path at the target from removal, which is in `folder`.
    pub fn protect(&self, removal: Removal, folder: &Folder, path: &[u8], is_folder: bool) -> bool {
        let counts = |rule: &Rule| {
            rule.sides.has(Side::Receiver)
                && !(removal.excluded && rule.sides == Sides::Unsaid)
                && !(removal.perishes && rule.perishable)
        };
        self.decides(&counts, folder, path, is_folder)
            .is_some_and(|rule| !rule.include)
    }

    /// The rule that decides on a path; `None` where none matches.
    pub fn first<'a>(
        &'a self,
        side: Side,
        folder: &'a Folder,
        path: &[u8],
        is_folder: bool,
    ) -> Option<&'a Rule> {
        self.decides(&|rule| rule.sides.has(side), folder, path, is_folder)
    }

    /// The first rule that counts and matches a path.
    fn decides<'a>(
        &'a self,
        counts: &dyn Fn(&Rule) -> bool,
        folder: &'a Folder,
        path: &[u8],
        is_folder: bool,
    ) -> Option<&'a Rule> {
        let of = |base: &[u8], rule: &Rule| counts(rule) && rule.is_of(path, is_folder, base);
        self.entries.iter().find_map(|entry| match entry {
            Entry::Rule(rule) => of(b"", rule).then_some(rule),
            Entry::PerFolder(number) => {
                let nearest = folder.0.get(*number)?.as_deref();
                successors(nearest, |local| local.above.as_deref())
                    .find_map(|local| local.rules.iter().find(|rule| of(&local.base, rule)))
            }
        })
    }
}

/// Why the filter file of a folder cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnterError<E> {
    /// Its reader's reason.
    Open(E),
    /// It says what is no rule.
    Rules(FilterError),
}

fn local_rules(
    style: &Style,
    text: &[u8],
    above: &mut Option<Arc<Local>>,
) -> Result<Vec<Rule>, FilterError> {
    let mut rules = Vec::new();
    for line in style.read_all(text, false)? {
        match line {
            Line::Clear => {
                rules.clear();
                *above = None;
            }
            Line::Rule(rule) => rules.push(rule),
            Line::Merge(merge) => {
                let why = "a filter file of a folder merges no other files here; put its rules into this one";
                return Err(FilterError::rule(&merge.text(), why));
            }
        }
        if rules.len() > MAX_RULES {
            return Err(FilterError::List("there are more than 16,384 rules in it"));
        }
    }
    Ok(rules)
}

impl TryFrom<Vec<Vec<u8>>> for Filters {
    type Error = FilterError;

    fn try_from(rules: Vec<Vec<u8>>) -> Result<Self, FilterError> {
        let mut list = Self::default();
        for rule in rules {
            match Style::default().read(&rule)? {
                Some(Line::Rule(rule)) => list.add(rule)?,
                Some(Line::Merge(merge)) if merge.per_folder && !merge.excludes_itself => {
                    list.add_per_folder(merge)?;
                }
                _ => return Err(FilterError::rule(&rule, "it is no rule of a whole list")),
            }
        }
        Ok(list)
    }
}

impl From<Filters> for Vec<Vec<u8>> {
    fn from(list: Filters) -> Self {
        let entries = list.entries.iter().map(|entry| match entry {
            Entry::Rule(rule) => rule.text(),
            Entry::PerFolder(number) => list.per_folder[*number].text(),
        });
        entries.collect()
    }
}
