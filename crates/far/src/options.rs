//! The words after `serve`, and the command that the client of a login for copies only has asked sshd for. That
//! command is compared and never run.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, stdin};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use howdah_site::{Ports, ports};
use howdah_wire::printable_within;

const USE: &str = "serve is the far end of a copy and is started over ssh; use: howdah cp SRC… HOST:PATH. \
    For a login of copies alone, in authorized_keys: howdah serve --root DIR [--read-only]";
const HAS: &str = "it has --root DIR, --read-only and --ports A-B";
/// The most connections that are taken ahead.
const AHEAD_MAX: u16 = 64;
/// Where a client can do nothing about what is wrong.
const MEND: &str = "the command of this login, in authorized_keys or sshd_config, is for the administrator of this host \
    to mend";
const ASKED_BYTES_MAX: usize = 200;

/// What is wrong with a command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A word of it.
    Word(String),
    /// The value of an option.
    Value(String),
}

impl Wrong {
    /// Why nothing is served. `forced` says that the line is in sshd's configuration, and does not come from the near
    /// end.
    pub fn in_words(self, forced: bool) -> String {
        match self {
            Self::Word(what) if forced => format!("{what}; {HAS}; {MEND}"),
            Self::Word(what) => format!("{what}; {USE}"),
            Self::Value(what) if forced => format!("{what}; {MEND}"),
            Self::Value(what) => what,
        }
    }
}

/// What is served.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The only folder that is served, if there is one.
    pub root: Option<OsString>,
    /// Whether it is only read.
    pub read_only: bool,
    /// What the near end asks for.
    pub asked: Asked,
}

/// The options that a near end may give a far end, also if its login is for copies only.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The range of data ports.
    pub ports: Option<Ports>,
    /// How many connections are accepted before there is a near end.
    pub ahead: Option<u16>,
}

impl Options {
    /// Reads the command line and, if sshd forces it, the command that the client has asked for.
    ///
    /// # Errors
    /// For words that are something else.
    pub fn read(words: &[OsString]) -> Result<Self, String> {
        let original = env::var_os("SSH_ORIGINAL_COMMAND");
        let mut options = Self::of(words).map_err(|wrong| wrong.in_words(original.is_some()))?;
        if stdin().is_terminal() {
            return Err(USE.to_owned());
        }
        let asked = match original {
            Some(asked) => asked_for(&asked)?,
            None if options.root.is_some() && env::var_os("SSH_CONNECTION").is_some() => {
                return Err(
                    "this login is for copies alone, without a shell; use: howdah cp SRC… HOST:PATH"
                        .to_owned(),
                );
            }
            None => Asked::default(),
        };
        // A forced command has options of its own, and the client of such a login may ask for some, too.
        let own = options.asked;
        options.asked = Asked {
            ports: asked.ports.or(own.ports),
            ahead: asked.ahead.or(own.ahead),
        };
        Ok(options)
    }

    /// Of the command line alone.
    ///
    /// # Errors
    /// For words that are something else.
    pub fn of(words: &[OsString]) -> Result<Self, Wrong> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let word = word.as_bytes();
            let (name, value) = match word.iter().position(|&byte| byte == b'=') {
                Some(at) => (&word[..at], Some(&word[at + 1..])),
                None => (word, None),
            };
            let shown = printable_within(name, ASKED_BYTES_MAX);
            let lacking = || Wrong::Word(format!("{shown} of serve needs a value"));
            let given = value.filter(|value| !value.is_empty());
            let mut value = || match value {
                Some(_) => given.ok_or_else(lacking),
                None => words.next().map(|word| word.as_bytes()).ok_or_else(lacking),
            };
            match name {
                b"--root" if options.root.is_none() => {
                    let root = value()?;
                    if root.is_empty() {
                        return Err(lacking());
                    }
                    options.root = Some(OsString::from_vec(root.to_vec()));
                }
                b"--ports" if options.asked.ports.is_none() => {
                    options.asked.ports = Some(range(value()?).map_err(Wrong::Value)?);
                }
                b"--ahead" if options.asked.ahead.is_none() => {
                    options.asked.ahead = Some(connections(value()?).map_err(Wrong::Value)?);
                }
                b"--read-only" if word == name => options.read_only = true,
                b"--root" | b"--ports" | b"--ahead" => {
                    return Err(Wrong::Word(format!("serve takes {shown} once")));
                }
                b"--read-only" => {
                    return Err(Wrong::Word(format!("{shown} of serve takes no value")));
                }
                _ if name.starts_with(b"-") => {
                    return Err(Wrong::Word(format!("serve has no option {shown}")));
                }
                _ => return Err(Wrong::Word(format!("serve takes no word '{shown}'"))),
            }
        }
        if options.read_only && options.root.is_none() {
            return Err(Wrong::Value(
                "--read-only is of a folder; give it with --root DIR, all files with --root /"
                    .to_owned(),
            ));
        }
        Ok(options)
    }
}

