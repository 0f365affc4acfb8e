//! Memories: what earlier transfers to a destination carried. `hd_resume` begins new connections there with them.
//!
//! A memory lies in one map, under its destination. User space writes all of it at once, which also resets its
//! counts. The program counts the results in it. Memories outlive this process and a swap of the program.

use std::{fmt, ops::RangeInclusive};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::{
    Error, Namespace, Network, Program, Store, kernel,
    layout::{self, MEMORIES_MAX, Plain},
    loader::system,
};

const SECOND_NS: f64 = 1e9;
/// What can have been in flight: from two segments to what a window can hold, with room.
const SAVED_BYTES: RangeInclusive<u64> = 3_000..=1 << 42;
const SAVED_RTT_S: RangeInclusive<f64> = 1e-6..=100.0;
const STREAMS: RangeInclusive<u32> = 1..=1 << 16;
/// A week. RFC 9959 leaves the time open; the older a memory, the less it says.
const VALID_S: RangeInclusive<f64> = 0.001..=7.0 * 86_400.0;

/// The connections that a memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Destination {
    /// The addresses of the far ends.
    pub to: Network,
    /// The port of one of the two ends; absent for every port.
    pub port: Option<u16>,
    /// The inode of their network namespace; absent for every namespace.
    pub namespace: Option<u64>,
}

/// What earlier transfers carried, and for how long and how far it may be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// Bytes that were in flight, of all streams together.
    pub capacity_bytes: u64,
    /// The RTT of the path without a queue, seconds.
    pub rtt_s: f64,
    /// How many streams share it. Each stream jumps to its part.
    pub streams: u32,
    /// The part of the capacity that the streams together jump to, 0.001 to 1; the parameter `jump_part` if absent.
    pub jump_part: Option<f64>,
    /// How long this is believed, seconds.
    pub valid_s: f64,
    /// The control that takes over after the jump, by its name for sockets.
    pub then: String,
}

/// A memory in the kernel, and its results since it was set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// The connections that it is for.
    #[serde(flatten)]
    pub destination: Destination,
    /// What it says.
    pub saved: Saved,
    /// When it was set, by `CLOCK_BOOTTIME`. A connection identifies its memory by this time.
    pub set_ns: u64,
    /// The time for which it is still valid; 0 if it has expired.
    pub left_s: f64,
    /// Connections that found it.
    pub connections: u32,
    /// How many of them jumped.
    pub jumps: u32,
    /// How many jumps were validated.
    pub validated: u32,
    /// How many jumps ended in a retreat. After one retreat, no connection uses the memory until it is set again.
    pub retreats: u32,
    /// Connections that did not jump because their RTT was unlike the saved one.
    pub other_paths: u32,
    /// The sum of the windows to which connections jumped, bytes.
    pub jumped_bytes: u64,
    /// The acknowledged part of these, with what was in flight before, bytes.
    pub validated_bytes: u64,
}

/// A connection that `hd_resume` has had.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resumed {
    /// The phase of RFC 9959: `reconnaissance`, `unvalidated`, `validating`, `retreat` or `normal`.
    pub phase: &'static str,
    /// Why the phase is `normal`; absent in other phases.
    pub why: Option<&'static str>,
    /// The memory that it found, identified by the time at which it was set.
    pub memory_ns: Option<u64>,
    /// The window that it jumped to, bytes.
    pub jumped_bytes: u64,
    /// The acknowledged part of this window, with what was in flight before, bytes.
    pub validated_bytes: u64,
    /// How often it retreated.
    pub retreats: u32,
    /// The RTT by which the path was compared; absent before that.
    pub rtt_s: Option<f64>,
}

impl Destination {
    /// Reads a destination as people write it: a prefix or one address.
    pub fn new(to: &str, port: Option<u16>, namespace: Option<u64>) -> Result<Self, Error> {
        if port == Some(0) {
            return wrong("port 0 is none; leave it out for every port".to_owned());
        }
        Ok(Self {
            to: to.parse()?,
            port,
            namespace,
        })
    }

    fn key(&self) -> Result<layout::Destination, Error> {
        let cookie = match self.namespace {
            None => 0,
            Some(inode) => Namespace::of(inode)?.cookie()?,
        };
        Ok(self.to.destination(cookie, self.port.unwrap_or(0)))
    }
}

impl fmt::Display for Destination {
    /// A destination as `cc set resume` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--to {}", self.to)?;
        if let Some(port) = self.port {
            write!(f, " --port {port}")?;
        }
        match self.namespace {
            Some(inode) => write!(f, " --namespace {inode}"),
            None => Ok(()),
        }
    }
}

