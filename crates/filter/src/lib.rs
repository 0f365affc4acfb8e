//! Rules that say what of a tree is copied, with the meaning of rsync's filter rules.
//!
//! Source: rsync(1), *FILTER RULES*, of rsync 3.5. The first rule that matches a name decides; a name that none matches
//! is copied. [`expand`] makes the one list of all that a user gave, merged files among it. [`Filters`] is that list,
//! which travels to the end that reads the tree. [`Folder`] is what the filter files of folders say below one of them.
//! Nothing here reads a file: callers hand the text over.
//!
//! Deviations, each refused with a reason: the modifiers `/` (absolute paths), `C` (CVS) and `x` (extended attributes);
//! merge rules within the filter file of a folder; such a file under a name with folders in it. Above the sources no
//! filter file is looked for, so `dir-merge /.rsync-filter` means `dir-merge .rsync-filter`.

mod expand;
mod filters;
mod glob;
mod line;
mod pattern;
mod rule;

pub use expand::{Given, Open, Option, expand};
pub use filters::{EnterError, Filters, Folder, OpenInFolder, Removal};
pub use glob::matches;
pub use line::{Line, Style};
pub use pattern::Pattern;
pub use rule::{Merge, Rule, Side, Sides};

/// Most rules of one list.
pub const MAX_RULES: usize = 16_384;
/// Longest rule, in bytes: the longest path and what stands before it.
pub const MAX_RULE_BYTES: usize = 4096 + 16;
/// Most text of one list, or of one file of rules, in bytes.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// Why text is no rule, or a list of rules cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// One rule that cannot be read.
    #[error("filter rule '{}': {why}", .rule.escape_ascii())]
    Rule {
        /// The rule as it was given, cut where it is long.
        rule: Vec<u8>,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Rules, each of which could be.
    #[error("{0}")]
    List(&'static str),
    /// A file of rules that cannot be read, in its reader's words.
    #[error("{0}")]
    File(String),
}

impl FilterError {
    fn rule(rule: &[u8], why: &'static str) -> Self {
        let rule = rule[..rule.len().min(80)].to_vec();
        Self::Rule { rule, why }
    }
}
