//! One rule, and its text.

use crate::pattern::Pattern;

/// The end whose names a rule is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end that has the source: what is not sent.
    Sender,
    /// The end that has the target: what is not deleted.
    Receiver,
}

/// The ends at which a rule counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sides {
    /// At both, because it names none.
    Unsaid,
    /// At both, by name.
    Both,
    /// At one.
    Only(Side),
}

impl Sides {
    /// Whether it counts at one end.
    pub fn has(self, side: Side) -> bool {
        match self {
            Self::Unsaid | Self::Both => true,
            Self::Only(one) => one == side,
        }
    }

    fn letters(self) -> &'static [u8] {
        match self {
            Self::Unsaid => b"",
            Self::Both => b"rs",
            Self::Only(Side::Sender) => b"s",
            Self::Only(Side::Receiver) => b"r",
        }
    }
}

/// What is said of the names that match a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Whether they are copied, or left out.
    pub include: bool,
    /// It is of the names that do not match.
    pub negated: bool,
    /// It protects nothing in a folder that goes away.
    pub perishable: bool,
    /// Where it counts.
    pub sides: Sides,
    /// The pattern.
    pub pattern: Pattern,
}

impl Rule {
    /// A rule that leaves out what matches a pattern.
    pub(crate) fn exclude(pattern: &[u8]) -> Self {
        Self {
            include: false,
            negated: false,
            perishable: false,
            sides: Sides::Unsaid,
            pattern: Pattern::new(pattern),
        }
    }

    /// Whether the rule is of that path below the transfer's root; `base` as in [`Pattern::matches`].
    pub fn is_of(&self, path: &[u8], is_folder: bool, base: &[u8]) -> bool {
        self.pattern.matches(path, is_folder, base) != self.negated
    }

    /// The rule as text, always the same for the same rule.
    pub fn text(&self) -> Vec<u8> {
        let sign: &[u8] = if self.include { b"+" } else { b"-" };
        let not: &[u8] = if self.negated { b"!" } else { b"" };
        let perishable: &[u8] = if self.perishable { b"p" } else { b"" };
        let pattern = self.pattern.text();
        [sign, not, self.sides.letters(), perishable, b" ", &pattern].concat()
    }
}

/// A file of rules, merged where it is named, or read in each folder that is scanned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// Its name.
    pub name: Vec<u8>,
    /// Whether it is looked for in each folder.
    pub per_folder: bool,
    /// Whether its rules count below the folder it is in.
    pub inherited: bool,
    /// Whether the file itself is left out.
    pub excludes_itself: bool,
    /// How its text is read.
    pub style: crate::Style,
}

impl Merge {
    /// The rule as text, always the same for the same rule.
    pub fn text(&self) -> Vec<u8> {
        let style = &self.style;
        let mut text = vec![if self.per_folder { b':' } else { b'.' }];
        match style.unprefixed {
            Some(true) => text.push(b'+'),
            Some(false) => text.push(b'-'),
            None => {}
        }
        let flags = [
            (self.excludes_itself, b'e'),
            (!self.inherited, b'n'),
            (style.words, b'w'),
            (style.perishable, b'p'),
        ];
        let given = flags.into_iter().filter(|(given, _)| *given);
        text.extend(given.map(|(_, letter)| letter));
        if let Some(sides) = style.sides {
            text.extend(sides.letters());
        }
        text.push(b' ');
        text.extend(&self.name);
        text
    }
}
