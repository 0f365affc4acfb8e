//! How many connections of this network namespace use which congestion control.
//!
//! Source: as `diag.rs`; INET_DIAG_CONG of `include/uapi/linux/inet_diag.h`. No privilege is needed.

use std::{collections::BTreeMap, io};

use rustix::net::{self, RecvFlags};

use super::{HEADER_BYTES, NLM_F_REQUEST, REQUEST_BYTES, SOCK_DIAG_BY_FAMILY, attribute, open};
use crate::Error;

const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const INET_DIAG_CONG: u8 = 4;
/// Every state but TIME_WAIT, CLOSE, LISTEN and NEW_SYN_RECV, by their numbers (net/tcp_states.h).
const CONNECTED: u32 = 0xfff & !(1 << 6 | 1 << 7 | 1 << 10) & !1;

/// Connections by the name of their congestion control, IPv4 and IPv6.
pub fn connection_controls() -> Result<BTreeMap<String, usize>, Error> {
    let mut counts = BTreeMap::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        count(family as u8, &mut counts).map_err(|source| Error::Read {
            what: "sock_diag",
            source,
        })?;
    }
    Ok(counts)
}

fn count(family: u8, counts: &mut BTreeMap<String, usize>) -> io::Result<()> {
    let socket = open(&request(family))?;
    let mut answer = vec![0; 1 << 16];
    loop {
        let (length, _) = net::recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
        let mut left = &answer[..length];
        while let Some((kind, message, rest)) = next(left) {
            match kind {
                NLMSG_DONE | NLMSG_ERROR => return Ok(()),
                _ => {
                    if let Some(name) = attribute(message, INET_DIAG_CONG) {
                        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                        *counts
                            .entry(String::from_utf8_lossy(name).into_owned())
                            .or_insert(0) += 1;
                    }
                }
            }
            left = rest;
        }
    }
}

/// The kind of the first message, the message, and what follows it.
fn next(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let message = bytes
        .get(..length)
        .filter(|message| message.len() >= HEADER_BYTES)?;
    let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, message, rest))
}

fn request(family: u8) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    bytes[..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    let extensions = 1 << (INET_DIAG_CONG - 1);
    bytes[16..20].copy_from_slice(&[family, libc::IPPROTO_TCP as u8, extensions, 0]);
    bytes[20..24].copy_from_slice(&CONNECTED.to_ne_bytes());
    bytes
}
