//! Shares: rates that several connections hold together under `hd_hold`, each as long as its lease lasts.
//!
//! They lie in two maps. User space writes what may be sent, and the program writes what is sent, so neither
//! overwrites the other. Both maps outlive this process. A process that starts again finds its shares by name.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::{
    Cgroup, Error, Place, Program, Rule, Store, Target, kernel,
    layout::{self, Plain, SHARE_NAME_MAX, SHARES_MAX, Use},
    loader::system,
    rules::{Scope, Wanted},
    target::RATES_BPS,
};

/// What the connections of a share may send together, and what they send.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The number of the share, from 1. A target names it by this number.
    pub number: u32,
    /// The owner.
    pub owner: String,
    /// Its name, unique among the shares of its owner.
    pub name: String,
    /// The rate on the wire until the lease expires, bits per second.
    pub rate_bps: u64,
    /// The rate from then on. If it is 0, each connection is then an ordinary one.
    pub minimum_bps: u64,
    /// The end of the lease, by `CLOCK_BOOTTIME`.
    pub until_ns: u64,
    /// The time left of the lease when this was read; 0 if it has expired.
    pub left_s: f64,
    /// The connections under `hd_hold` now.
    pub connections: u32,
    /// The connections that divide the share: those whose data could be sent at once without the share.
    pub active: u32,
    /// Bytes that all of its connections have sent on the wire since the share was defined.
    pub sent_bytes: u64,
    /// Bytes of payload acknowledged in the same time. TCP counts the end of a connection as one byte.
    pub acked_bytes: u64,
}

/// The result of giving shares to connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placing {
    /// The number of new rules.
    pub begun: usize,
    /// The number of rules that ended.
    pub ended: usize,
    /// Connections that were given a share, or were given back what they had before.
    pub moved: usize,
    /// The cgroups that do not exist. A rule for a cgroup that has disappeared stays.
    pub missing: Vec<Cgroup>,
}

/// The shares of one owner.
#[derive(Debug)]
pub struct Shares {
    store: Store,
    owner: String,
    maps: Maps,
    numbers: BTreeMap<String, u32>,
}

#[derive(Debug)]
struct Maps {
    shares: MapHandle,
    uses: MapHandle,
}

impl Store {
    /// Every share of every owner; none if `hd_hold` is not loaded, has other maps, or this process may not look.
    pub fn shares(&self) -> Result<Vec<Share>, Error> {
        let there = self.hold_folder().join("shares").exists();
        if !there || self.understood(Program::find("hold")?).is_err() {
            return Ok(Vec::new());
        }
        Maps::open(self)?.all()
    }
}

impl Shares {
    /// The existing shares of `owner`. `hd_hold` must be loaded.
    pub fn open(store: &Store, owner: &str) -> Result<Self, Error> {
        kernel::check()?;
        check_name("owner of shares", owner)?;
        store.understood(Program::find("hold")?)?;
        let maps = Maps::open(store)?;
        let mut numbers = BTreeMap::new();
        for share in maps.all()? {
            if share.owner == owner {
                numbers.insert(share.name, share.number);
            }
        }
        Ok(Self {
            store: store.clone(),
            owner: owner.to_owned(),
            maps,
            numbers,
        })
    }

    /// The existing share with that name, or a new one, for which `minimum_bps` is in force.
    pub fn define(&mut self, name: &str, minimum_bps: u64) -> Result<Share, Error> {
        check_name("share", name)?;
        check_minimum(minimum_bps)?;
        if let Some(&number) = self.numbers.get(name) {
            return self.maps.share(number);
        }
        let _lock = self.store.open()?;
        let number = self.maps.free()?;
        self.maps
            .write(number, &self.value(name, minimum_bps, minimum_bps, 0))?;
        self.numbers.insert(name.to_owned(), number);
        self.maps.share(number)
    }

    /// Puts `rate_bps` in force until the time `until_ns` of `CLOCK_BOOTTIME`, and `minimum_bps` after that. This is
    /// one write to a map. Connections follow within a millisecond of their next ACK.
    pub fn set(
        &self,
        name: &str,
        rate_bps: u64,
        minimum_bps: u64,
        until_ns: u64,
    ) -> Result<(), Error> {
        check_rates(rate_bps, minimum_bps)?;
        let number = self.number(name)?;
        self.maps
            .write(number, &self.value(name, rate_bps, minimum_bps, until_ns))
    }

    /// All shares of this owner, by name.
    pub fn all(&self) -> Result<Vec<Share>, Error> {
        let numbers = self.numbers.values();
        numbers.map(|&number| self.maps.share(number)).collect()
    }

