//! The target of `hd_hold`: the default, or that of one connection.

use std::{fmt, net::SocketAddr, ops::RangeInclusive, str::FromStr};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use serde::Serialize;

use crate::{
    Error, Program, Store, Target,
    connections::{Census, Change, Connection},
    kernel,
    layout::Plain,
    loader::system,
};

/// The rates that can be held.
pub(crate) const RATES_BPS: RangeInclusive<u64> = 8_000..=1_000_000_000_000;

/// Names connections: those to `remote`, and from `local` if that is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowName {
    /// This end.
    pub local: Option<SocketAddr>,
    /// The other end.
    pub remote: SocketAddr,
}

/// What setting a target has done.
#[derive(Debug, Serialize)]
pub struct Targeted {
    /// The new target; absent if there is none any more.
    pub target: Option<Target>,
    /// The number of connections that got it; absent if it is the default.
    pub flows: Option<usize>,
}

impl Target {
    /// A target of a rate in bits per second or of a window in packets.
    pub fn new(rate_bps: Option<u64>, window_packets: Option<i64>) -> Result<Self, Error> {
        let wrong = |why: &str| {
            Err(Error::Target {
                why: why.to_owned(),
            })
        };
        match (rate_bps, window_packets) {
            (Some(_), Some(_)) => {
                wrong("a rate and a window cannot both be held; give one of them")
            }
            (Some(rate_bps), None) if rate_bps < *RATES_BPS.start() => wrong(
                "a rate below 8 kb/s cannot be held; to hold nothing any more: howdah cc set hold --none",
            ),
            (Some(rate_bps), None) if rate_bps > *RATES_BPS.end() => {
                wrong("a rate above 1 Tb/s cannot be held")
            }
            (None, Some(window)) if !(2..=1 << 28).contains(&window) => wrong(
                "a window is held from 2 to 268435456 packets; to hold nothing: howdah cc set hold --none",
            ),
            (rate_bps, window_packets) => Ok(Self {
                rate_bps: rate_bps.unwrap_or(0),
                window_packets: window_packets.unwrap_or(0) as u32,
                share: 0,
            }),
        }
    }
}

impl Store {
    /// The target of connections without their own; `None` if there is none, or `hd_hold` is not loaded.
    #[must_use]
    pub fn default_target(&self) -> Option<Target> {
        let map = MapHandle::from_pinned_path(self.default_target_path()).ok()?;
        let target = Target::read(&map.lookup(&[0; 4], MapFlags::ANY).ok()??)?;
        (!target.is_none()).then_some(target)
    }

    /// Sets the default or the target of one connection. Existing connections follow within a millisecond of their
    /// next ACK.
    pub fn set_target(&self, target: Target, flow: Option<&str>) -> Result<Targeted, Error> {
        let named = flow.map(FlowName::from_str).transpose()?;
        let hold = Program::find("hold")?;
        kernel::check()?;
        self.understood(hold)?;
        let flows = match named {
            Some(named) => Some(self.set_flow(target, &named)?),
            None => {
                self.set_default(target)?;
                None
            }
        };
        Ok(Targeted {
            target: (!target.is_none()).then_some(target),
            flows,
        })
    }

    fn set_default(&self, target: Target) -> Result<(), Error> {
        MapHandle::from_pinned_path(self.default_target_path())
            .and_then(|map| map.update(&[0; 4], target.bytes(), MapFlags::ANY))
            .map_err(|error| system("set the target", &error))
    }

    fn set_flow(&self, target: Target, named: &FlowName) -> Result<usize, Error> {
        let hold = self.kernel_name("hold");
        let census = Census::take(self)?;
        let meant: Vec<_> = census.all.iter().filter(|each| named.means(each)).collect();
        let missing = |why: String| Error::NoFlow {
            flow: named.to_string(),
            why,
        };
        let Some(first) = meant.first() else {
            return Err(missing("is here".to_owned()));
        };
        let change = Change {
            target: Some(target),
            ..Change::default()
        };
        let held = meant.iter().filter(|each| each.control == hold);
        let changes: Vec<_> = held.map(|each| (*each, change.clone())).collect();
        if changes.is_empty() {
            return Err(missing(format!("uses {hold}, it uses {}", first.control)));
        }
        match census.change(self, &changes)? {
            0 => Err(missing("is here any more".to_owned())),
            changed => Ok(changed),
        }
    }

    pub(crate) fn default_target_path(&self) -> std::path::PathBuf {
        self.hold_folder().join("default_target")
    }

    /// The folder of the maps of `hd_hold`.
    pub(crate) fn hold_folder(&self) -> std::path::PathBuf {
        self.folder(&self.kernel_name("hold"))
    }
}

impl FlowName {
    fn means(&self, connection: &Connection) -> bool {
        !connection.listens
            && connection.remote == self.remote
            && self.local.is_none_or(|local| connection.local == local)
    }
}

impl FromStr for FlowName {
    type Err = Error;

    /// Reads `REMOTE:PORT` or `LOCAL:PORT-REMOTE:PORT`, with IPv6 addresses in brackets.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Target {
            why: format!(
                "flow {text:?} is none; write 10.9.0.2:5201, [2001:db8::2]:5201, or with this end too \
                 10.9.0.1:40000-10.9.0.2:5201"
            ),
        };
        let (local, remote) = match text.split_once('-') {
            Some((local, remote)) => (Some(local.parse().map_err(|_| wrong())?), remote),
            None => (None, text),
        };
        Ok(Self {
            local,
            remote: remote.parse().map_err(|_| wrong())?,
        })
    }
}

impl fmt::Display for FlowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.local {
            Some(local) => write!(f, "{local}-{}", self.remote),
            None => write!(f, "to {}", self.remote),
        }
    }
}
