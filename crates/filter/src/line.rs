//! A line of a filter file or of the command line.

use crate::rule::{Merge, Rule, Side, Sides};
use crate::{FilterError, MAX_RULE_BYTES, pattern::Pattern};

/// How lines are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// Each line is a pattern, included or not, and nothing stands before it.
    pub unprefixed: Option<bool>,
    /// Each line is a pattern, included or not, unless `+ ` or `- ` stands before it, or it is `!`.
    pub bare: Option<bool>,
    /// Rules are set apart by any white space, and there are no comments.
    pub words: bool,
    /// All rules are perishable.
    pub perishable: bool,
    /// Where all rules count; none of them says it itself.
    pub sides: Option<Sides>,
}

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// All rules before it count no more.
    Clear,
    /// A rule.
    Rule(Rule),
    /// A file of rules.
    Merge(Merge),
}

/// What stands before a pattern.
#[derive(Default)]
struct Prefix {
    include: bool,
    negated: bool,
    perishable: bool,
    sender: bool,
    receiver: bool,
    merge: Option<Prefixed>,
}

/// What stands before the name of a file of rules.
#[derive(Default)]
struct Prefixed {
    per_folder: bool,
    unprefixed: Option<bool>,
    excludes_itself: bool,
    not_inherited: bool,
    words: bool,
}

const CVS: &str =
    "the patterns of CVS are not known here; name what to leave out, as --exclude '*.o'";
const UNKNOWN: &str = "it begins with no known word; write for example '- PATTERN' or '+ PATTERN'";
const NO_PATTERN: &str = "a pattern or a name is missing at its end";

impl Style {
    /// The style of `--exclude` and `--include`.
    pub fn bare(include: bool) -> Self {
        Self {
            bare: Some(include),
            ..Self::default()
        }
    }

    /// What one line is; `None` where it is empty.
    ///
    /// # Errors
    /// When it is no rule.
    pub fn read(&self, text: &[u8]) -> Result<Option<Line>, FilterError> {
        let wrong = |why| FilterError::rule(text, why);
        if text.is_empty() {
            return Ok(None);
        }
        if text.len() > MAX_RULE_BYTES {
            return Err(wrong("it is longer than any path can be"));
        }
        if text.contains(&0) {
            return Err(wrong(
                "it holds a NUL byte; with --from0 rules are set apart by them",
            ));
        }
        if let Some(include) = self.unprefixed {
            return self.made(&Prefix::of(include), text, text).map(Some);
        }
        if let Some(include) = self.bare {
            let (include, pattern) = match text {
                b"!" => return Ok(Some(Line::Clear)),
                [b'-', b' ', pattern @ ..] => (false, pattern),
                [b'+', b' ', pattern @ ..] => (true, pattern),
                pattern => (include, pattern),
            };
            return self.made(&Prefix::of(include), pattern, text).map(Some);
        }
        let (letter, at) = word(text).ok_or_else(|| wrong(UNKNOWN))?;
        let length = text[at..].iter().position(|&byte| b" _".contains(&byte));
        let end = length.map_or(text.len(), |length| at + length);
        let pattern = text.get(end + 1..).unwrap_or_default();
        if letter == b'!' {
            return match &text[at..] {
                b"" => Ok(Some(Line::Clear)),
                _ => Err(wrong("nothing may follow the rule that clears the list")),
            };
        }
        let mut prefix = Prefix::default();
        let fixed_side = prefix.begin(letter).ok_or_else(|| wrong(UNKNOWN))?;
        for &modifier in &text[at..end] {
            prefix.modify(modifier, fixed_side).map_err(wrong)?;
        }
        self.made(&prefix, pattern, text).map(Some)
    }

    /// What the text of a file is, line by line.
    ///
    /// # Errors
    /// When one of them is no rule.
    pub fn read_all(&self, text: &[u8], nul_separated: bool) -> Result<Vec<Line>, FilterError> {
        let ends = |byte: &u8| match nul_separated {
            true => *byte == 0,
            false => matches!(byte, b'\n' | b'\r'),
        };
        let splits =
            |byte: &u8| ends(byte) || self.words && (byte.is_ascii_whitespace() || *byte == 0x0b);
        text.split(splits)
            .filter(|line| self.words || !line.starts_with(b"#") && !line.starts_with(b";"))
            .filter_map(|line| self.read(line).transpose())
            .collect()
    }