    /// Ends a share that no rule uses any more.
    pub fn remove(&mut self, name: &str) -> Result<(), Error> {
        let number = self.number(name)?;
        let _lock = self.store.open()?;
        let gives = |rule: &&Rule| rule.target.is_some_and(|target| target.share == number);
        if let Some(rule) = self.store.rules()?.iter().find(gives) {
            return Err(Error::Share {
                why: format!(
                    "share {name} of {} is what connections get: {}; detach first with: howdah cc detach {}",
                    self.owner, rule.place, rule.place
                ),
            });
        }
        self.maps.write(number, &layout::Share::zero())?;
        self.numbers.remove(name);
        Ok(())
    }

    /// Makes the rules for this owner's shares exactly those `wanted`, each with the name of a share. Existing rules
    /// that are wanted stay as they are, with their connections. A rule whose cgroup has disappeared stays until
    /// there is a new cgroup with its path.
    pub fn place(&self, wanted: &[(Place, String)]) -> Result<Placing, Error> {
        let scopes = wanted
            .iter()
            .map(|(place, _)| place.scope())
            .collect::<Result<Vec<_>, _>>()?;
        let _lock = self.store.open()?;
        self.store.understood(Program::find("hold")?)?;
        let there = self.store.rules()?;
        let own: Vec<_> = there.iter().filter(|rule| self.gives(rule)).collect();
        let mut missing = Vec::new();
        let mut whole = Vec::new();
        for ((place, name), scope) in wanted.iter().zip(scopes) {
            let scope = match scope {
                Ok(scope) => Some(scope),
                Err(cgroup) => {
                    missing.push(cgroup.clone());
                    let before = own.iter().find(|rule| rule.place == *place);
                    before.map(|rule| rule.scope)
                }
            };
            if let Some(scope) = scope {
                whole.push(self.wanted(place, scope, name)?);
            }
        }
        let wanted = whole;
        let (kept, ended): (Vec<_>, Vec<_>) = own
            .into_iter()
            .cloned()
            .partition(|rule| wanted.iter().any(|each| each.is(rule)));
        let given_back = self.store.end(&ended, &there)?;
        let mut begun = wanted;
        begun.retain(|each| !kept.iter().any(|rule| each.is(rule)));
        let (rules, taken) = self.store.begin(&begun, &self.store.rules()?)?;
        Ok(Placing {
            begun: rules.len(),
            ended: ended.len(),
            moved: given_back + taken,
            missing,
        })
    }

    fn wanted(&self, place: &Place, scope: Scope, name: &str) -> Result<Wanted, Error> {
        Ok(Wanted {
            place: place.clone(),
            scope,
            control: self.store.kernel_name("hold"),
            target: Some(Target {
                share: self.number(name)?,
                ..Target::default()
            }),
        })
    }

    /// Whether the rule gives a share of this owner.
    fn gives(&self, rule: &Rule) -> bool {
        rule.target
            .is_some_and(|target| self.numbers.values().any(|&number| number == target.share))
    }

    fn number(&self, name: &str) -> Result<u32, Error> {
        self.numbers.get(name).copied().ok_or_else(|| Error::Share {
            why: format!("{} has no share {name:?}; define it first", self.owner),
        })
    }

    fn value(&self, name: &str, rate_bps: u64, minimum_bps: u64, until_ns: u64) -> layout::Share {
        layout::Share {
            lock: 0,
            unused: 0,
            rate_bps,
            minimum_bps,
            until_ns,
            owner: layout::name(&self.owner),
            name: layout::name(name),
        }
    }
}

impl Maps {
    fn open(store: &Store) -> Result<Self, Error> {
        let open = |name: &str| {
            MapHandle::from_pinned_path(store.hold_folder().join(name))
                .map_err(|error| system("read the shares", &error))
        };
        Ok(Self {
            shares: open("shares")?,
            uses: open("uses")?,
        })
    }

    fn all(&self) -> Result<Vec<Share>, Error> {
        let found = self.named()?.into_iter().map(|number| self.share(number));
        found
            .filter(|share| share.as_ref().map_or(true, |share| !share.name.is_empty()))
            .collect()
    }

    /// The numbers that are somebody's, read at once: one by one, all that there can be take 15 ms.
    fn named(&self) -> Result<Vec<u32>, Error> {
        let all = self
            .shares
            .lookup_batch(SHARES_MAX, MapFlags::ANY, MapFlags::ANY)
            .map_err(|error| system("read the shares", &error))?;
        let number = |(key, value): (Vec<u8>, Vec<u8>)| {
            let place = u32::from_ne_bytes(key.try_into().ok()?);
            let share = layout::Share::read(&value)?;
            (!layout::text(&share.name).is_empty()).then_some(place + 1)
        };
        Ok(all.filter_map(number).collect())
    }