impl Saved {
    /// Checks that these values are possible.
    pub fn check(&self) -> Result<(), Error> {
        let Self {
            capacity_bytes,
            rtt_s,
            streams,
            jump_part,
            valid_s,
            ref then,
        } = *self;
        if !SAVED_BYTES.contains(&capacity_bytes) {
            return wrong(format!(
                "a saved capacity of {capacity_bytes} bytes cannot be; it is {} to {} bytes in flight",
                SAVED_BYTES.start(),
                SAVED_BYTES.end()
            ));
        }
        if !SAVED_RTT_S.contains(&rtt_s) {
            return wrong(format!(
                "a saved RTT of {rtt_s} s cannot be; it is 1 µs to 100 s"
            ));
        }
        if !STREAMS.contains(&streams) {
            return wrong(format!(
                "{streams} streams cannot share a memory; 1 to 65536 can"
            ));
        }
        if jump_part.is_some_and(|part| !(0.001..=1.0).contains(&part)) {
            return wrong("a jump is 0.1 % to 100 % of the saved capacity".to_owned());
        }
        if !VALID_S.contains(&valid_s) {
            return wrong(format!(
                "a memory is believed for 1 ms to 7 days, not for {valid_s} s"
            ));
        }
        if then.is_empty() || then.len() > 15 || then.contains('\0') {
            return wrong(format!(
                "congestion control {then:?} has no name of 1 to 15 bytes"
            ));
        }
        Ok(())
    }
}

impl Store {
    /// Makes `hd_resume`, which must be loaded, begin new connections to `destination` with `saved`. An earlier
    /// memory of exactly this destination is replaced, and its counts too.
    pub fn remember(&self, destination: &Destination, saved: &Saved) -> Result<Memory, Error> {
        self.check_then(&saved.then)?;
        keep(&self.memories_map()?, destination, saved)
    }

    /// Removes the memory of exactly this destination, and returns it.
    pub fn forget(&self, destination: &Destination) -> Result<Memory, Error> {
        let maps = self.memories_map()?;
        let key = destination.key()?;
        let there = all(&maps)?;
        let Some(found) = there.into_iter().find(|each| each.destination == key) else {
            return wrong(format!(
                "nothing is remembered of {destination}; see: howdah cc status"
            ));
        };
        maps.delete(key.bytes())
            .map_err(|error| system("forget a memory", &error))?;
        Ok(describe(&found))
    }

    /// Every memory; none if `hd_resume` is not loaded, has other maps, or this process may not look.
    pub fn memories(&self) -> Result<Vec<Memory>, Error> {
        let there = self.memories_path().exists();
        if !there || self.understood(Program::find("resume")?).is_err() {
            return Ok(Vec::new());
        }
        let mut found: Vec<_> = all(&self.memories_map()?)?.iter().map(describe).collect();
        found.sort_by_key(|memory| memory.destination.to_string());
        Ok(found)
    }

    /// Refuses a control that could not go on.
    fn check_then(&self, then: &str) -> Result<(), Error> {
        if then == self.kernel_name("resume") {
            return wrong(format!(
                "{then} cannot go on after itself; name another, as cubic"
            ));
        }
        let available = howdah_tcp::available_controls()?;
        if available.iter().any(|name| name == then) {
            return Ok(());
        }
        wrong(format!(
            "congestion control {then:?} is not in this kernel, which has {}",
            available.join(" ")
        ))
    }

    fn memories_path(&self) -> std::path::PathBuf {
        self.folder(&self.kernel_name("resume")).join("memories")
    }

    fn memories_map(&self) -> Result<MapHandle, Error> {
        kernel::check()?;
        self.understood(Program::find("resume")?)?;
        MapHandle::from_pinned_path(self.memories_path())
            .map_err(|error| system("read the memories", &error))
    }
}

impl Resumed {
    /// The state of a connection under `hd_resume`; nothing if it never had this control.
    pub(crate) fn of(found: &layout::Resumed) -> Option<Self> {
        let phase = match found.phase {
            1 => "reconnaissance",
            2 => "unvalidated",
            3 => "validating",
            4 => "retreat",
            5 => "normal",
            _ => return None,
        };
        let why = match found.why {
            1 => Some("no memory"),
            2 => Some("void"),
            3 => Some("no part"),
            4 => Some("other path"),
            5 => Some("queue"),
            6 => Some("small"),
            7 => Some("congested"),
            8 => Some("unused"),
            9 => Some("validated"),
            10 => Some("retreated"),
            11 => Some("timed out"),
            _ => None,
        };
        Some(Self {
            phase,
            why,
            memory_ns: (found.memory_ns > 0).then_some(found.memory_ns),
            jumped_bytes: found.jumped_bytes,
            validated_bytes: found.validated_bytes,
            retreats: found.retreats,
            rtt_s: (found.rtt_us > 0).then(|| f64::from(found.rtt_us) / 1e6),
        })
    }
}