fn range(text: &[u8]) -> Result<Ports, String> {
    ports(&String::from_utf8_lossy(text))
}

fn connections(text: &[u8]) -> Result<u16, String> {
    let number = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number
        .filter(|number| (1..=AHEAD_MAX).contains(number))
        .ok_or_else(|| {
            let shown = printable_within(text, ASKED_BYTES_MAX);
            format!("--ahead of serve takes a number from 1 to {AHEAD_MAX}, and not '{shown}'")
        })
}

/// What the client of a login for copies asks for.
///
/// # Errors
/// For everything else.
pub fn asked_for(asked: &OsStr) -> Result<Asked, String> {
    let words = shlex::bytes::split(asked.as_bytes()).unwrap_or_default();
    let wanted = behind_howdah(&words);
    match &wanted[..] {
        [b"serve", options @ ..]
            if options
                .chunks(2)
                .all(|each| matches!(each, [b"--ports" | b"--ahead", _])) =>
        {
            let words = options.iter().map(|word| OsString::from_vec(word.to_vec()));
            let words: Vec<_> = words.collect();
            let options = Options::of(&words).map_err(|wrong| wrong.in_words(false))?;
            Ok(options.asked)
        }
        [b"reread", ..] => Err(
            "this login is for copies by howdah cp alone, it reads nothing again; howdah verify needs another \
             login; for howdah cp leave out --verify, and give --manifest a name that ends in .b3sum"
                .to_owned(),
        ),
        _ => {
            let shown = printable_within(asked.as_bytes(), ASKED_BYTES_MAX);
            Err(format!(
                "this login is for copies by howdah cp alone, it does not run: {shown}"
            ))
        }
    }
}