    fn share(&self, number: u32) -> Result<Share, Error> {
        let granted: layout::Share = read(&self.shares, number, MapFlags::LOCK)?;
        let used: Use = read(&self.uses, number, MapFlags::LOCK)?;
        let now_ns = now_ns();
        Ok(Share {
            number,
            owner: layout::text(&granted.owner),
            name: layout::text(&granted.name),
            rate_bps: granted.rate_bps,
            minimum_bps: granted.minimum_bps,
            until_ns: granted.until_ns,
            left_s: granted.until_ns.saturating_sub(now_ns) as f64 / 1e9,
            connections: used.connections,
            active: used.active(now_ns),
            sent_bytes: used.sent_bytes,
            acked_bytes: used.acked_bytes,
        })
    }

    /// A number that is nobody's and that no connection is counted on any more; its use counts from 0.
    fn free(&self) -> Result<u32, Error> {
        for number in 1..=SHARES_MAX {
            let share = self.share(number)?;
            if share.name.is_empty() && share.connections == 0 {
                write(&self.uses, number, Use::zero().bytes(), MapFlags::LOCK)?;
                return Ok(number);
            }
        }
        Err(Error::Share {
            why: format!("there are {SHARES_MAX} shares already; remove one first"),
        })
    }

    fn write(&self, number: u32, value: &layout::Share) -> Result<(), Error> {
        write(&self.shares, number, value.bytes(), MapFlags::LOCK)
    }
}

/// Reads a value. With [`MapFlags::LOCK`] all of it comes from the same write.
fn read<T: Plain>(map: &MapHandle, number: u32, flags: MapFlags) -> Result<T, Error> {
    let value = map.lookup(&(number - 1).to_ne_bytes(), flags);
    let value = value.map_err(|error| system("read a share", &error))?;
    Ok(value
        .and_then(|value| T::read(&value))
        .unwrap_or_else(T::zero))
}

fn write(map: &MapHandle, number: u32, value: &[u8], flags: MapFlags) -> Result<(), Error> {
    map.update(&(number - 1).to_ne_bytes(), value, flags)
        .map_err(|error| system("write a share", &error))
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn check_name(what: &str, name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() >= SHARE_NAME_MAX || name.contains('\0') {
        return Err(Error::Share {
            why: format!(
                "{what} {name:?} is no name of 1 to {} bytes",
                SHARE_NAME_MAX - 1
            ),
        });
    }
    Ok(())
}

fn check_minimum(minimum_bps: u64) -> Result<(), Error> {
    match minimum_bps {
        0 => Ok(()),
        _ => check_rate("minimum", minimum_bps),
    }
}

fn check_rates(rate_bps: u64, minimum_bps: u64) -> Result<(), Error> {
    check_minimum(minimum_bps)?;
    check_rate("rate", rate_bps)?;
    if rate_bps < minimum_bps {
        return Err(Error::Share {
            why: format!("a share's rate, {rate_bps} b/s, is below its minimum, {minimum_bps} b/s"),
        });
    }
    Ok(())
}

fn check_rate(what: &str, rate_bps: u64) -> Result<(), Error> {
    if RATES_BPS.contains(&rate_bps) {
        return Ok(());
    }
    Err(Error::Share {
        why: format!("a share's {what} is held from 8 kb/s to 1 Tb/s, and {rate_bps} b/s is not"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_map_or_are_refused() {
        for (name, right) in [
            ("images/base22", true),
            (&"x".repeat(63), true),
            (&"x".repeat(64), false),
            ("", false),
            ("a\0b", false),
        ] {
            assert_eq!(check_name("share", name).is_ok(), right, "{name:?}");
        }
    }

    #[test]
    fn rates_that_cannot_be_held_are_refused() {
        for (rate_bps, minimum_bps, says) in [
            (8_000, 0, None),
            (10_000, 10_000, None),
            (1_000_000_000_000, 8_000, None),
            (0, 0, Some("rate is held from 8 kb/s")),
            (7_999, 0, Some("rate is held from 8 kb/s")),
            (9_000, 7_999, Some("minimum is held from 8 kb/s")),
            (9_999, 10_000, Some("below its minimum")),
            (1_000_000_000_001, 0, Some("to 1 Tb/s")),
        ] {
            let refused = check_rates(rate_bps, minimum_bps).err();
            let said = refused.map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains(says.unwrap_or("")), "{said}");
            assert_eq!(said.is_empty(), says.is_none(), "{said}");
        }
        assert!(check_minimum(0).is_ok());
    }
}
