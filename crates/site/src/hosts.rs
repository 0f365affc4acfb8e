//! Patterns of far ends: names with `*` and `?`, addresses, and networks as `10.9.0.0/16`.

use std::net::IpAddr;

use howdah_filter::matches;

use crate::shown;

/// Checks that a text is a pattern of names or a network. Returns what is wrong with it.
///
/// # Errors
/// In words.
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    if pattern.is_empty() || pattern != pattern.trim() || pattern.contains('@') {
        return Err(format!(
            "'{}' is no pattern of hosts; give for example *.example.org or 10.9.0.0/16",
            shown(pattern)
        ));
    }
    if pattern.contains('/') && Network::of(pattern).is_none() {
        return Err(format!(
            "'{}' is no network; give for example 10.9.0.0/16",
            shown(pattern)
        ));
    }
    Ok(())
}

/// Whether a name or an address matches a pattern. A name never matches a network, because names are not resolved.
pub fn fits(pattern: &str, host: &str) -> bool {
    let Some(address) = address(host) else {
        let plain = |text: &str| text.to_lowercase().trim_end_matches('.').to_owned();
        return !pattern.contains('/')
            && matches(plain(pattern).as_bytes(), plain(host).as_bytes());
    };
    match Network::of(pattern) {
        Some(network) => network.has(address),
        // An address has many spellings.
        None => pattern == "*" || self::address(pattern) == Some(address),
    }
}

fn address(text: &str) -> Option<IpAddr> {
    let text = without_zone(text.trim_matches(['[', ']']));
    text.parse()
        .ok()
        .map(|address: IpAddr| address.to_canonical())
}

fn without_zone(text: &str) -> &str {
    text.split_once('%').map_or(text, |(address, _)| address)
}

/// A network of either family, its bits at the top.
struct Network {
    bits: u128,
    width: u32,
    prefix: u32,
}

impl Network {
    /// Of an address, and the length of its prefix or a mask; `None` where bits of a host are set.
    fn of(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let (bits, width) = bits_of(without_zone(address).parse().ok()?);
        let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = if digits {
            length.parse().ok().filter(|&length| length <= width)?
        } else if let (32, Ok(IpAddr::V4(given))) = (width, length.parse()) {
            let (given, _) = bits_of(given.into());
            let wild = !given & mask(32);
            (0..=32).find(|&length| mask(length) == given || mask(length) == wild)?
        } else {
            return None;
        };
        (bits & !mask(prefix) == 0).then_some(Self {
            bits,
            width,
            prefix,
        })
    }

    fn has(&self, address: IpAddr) -> bool {
        let (bits, width) = bits_of(address);
        width == self.width && bits & mask(self.prefix) == self.bits
    }
}

fn bits_of(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(four) => (u128::from(u32::from(four)) << 96, 32),
        IpAddr::V6(six) => (u128::from(six), 128),
    }
}

fn mask(length: u32) -> u128 {
    u128::MAX.checked_shl(128 - length).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_names_or_addresses() {
        for (pattern, host, is) in [
            ("*", "dtn1.example.org", true),
            ("*", "2001:db8::1", true),
            ("*.example.org", "dtn1.example.org", true),
            ("*.Example.ORG", "DTN1.example.org.", true),
            ("*.example.org", "example.org", false),
            ("*.example.org", "dtn1.example.org.evil.com", false),
            ("dtn?.example.org", "dtn12.example.org", false),
            ("dtn[12]", "dtn2", true),
            ("10.9.0.0/16", "10.9.255.1", true),
            ("10.9.0.0/16", "10.10.0.1", false),
            ("10.9.0.0/255.255.0.0", "10.9.255.1", true),
            ("0.0.0.0/0", "10.10.0.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("10.9.0.0/16", "10.9.0.1.evil.com", false),
            ("10.9.0.0/16", "::ffff:10.9.0.1", true),
            ("10.9.*", "10.9.0.1", false),
            ("2001:db8::/32", "2001:DB8:0::1", true),
            ("fe80::/10", "fe80::1%eth0", true),
            ("2001:db8::1", "2001:db8:0:0::1", true),
            ("10.9.0.1", "10.9.0.1", true),
            ("10.9.0.1", "[10.9.0.1]", true),
        ] {
            assert_eq!(check_pattern(pattern), Ok(()));
            assert_eq!(fits(pattern, host), is, "{pattern} {host}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["", " x", "me@dtn1"] {
            let said = check_pattern(text).unwrap_err();
            assert!(said.contains("is no pattern of hosts; give for example *.example.org"));
        }
        for text in [
            "10.9.0.1/16",
            "10.9.0.0/33",
            "10.9/16",
            "a/16",
            "::1/129",
            "10.0.0.0/255.0.255.0",
        ] {
            let said = check_pattern(text).unwrap_err();
            assert!(
                said.contains("is no network; give for example 10.9.0.0/16"),
                "{text}"
            );
        }
    }
}