    fn made(&self, prefix: &Prefix, pattern: &[u8], whole: &[u8]) -> Result<Line, FilterError> {
        let wrong = |why| FilterError::rule(whole, why);
        if pattern.is_empty() {
            return Err(wrong(NO_PATTERN));
        }
        let own = match (prefix.sender, prefix.receiver) {
            (false, false) => None,
            (true, false) => Some(Sides::Only(Side::Sender)),
            (false, true) => Some(Sides::Only(Side::Receiver)),
            (true, true) => Some(Sides::Both),
        };
        if own.is_some() && self.sides.is_some() {
            return Err(wrong(
                "it names a side, and so does the rule that merges its file; leave one of them out",
            ));
        }
        let sides = own.or(self.sides);
        let perishable = prefix.perishable || self.perishable;
        let Some(merge) = &prefix.merge else {
            return Ok(Line::Rule(Rule {
                include: prefix.include,
                negated: prefix.negated,
                perishable,
                sides: sides.unwrap_or(Sides::Unsaid),
                pattern: Pattern::new(pattern),
            }));
        };
        let name = match merge.per_folder {
            true => pattern.strip_prefix(b"/").unwrap_or(pattern),
            false => pattern,
        };
        if merge.per_folder && (name.contains(&b'/') || matches!(name, b"" | b"." | b"..")) {
            return Err(wrong(
                "a filter file of each folder has a name without folders in it",
            ));
        }
        Ok(Line::Merge(Merge {
            name: name.to_vec(),
            per_folder: merge.per_folder,
            inherited: !merge.not_inherited,
            excludes_itself: merge.excludes_itself,
            style: Self {
                unprefixed: merge.unprefixed,
                bare: None,
                words: merge.words,
                perishable,
                sides,
            },
        }))
    }
}

/// The letter of the rule that a line begins with, and where its modifiers begin.
fn word(text: &[u8]) -> Option<(u8, usize)> {
    const WORDS: [(&[u8], u8); 9] = [
        (b"clear", b'!'),
        (b"dir-merge", b':'),
        (b"exclude", b'-'),
        (b"hide", b'H'),
        (b"include", b'+'),
        (b"merge", b'.'),
        (b"protect", b'P'),
        (b"risk", b'R'),
        (b"show", b'S'),
    ];
    for (word, letter) in WORDS {
        if let Some(rest) = text.strip_prefix(word)
            && matches!(rest.first(), None | Some(b' ' | b'_' | b','))
        {
            return Some((letter, word.len() + usize::from(rest.starts_with(b","))));
        }
    }
    let letter = *text.first()?;
    Some((letter, 1 + usize::from(text.get(1) == Some(&b','))))
}

impl Prefix {
    fn of(include: bool) -> Self {
        Self {
            include,
            ..Self::default()
        }
    }

    /// Takes the rule's letter; says whether that names its side.
    fn begin(&mut self, letter: u8) -> std::option::Option<bool> {
        match letter {
            b'-' => {}
            b'+' => self.include = true,
            b'.' | b':' => {
                self.merge = Some(Prefixed {
                    per_folder: letter == b':',
                    ..Prefixed::default()
                });
            }
            b'H' | b'S' => (self.sender, self.include) = (true, letter == b'S'),
            b'P' | b'R' => (self.receiver, self.include) = (true, letter == b'R'),
            _ => return None,
        }
        Some(self.sender || self.receiver)
    }

    fn modify(&mut self, modifier: u8, fixed_side: bool) -> Result<(), &'static str> {
        match (modifier, &mut self.merge) {
            (b'C', _) => return Err(CVS),
            (b'/', _) => {
                return Err(
                    "'/' stands for absolute paths, which are not compared here; anchor it at a source, as '- /a'",
                );
            }
            (b'x', _) => {
                return Err("extended attributes are not copied, so there is nothing for 'x'");
            }
            (b'p', _) => self.perishable = true,
            (b'r' | b's', _) if fixed_side => {
                return Err(
                    "it names its side by its first word and by a modifier; leave the modifier out",
                );
            }
            (b'r', _) => self.receiver = true,
            (b's', _) => self.sender = true,
            (b'!', None) => self.negated = true,
            (b'-' | b'+', Some(merge)) if merge.unprefixed.is_none() => {
                merge.unprefixed = Some(modifier == b'+');
            }
            (b'e', Some(merge)) => merge.excludes_itself = true,
            (b'n', Some(merge)) => merge.not_inherited = true,
            (b'w', Some(merge)) => merge.words = true,
            _ => {
                return Err(
                    "it has a modifier that is not known there; a space or '_' stands before the pattern",
                );
            }
        }
        Ok(())
    }
}
