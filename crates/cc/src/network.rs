//! An address prefix and a range of ports. Rules name the ends of connections by them.

use std::{fmt, net::IpAddr, str::FromStr};

use serde::{Serialize, Serializer};

use crate::{Error, layout};

/// Namespace and cgroup, which each key of a prefix begins with.
const BITS_BEFORE: u32 = 64 + 64;
const BITS_OF_FAMILY: u32 = 32;
/// Namespace, port and family, which each key of a destination begins with.
const BITS_BEFORE_ADDRESS: u32 = 64 + 64 + 64;

/// All addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ports {
    /// The first port.
    pub least: u16,
    /// The last port.
    pub most: u16,
}

fn wrong(why: String) -> Error {
    Error::Rule { why }
}

impl Network {
    /// Whether some address is in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }

    /// Whether `address` has the prefix. IPv4-mapped addresses count as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && first(address, self.bits) == self.address
    }

    /// The key in the kernel's map, for the network namespace with this cookie and the cgroup with this id. 0 means
    /// every namespace or cgroup.
    pub(crate) fn key(&self, namespace: u64, cgroup: u64) -> layout::Prefix {
        let (family, address) = self.in_key();
        layout::Prefix {
            bits: BITS_BEFORE + BITS_OF_FAMILY + u32::from(self.bits),
            namespace,
            cgroup,
            family,
            address,
        }
    }

    /// The key in the map of memories, as [`Self::key`], with a port of one end. Port 0 means every port.
    pub(crate) fn destination(&self, namespace: u64, port: u16) -> layout::Destination {
        let (family, address) = self.in_key();
        layout::Destination {
            bits: BITS_BEFORE_ADDRESS + u32::from(self.bits),
            namespace,
            port: port.into(),
            family: family.into(),
            address,
        }
    }

    fn in_key(&self) -> (u32, [u8; 16]) {
        let mut address = [0; 16];
        match self.address {
            IpAddr::V4(v4) => {
                address[..4].copy_from_slice(&v4.octets());
                (4, address)
            }
            IpAddr::V6(v6) => (6, v6.octets()),
        }
    }

    /// The key of all addresses, as [`Self::key`].
    pub(crate) fn key_of_all(namespace: u64, cgroup: u64) -> layout::Prefix {
        layout::Prefix {
            bits: BITS_BEFORE,
            namespace,
            cgroup,
            family: 0,
            address: [0; 16],
        }
    }

    /// The prefix of a key; absent if the key is for all addresses.
    pub(crate) fn of_key(key: &layout::Prefix) -> Option<Self> {
        let bits = key.bits.checked_sub(BITS_BEFORE + BITS_OF_FAMILY)?;
        Some(Self::of(key.family == 4, &key.address, bits as u8))
    }

    /// The prefix of a key in the map of memories.
    pub(crate) fn of_destination(key: &layout::Destination) -> Self {
        let bits = key.bits.saturating_sub(BITS_BEFORE_ADDRESS);
        Self::of(key.family == 4, &key.address, bits as u8)
    }

    fn of(is_v4: bool, address: &[u8; 16], bits: u8) -> Self {
        let family = if is_v4 { libc::AF_INET } else { libc::AF_INET6 };
        Self {
            address: layout::address(family as u32, address),
            bits,
        }
    }
}

impl FromStr for Network {
    type Err = Error;

    /// Reads `10.9.0.0/16`, `2001:db8::/32`, or one address.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let example = "write for example 10.9.0.0/16 or 2001:db8::/32";
        let address: IpAddr = address.parse().map_err(|_| {
            wrong(format!(
                "prefix {text:?} begins with no IP address; {example}"
            ))
        })?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= most)
                .ok_or_else(|| {
                    wrong(format!(
                        "prefix {text:?} has no length of 0 to {most}; {example}"
                    ))
                })?,
        };
        let network = Self { address, bits };
        if !network.contains(address) {
            let begins = first(address, bits);
            return Err(wrong(format!(
                "prefix {text:?} has bits set beyond its length; did you mean {begins}/{bits}?"
            )));
        }
        Ok(network)
    }
}

/// The first of the addresses that begin with the same `bits`.
fn first(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Ports {
    /// Whether some port is in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.least <= other.most && other.least <= self.most
    }

    /// Whether `port` is one of them.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        (self.least..=self.most).contains(&port)
    }
}

impl FromStr for Ports {
    type Err = Error;

    /// Reads `5000-5100` or `5201`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| {
            text.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
                wrong(format!(
                    "{text:?} is no port of 1 to 65535; write for example 5000-5100 or 5201"
                ))
            })
        };
        let ports = Self {
            least: port(least)?,
            most: port(most)?,
        };
        if ports.least > ports.most {
            return Err(wrong(format!(
                "ports {text} are reversed; did you mean {most}-{least}?"
            )));
        }
        Ok(ports)
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.least)?;
        if self.least != self.most {
            write!(f, "-{}", self.most)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Network, Ports};

    fn network(text: &str) -> Network {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn prefixes_hold_what_begins_with_them() {
        for (prefix, address, inside) in [
            ("10.9.0.0/16", "10.9.255.1", true),
            ("10.9.0.0/16", "10.10.0.1", false),
            ("10.9.0.0/16", "::ffff:10.9.1.1", true),
            ("0.0.0.0/0", "255.1.2.3", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "10.9.0.1", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
            ("10.9.0.7", "10.9.0.7", true),
            ("10.9.0.7", "10.9.0.6", false),
        ] {
            assert_eq!(
                network(prefix).contains(address.parse().unwrap()),
                inside,
                "{prefix} {address}"
            );
        }
    }

    #[test]
    fn prefixes_survive_the_kernels_key() {
        for text in [
            "10.9.0.0/16",
            "0.0.0.0/0",
            "10.9.0.7/32",
            "2001:db8::/33",
            "::/0",
        ] {
            let read = Network::of_key(&network(text).key(7, 8)).unwrap();
            assert_eq!(read.to_string(), text);
        }
        assert!(Network::of_key(&Network::key_of_all(7, 8)).is_none());
    }

    #[test]
    fn overlap_is_mutual() {
        for (one, other, overlap) in [
            ("10.9.0.0/16", "10.9.4.0/24", true),
            ("10.9.0.0/16", "10.8.0.0/16", false),
            ("10.0.0.0/8", "0.0.0.0/0", true),
            ("::/0", "0.0.0.0/0", false),
        ] {
            assert_eq!(network(one).overlaps(&network(other)), overlap);
            assert_eq!(network(other).overlaps(&network(one)), overlap);
        }
        let ports = |text: &str| text.parse::<Ports>().unwrap();
        assert!(ports("5000-5100").overlaps(&ports("5100-5200")));
        assert!(!ports("5000-5100").overlaps(&ports("5101")));
    }

    #[test]
    fn wrong_ones_say_what_was_meant() {
        for (text, says) in [
            ("10.9.0.0/33", "no length of 0 to 32"),
            ("10.9.1.0/16", "did you mean 10.9.0.0/16?"),
            ("dtn2/16", "begins with no IP address"),
            ("10.9.0.0/", "no length"),
        ] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        for (text, says) in [
            ("5100-5000", "reversed; did you mean 5000-5100?"),
            ("0", "\"0\" is no port"),
            ("5000-65536", "\"65536\" is no port"),
            ("ssh", "\"ssh\" is no port"),
        ] {
            let error = text.parse::<Ports>().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