/// The words behind howdah, `sh -c` around them or not: `python/howdah/remote/far_command.py` has both.
fn behind_howdah(words: &[Vec<u8>]) -> Vec<&[u8]> {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    match words[..] {
        [b"sh", b"-c", _, b"howdah", role, ..] => {
            let words = role.split(u8::is_ascii_whitespace);
            words.filter(|word| !word.is_empty()).collect()
        }
        [b"sh", b"-c", ..] | [] => Vec::new(),
        [_, ref rest @ ..] => rest.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Options, Wrong> {
        let words: Vec<OsString> = line
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(Into::into)
            .collect();
        Options::of(&words)
    }

    #[test]
    fn options_are_taken_once_and_in_either_form() {
        assert_eq!(of(""), Ok(Options::default()));
        let whole = Options {
            root: Some("/data".into()),
            read_only: true,
            asked: Asked {
                ports: Some((5, 9)),
                ahead: Some(16),
            },
        };
        let line = "--root /data --read-only --ports 5-9 --ahead 16";
        assert_eq!(of(line).unwrap(), whole);
        let line = "--ports=5-9 --ahead=16 --read-only --root=/data";
        assert_eq!(of(line).unwrap(), whole);
        assert_eq!(of("--ports 7").unwrap().asked.ports, Some((7, 7)));
        for (wrong, says) in [
            ("now", "serve takes no word 'now'"),
            ("--readonly", "serve has no option --readonly"),
            ("--readonly=yes", "serve has no option --readonly"),
            ("--root", "--root of serve needs a value"),
            ("--root=", "--root of serve needs a value"),
            ("--ports=", "--ports of serve needs a value"),
            ("--ports", "--ports of serve needs a value"),
            ("--ports 1 --ports 2", "serve takes --ports once"),
            ("--root a --root b", "serve takes --root once"),
            ("--ahead 1 --ahead 1", "serve takes --ahead once"),
            ("--read-only=1", "--read-only of serve takes no value"),
        ] {
            let word = || Wrong::Word(says.to_owned());
            assert_eq!(of(wrong), Err(word()), "{wrong}");
            assert_eq!(word().in_words(false), format!("{says}; {USE}"));
            assert_eq!(
                word().in_words(true),
                format!(
                    "{says}; it has --root DIR, --read-only and --ports A-B; the command of this login, in \
                     authorized_keys or sshd_config, is for the administrator of this host to mend"
                )
            );
        }
        for (wrong, says) in [
            ("--ports 5-4", "is no range of ports; give for example"),
            ("--ports=0", "is no range of ports; give for example"),
            ("--ports +5", "is no range of ports; give for example"),
            ("--ports 70000", "is no range of ports; give for example"),
            ("--ahead 0", "takes a number from 1 to 64, and not '0'"),
            ("--ahead=65", "takes a number from 1 to 64, and not '65'"),
            ("--ahead -1", "takes a number from 1 to 64, and not '-1'"),
            ("--read-only", "give it with --root DIR, all files"),
        ] {
            let (plain, forced) = (of(wrong).unwrap_err(), of(wrong).unwrap_err());
            let plain = plain.in_words(false);
            assert!(plain.contains(says), "{plain}");
            assert_eq!(forced.in_words(true), format!("{plain}; {MEND}"));
        }
    }

    #[test]
    fn an_empty_word_is_no_folder() {
        for given in ["", "--read-only"] {
            let words = ["--root".into(), "".into(), given.into()];
            let lacks = "--root of serve needs a value".to_owned();
            assert_eq!(Options::of(&words), Err(Wrong::Word(lacks)));
        }
    }

    #[test]
    fn a_client_asks_for_copies_and_a_range_and_nothing_else() {
        for (asked, ports, ahead) in [
            ("howdah serve", None, None),
            ("'/opt/my howdah' serve", None, None),
            ("howdah serve --ports 50-99", Some((50, 99)), None),
            ("howdah serve --ahead 8", None, Some(8)),
            ("sh -c 'a; \"b\"' howdah 'serve'", None, None),
            (
                "sh -c 'a; \"b\"' howdah 'serve --ports 50-99 --ahead 8' anew",
                Some((50, 99)),
                Some(8),
            ),
        ] {
            let wanted = Asked { ports, ahead };
            assert_eq!(asked_for(asked.as_ref()), Ok(wanted), "{asked}");
        }
        assert!(
            asked_for("howdah serve --ports 5-4".as_ref())
                .unwrap_err()
                .starts_with("ports '5-4' is no range")
        );
        for asked in ["howdah reread", "sh -c 'r=$1' howdah reread anew"] {
            let said = asked_for(asked.as_ref()).unwrap_err();
            assert!(
                said.contains("it reads nothing again; howdah verify needs another login; for howdah cp leave out --verify, and "),
                "{said}"
            );
        }
        for asked in [
            "",
            "true",
            "howdah serve; touch x",
            "howdah serve --root /",
            "howdah serve --ports 1-2 --root /",
            "howdah serve --ports",
            "$(touch x) serve",
            "howdah respond",
            "'unclosed",
            "sh",
            "sh -c",
            "sh -c 'rm -r /' howdah",
            "sh -c serve serve serve",
        ] {
            let said = asked_for(asked.as_ref()).unwrap_err();
            assert_eq!(
                said,
                format!("this login is for copies by howdah cp alone, it does not run: {asked}")
            );
        }
    }
}
