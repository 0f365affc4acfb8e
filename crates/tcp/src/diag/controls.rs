//! How many connections of this network namespace use which congestion control.
//!
//! Source: as `diag.rs`; INET_DIAG_CONG of `include/uapi/linux/inet_diag.h`. No privilege is needed.

use std::{collections::BTreeMap, io};

use rustix::net::{self, RecvFlags};

use super::{attribute, next_message, open, request_for};
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
        count(family, &mut counts).map_err(|source| Error::Read {
            what: "sock_diag",
            source,
        })?;
    }
    Ok(counts)
}

fn count(family: i32, counts: &mut BTreeMap<String, usize>) -> io::Result<()> {
    let socket = open(&request_for(NLM_F_DUMP, family, INET_DIAG_CONG, CONNECTED))?;
    let mut answer = vec![0; 1 << 16];
    loop {
        let (length, _) = net::recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
        if tally(&answer[..length], counts) {
            return Ok(());
        }
    }
}

/// Adds the connections of one part of a dump to `counts`; whether that was the last part.
pub fn tally(mut left: &[u8], counts: &mut BTreeMap<String, usize>) -> bool {
    while let Some((kind, message, rest)) = next_message(left) {
        if matches!(kind, NLMSG_DONE | NLMSG_ERROR) {
            return true;
        }
        if let Some(name) = attribute(message, INET_DIAG_CONG) {
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            *counts.entry(name).or_insert(0) += 1;
        }
        left = rest;
    }
    false
}