/// Puts a memory into the map of a program.
pub(crate) fn keep(
    map: &MapHandle,
    destination: &Destination,
    saved: &Saved,
) -> Result<Memory, Error> {
    saved.check()?;
    let key = destination.key()?;
    let now_ns = now_ns();
    let value = layout::Memory {
        set_ns: now_ns,
        until_ns: now_ns + (saved.valid_s * SECOND_NS) as u64,
        saved_bytes: saved.capacity_bytes,
        saved_rtt_us: ((saved.rtt_s * 1e6).round() as u64).max(1),
        namespace: destination.namespace.unwrap_or(0),
        then: layout::name(&saved.then),
        destination: key,
        streams: saved.streams,
        part: saved
            .jump_part
            .map_or(0, |part| ((part * 1000.0).round() as u32).max(1)),
        ..layout::Memory::zero()
    };
    map.update(key.bytes(), value.bytes(), MapFlags::ANY)
        .map_err(|error| match all(map) {
            Ok(all) if all.len() >= MEMORIES_MAX as usize => Error::Memory {
                why: format!("there are {MEMORIES_MAX} memories already; forget one first"),
            },
            _ => system("keep a memory", &error),
        })?;
    Ok(describe(&value))
}

fn all(map: &MapHandle) -> Result<Vec<layout::Memory>, Error> {
    let mut found = Vec::new();
    for key in map.keys() {
        // One that is forgotten meanwhile is not there any more, or a shorter prefix is found in its place.
        let value = map
            .lookup(&key, MapFlags::ANY)
            .map_err(|error| system("read the memories", &error))?;
        let memory = value.and_then(|value| layout::Memory::read(&value));
        found.extend(memory.filter(|memory| memory.destination.bytes() == key));
    }
    Ok(found)
}

fn describe(found: &layout::Memory) -> Memory {
    let port = u16::try_from(found.destination.port).unwrap_or(0);
    Memory {
        destination: Destination {
            to: Network::of_destination(&found.destination),
            port: (port > 0).then_some(port),
            namespace: (found.namespace > 0).then_some(found.namespace),
        },
        saved: Saved {
            capacity_bytes: found.saved_bytes,
            rtt_s: found.saved_rtt_us as f64 / 1e6,
            streams: found.streams,
            jump_part: (found.part > 0).then(|| f64::from(found.part) / 1000.0),
            valid_s: (found.until_ns - found.set_ns) as f64 / SECOND_NS,
            then: layout::text(&found.then),
        },
        set_ns: found.set_ns,
        left_s: found.until_ns.saturating_sub(now_ns()) as f64 / SECOND_NS,
        connections: found.connections,
        jumps: found.jumps,
        validated: found.validated,
        retreats: found.retreats,
        other_paths: found.other_paths,
        jumped_bytes: found.jumped_bytes,
        validated_bytes: found.validated_bytes,
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn wrong<T>(why: String) -> Result<T, Error> {
    Err(Error::Memory { why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Saved {
        Saved {
            capacity_bytes: 12_500_000,
            rtt_s: 0.1,
            streams: 8,
            jump_part: None,
            valid_s: 3600.0,
            then: "cubic".to_owned(),
        }
    }

    #[test]
    fn what_cannot_have_been_saved_is_refused() {
        assert!(saved().check().is_ok());
        let refused: [(Saved, &str); 7] = [
            (
                Saved {
                    capacity_bytes: 2_999,
                    ..saved()
                },
                "3000 to",
            ),
            (
                Saved {
                    rtt_s: f64::NAN,
                    ..saved()
                },
                "1 µs to 100 s",
            ),
            (
                Saved {
                    rtt_s: 0.0,
                    ..saved()
                },
                "1 µs to 100 s",
            ),
            (
                Saved {
                    streams: 0,
                    ..saved()
                },
                "1 to 65536",
            ),
            (
                Saved {
                    jump_part: Some(1.1),
                    ..saved()
                },
                "0.1 % to 100 %",
            ),
            (
                Saved {
                    valid_s: 604_801.0,
                    ..saved()
                },
                "7 days",
            ),
            (
                Saved {
                    then: "x".repeat(16),
                    ..saved()
                },
                "1 to 15 bytes",
            ),
        ];
        for (saved, says) in refused {
            let said = saved.check().unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn a_destination_is_read_and_written_as_people_do() {
        for (to, port, text) in [
            ("10.9.0.2", None, "--to 10.9.0.2/32"),
            ("10.9.0.0/16", Some(5201), "--to 10.9.0.0/16 --port 5201"),
            ("2001:db8::/32", None, "--to 2001:db8::/32"),
        ] {
            assert_eq!(Destination::new(to, port, None).unwrap().to_string(), text);
        }
        assert!(Destination::new("10.9.0.2", Some(0), None).is_err());
        assert!(Destination::new("10.9.0.1/16", None, None).is_err());
    }

    #[test]
    fn a_key_says_which_prefix_it_is_for() {
        for to in ["10.9.0.0/16", "10.9.0.2/32", "2001:db8::/32", "0.0.0.0/0"] {
            let destination = Destination::new(to, Some(22), None).unwrap();
            let key = destination.key().unwrap();
            assert_eq!(Network::of_destination(&key), destination.to);
        }
    }
}
