//! Wildcards: `*` and `?` match no slash, `**` matches all, `[…]` is a class and `\` takes the next byte as it is.

/// Whether a pattern matches all of a text.
///
/// A class that is not closed, one of an unknown name, and a backslash at the end match nothing.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // Where the last star and the last double star go on, and how far each has gone. Only the last of its kind is
    // tried again: what stands before it matched as early as it could, which leaves the most to what follows.
    let (mut star, mut double) = (None, None);
    loop {
        let stars = pattern[at..]
            .iter()
            .take_while(|&&byte| byte == b'*')
            .count();
        if stars > 0 {
            at += stars;
            if stars == 1 {
                star = Some((at, read));
            } else {
                (double, star) = (Some((at, read)), None);
            }
            continue;
        }
        if read == text.len() {
            return at == pattern.len();
        }
        if let Some(next) = element(pattern, at, text[read]) {
            (at, read) = (next, read + 1);
            continue;
        }
        let further = |(then, gone): (usize, usize)| (then, gone + 1);
        star = star.filter(|&(_, gone)| text[gone] != b'/').map(further);
        if star.is_none() {
            double = double.map(further);
        }
        let Some(resumed) = star.or(double) else {
            return false;
        };
        (at, read) = resumed;
    }
}

/// Where the pattern goes on when its element at `at`, which is no star, matches a byte.
fn element(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    let (matches, next) = match pattern.get(at)? {
        b'?' => (byte != b'/', at + 1),
        b'[' => {
            let (matches, next) = class(pattern, at + 1, byte)?;
            (matches && byte != b'/', next)
        }
        b'\\' => (*pattern.get(at + 1)? == byte, at + 2),
        literal => (*literal == byte, at + 1),
    };
    matches.then_some(next)
}

/// Whether a byte is in the class that begins at `at`, behind its bracket, and where the pattern goes on.
fn class(pattern: &[u8], mut at: usize, byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(at)?, b'!' | b'^');
    at += usize::from(negated);
    let (mut found, mut first) = (false, true);
    let mut before = None;
    loop {
        let mut here = *pattern.get(at)?;
        if here == b']' && !first {
            return Some((found != negated, at + 1));
        }
        first = false;
        let ranges = here == b'-' && !matches!(pattern.get(at + 1), None | Some(b']'));
        match before {
            Some(least) if ranges => {
                let (most, last) = escaped(pattern, at + 1)?;
                found |= (least..=most).contains(&byte);
                at = last + 1;
                before = None;
                continue;
            }
            _ => {}
        }
        if here == b'[' && pattern.get(at + 1) == Some(&b':') {
            let name = &pattern[at + 2..];
            let end = name.iter().position(|&byte| byte == b']')?;
            if end > 0 && name[end - 1] == b':' {
                found |= named(&name[..end - 1], byte)?;
                at += 2 + end + 1;
                before = None;
                continue;
            }
        } else {
            (here, at) = escaped(pattern, at)?;
        }
        found |= here == byte;
        before = Some(here);
        at += 1;
    }
}

/// The byte that stands at `at`, or behind a backslash there, and where it stands.
fn escaped(pattern: &[u8], at: usize) -> Option<(u8, usize)> {
    match pattern.get(at)? {
        b'\\' => Some((*pattern.get(at + 1)?, at + 1)),
        byte => Some((*byte, at)),
    }
}

/// Whether a byte is in a class of POSIX.
fn named(name: &[u8], byte: u8) -> Option<bool> {
    Some(match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by trying everything.
    fn plainly(pattern: &[u8], text: &[u8]) -> bool {
        let Some(&first) = pattern.first() else {
            return text.is_empty();
        };
        if first != b'*' {
            return !text.is_empty()
                && element(pattern, 0, text[0])
                    .is_some_and(|next| plainly(&pattern[next..], &text[1..]));
        }
        let stars = pattern.iter().take_while(|&&byte| byte == b'*').count();
        let most = match stars {
            1 => text.iter().position(|&byte| byte == b'/'),
            _ => None,
        };
        (0..=most.unwrap_or(text.len())).any(|taken| plainly(&pattern[stars..], &text[taken..]))
    }

    #[test]
    fn each_wildcard_matches_what_it_should() {
        for (pattern, text, expected) in [
            ("*.o", "a.o", true),
            ("*.o", "a/b.o", false),
            ("**.o", "a/b.o", true),
            ("a?c", "a/c", false),
            ("a*", "a", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]-]", "-", true),
            ("[]-]", "]", true),
            ("[a-]", "-", true),
            ("[[:digit:]a]", "7", true),
            ("[[:digit:]a]", "b", false),
            ("[[:digit]a", "ta", true),
            ("[[:none:]]", "n", false),
            ("[a", "a", false),
            ("[!/]", "/", false),
            ("[!a]", "/", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", false),
            ("[\\]]", "]", true),
            ("[a-\\c]", "b", true),
            ("a/**/b", "a/b", false),
            ("a/**/b", "a/x/y/b", true),
            ("a**b*c", "a/b/xb/c", false),
            ("a**b*c", "a/b/xbyc", true),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(found, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_longer_than_their_product() {
        let pattern = [b"*a".repeat(500), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &b"a".repeat(2000)));
        let pattern = [b"**a".repeat(500), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &b"a/".repeat(1000)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn all_that_is_tried_again_is_enough(
            pattern in prop::collection::vec(prop::sample::select(&b"ab/***?"[..]), 0..9),
            text in prop::collection::vec(prop::sample::select(&b"ab/"[..]), 0..9),
        ) {
            prop_assert_eq!(matches(&pattern, &text), plainly(&pattern, &text));
        }

        #[test]
        fn any_bytes_are_a_pattern(pattern in prop::collection::vec(prop::sample::select(&b"[]!^-:ab\\*?/digt"[..]), 0..24), text: Vec<u8>) {
            let _ = matches(&pattern, &text);
        }
    }
}
