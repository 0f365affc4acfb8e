//! What may be shown to people.

use howdah_wire::printable;

/// Asserts that `text` is a line of at most `most` bytes that a terminal obeys in nothing.
pub fn assert_shown(text: &str, most: usize) {
    assert_eq!(printable(text.as_bytes()), text);
    assert!(
        (1..=most).contains(&text.len()),
        "{} bytes, the bound is {most}: {text}",
        text.len()
    );
}
