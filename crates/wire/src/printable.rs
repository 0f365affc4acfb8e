//! Foreign text as one line without anything that controls a terminal.
//!
//! Text from another host and names of files may contain anything: escape sequences that write to the clipboard, line
//! breaks that forge a line of another program, characters that reverse the direction of reading. Text of this kind
//! goes through here once before it is shown. A second pass changes nothing.

use std::fmt::Write;

/// `bytes` as one line of printable characters and spaces.
///
/// Bytes that are not UTF-8 become `\xff`. Control and format characters, separators other than the space,
/// surrogates, private and unassigned characters (Unicode's C* and Z*) become `\n`, `\u{202e}` and so on. So do the
/// letters of Hangul that are invisible.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if shows(character) {
                text.push(character);
            } else {
                text.extend(character.escape_default());
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// [`printable`], cut to at most `most` bytes. Text that was cut ends in `…`.
pub fn printable_within(bytes: &[u8], most: usize) -> String {
    // An escape is never shorter than what it stands for, so nothing beyond can be needed.
    let mut text = printable(&bytes[..bytes.len().min(most + 1)]);
    if text.len() > most {
        let mut end = most.saturating_sub('…'.len_utf8());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Whether a character takes its place in a line, or joins the one before it, and does nothing else.
fn shows(character: char) -> bool {
    match character {
        ' '..='~' => true,
        '\0'..='\u{9f}' => false,
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => false,
        // The standard library escapes what Unicode prints nothing for; a combining mark only where it
        // has nothing to join.
        other => {
            let mut buffer = [b'x'; 5];
            let end = 1 + other.encode_utf8(&mut buffer[1..]).len();
            str::from_utf8(&buffer[..end]).is_ok_and(|text| text.escape_debug().eq(text.chars()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_of_any_language_stays_as_it_is() {
        for text in [
            "a b.txt",
            "naïve/Ω",
            "e\u{301}",
            "日本語",
            "שלום",
            "🚀",
            "\"it's\" a\\b",
        ] {
            assert_eq!(printable(text.as_bytes()), text);
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        for (bytes, line) in [
            (&b"a\nb\x1b[31m"[..], "a\\nb\\u{1b}[31m"),
            (b"\x1b]52;c;AAAA\x07", "\\u{1b}]52;c;AAAA\\u{7}"),
            (b"\xffx", "\\xffx"),
            (b"\x7f", "\\u{7f}"),
            ("\u{9b}2J".as_bytes(), "\\u{9b}2J"),
            ("\u{202e}gpj.exe".as_bytes(), "\\u{202e}gpj.exe"),
            (
                "\u{2066}\u{200f}\u{61c}".as_bytes(),
                "\\u{2066}\\u{200f}\\u{61c}",
            ),
            ("a\u{200b}b\u{feff}".as_bytes(), "a\\u{200b}b\\u{feff}"),
            (
                "\u{2028}\u{2029}\u{a0}".as_bytes(),
                "\\u{2028}\\u{2029}\\u{a0}",
            ),
            (
                "\u{e000}\u{e0041}\u{3164}".as_bytes(),
                "\\u{e000}\\u{e0041}\\u{3164}",
            ),
        ] {
            assert_eq!(printable(bytes), line);
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(printable_within(b"abcdef", 6), "abcdef");
        assert_eq!(printable_within(b"abcdefg", 6), "abc…");
        assert_eq!(printable_within("ääää".as_bytes(), 6), "ä…");
        assert_eq!(printable_within(&b"x".repeat(1 << 20), 100).len(), 100);
    }

    proptest! {
        #[test]
        fn every_input_is_one_line_and_stays_it(bytes: Vec<u8>, text: String, most in 3_usize..64) {
            for bytes in [&bytes[..], text.as_bytes()] {
                let line = printable(bytes);
                prop_assert!(line.chars().all(shows), "{line:?}");
                prop_assert_eq!(printable(line.as_bytes()), line.clone());
                let cut = printable_within(bytes, most);
                prop_assert!(cut.len() <= most && cut.chars().all(shows), "{cut:?}");
                prop_assert!(line.len() > most || cut == line);
                prop_assert_eq!(printable_within(cut.as_bytes(), most), cut);
            }
        }
    }
}
