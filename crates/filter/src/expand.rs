//! The one list of all rules that a user gave.

use crate::filters::Filters;
use crate::line::{Line, Style};
use crate::rule::{Merge, Rule};
use crate::{FilterError, MAX_TEXT_BYTES};

/// Files that merge files, at the most.
const MAX_DEPTH: usize = 16;

/// The option by which something was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Option {
    /// A rule.
    Filter,
    /// A pattern to leave out.
    Exclude,
    /// A pattern to take.
    Include,
    /// A file of patterns to leave out.
    ExcludeFrom,
    /// A file of patterns to take.
    IncludeFrom,
}

/// One option and its value.
pub type Given<'a> = (Option, &'a [u8]);

/// What gives the text of a file by its name, or the reason why it cannot.
pub type Open<'a> = dyn FnMut(&[u8]) -> Result<Vec<u8>, String> + 'a;

/// Makes the one list, in the order in which the options were given. `open` gives the text of a file by its name.
///
/// # Errors
/// When something is no rule, a file cannot be read, or there is too much of it.
pub fn expand(
    given: &[Given<'_>],
    nul_separated: bool,
    open: &mut Open<'_>,
) -> Result<Filters, FilterError> {
    let mut made = Expansion {
        list: Filters::default(),
        nul_separated,
        read_bytes: 0,
        open,
    };
    for (option, text) in given {
        match option {
            Option::Filter => made.line(&Style::default(), text)?,
            Option::Exclude => made.line(&Style::bare(false), text)?,
            Option::Include => made.line(&Style::bare(true), text)?,
            Option::ExcludeFrom => made.file(&Style::bare(false), text, 0)?,
            Option::IncludeFrom => made.file(&Style::bare(true), text, 0)?,
        }
    }
    Ok(made.list)
}

struct Expansion<'a, 'b> {
    list: Filters,
    nul_separated: bool,
    read_bytes: usize,
    open: &'a mut Open<'b>,
}

impl Expansion<'_, '_> {
    fn line(&mut self, style: &Style, text: &[u8]) -> Result<(), FilterError> {
        match style.read(text)? {
            Some(line) => self.take(line, 0),
            None => Ok(()),
        }
    }

    fn file(&mut self, style: &Style, name: &[u8], depth: usize) -> Result<(), FilterError> {
        if depth >= MAX_DEPTH {
            let why = "its file merges files that merge files, without end";
            return Err(FilterError::rule(&[b". ", name].concat(), why));
        }
        let text = (self.open)(name).map_err(FilterError::File)?;
        self.read_bytes += text.len();
        if self.read_bytes > MAX_TEXT_BYTES {
            return Err(FilterError::List(
                "the files of filter rules are larger than 1 MiB",
            ));
        }
        for line in style.read_all(&text, self.nul_separated)? {
            self.take(line, depth + 1)?;
        }
        Ok(())
    }

    fn take(&mut self, line: Line, depth: usize) -> Result<(), FilterError> {
        match line {
            Line::Clear => self.list.clear(),
            Line::Rule(rule) => self.list.add(rule)?,
            Line::Merge(mut merge) => {
                if std::mem::take(&mut merge.excludes_itself) {
                    self.list.add(Rule::exclude(last_name(&merge)))?;
                }
                match merge.per_folder {
                    true => self.list.add_per_folder(merge)?,
                    false => self.file(&merge.style, &merge.name, depth)?,
                }
            }
        }
        Ok(())
    }
}

fn last_name(merge: &Merge) -> &[u8] {
    let slash = merge.name.iter().rposition(|&byte| byte == b'/');
    &merge.name[slash.map_or(0, |at| at + 1)..]
}
