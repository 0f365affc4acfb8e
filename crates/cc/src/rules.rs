//! The rules in the maps: the connections of each rule, what they get, and what the rule has done.

use std::{collections::BTreeSet, fmt, path::Path};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use serde::Serialize;

use crate::{
    Cgroup, Error, Namespace, Network, Ports, Target,
    connections::{Change, Connection},
    layout::{self, Plain, RANGES_MAX, RULES_MAX, Range, Ranges},
    loader::system,
};

/// The connections a rule is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The cgroup of the connections, including the cgroups below it; absent for all.
    pub cgroup: Option<Cgroup>,
    /// The addresses of the far ends; absent for all.
    pub to: Option<Network>,
    /// The ports. One end has a port in this range.
    pub ports: Ports,
    /// The inode of their network namespace; absent for every namespace.
    pub namespace: Option<u64>,
}

/// A rule and what it has done.
#[derive(Clone, Debug, Serialize)]
pub struct Rule {
    /// The number of the rule, from 1.
    pub number: u32,
    /// The connections of the rule.
    #[serde(flatten)]
    pub place: Place,
    /// The congestion control that they get.
    pub control: String,
    /// The target of `hd_hold` for each of them, or for all together; absent for the default.
    pub target: Option<Target>,
    /// New connections it chose for.
    pub chosen: u64,
    /// New connections to which the kernel refused the control.
    pub refused: u64,
    #[serde(skip)]
    pub(crate) scope: Scope,
}

/// The network namespace and the cgroup of a rule, by numbers that are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    /// The cookie of the namespace; 0 for every namespace.
    pub cookie: u64,
    /// The id of the cgroup; 0 for every cgroup.
    pub cgroup: u64,
}

/// A rule that is not in force yet.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub place: Place,
    pub scope: Scope,
    pub control: String,
    pub target: Option<Target>,
}

/// The maps of the program in force.
pub(crate) struct Maps {
    rules: MapHandle,
    prefixes: MapHandle,
}

impl fmt::Display for Place {
    /// A place as attach and detach take it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cgroup) = &self.cgroup {
            write!(f, "--cgroup {cgroup} ")?;
        }
        if let Some(to) = self.to {
            write!(f, "--to {to} ")?;
        }
        write!(f, "--ports {}", self.ports)?;
        match self.namespace {
            Some(inode) => write!(f, " --namespace {inode}"),
            None => Ok(()),
        }
    }
}

impl Place {
    /// Reads a place as users write it. `to` or `cgroup` has to be given.
    pub fn new(
        to: Option<&str>,
        ports: &str,
        cgroup: Option<&str>,
        namespace: Option<u64>,
    ) -> Result<Self, Error> {
        if to.is_none() && cgroup.is_none() {
            let why = "say which connections: by a prefix they go to, by a cgroup, or by both";
            return Err(Error::Rule {
                why: why.to_owned(),
            });
        }
        Ok(Self {
            cgroup: cgroup.map(str::parse).transpose()?,
            to: to.map(str::parse).transpose()?,
            ports: ports.parse()?,
            namespace,
        })
    }

    /// The scope of the place now, or the cgroup that does not exist.
    pub(crate) fn scope(&self) -> Result<Result<Scope, &Cgroup>, Error> {
        let cgroup = match &self.cgroup {
            None => 0,
            Some(cgroup) => match cgroup.id()? {
                None => return Ok(Err(cgroup)),
                Some(id) => id,
            },
        };
        let cookie = match self.namespace {
            None => 0,
            Some(inode) => Namespace::of(inode)?.cookie()?,
        };
        Ok(Ok(Scope { cookie, cgroup }))
    }

    fn key(&self, scope: Scope) -> layout::Prefix {
        let Scope { cookie, cgroup } = scope;
        self.to.map_or_else(
            || Network::key_of_all(cookie, cgroup),
            |to| to.key(cookie, cgroup),
        )
    }

    fn means(&self, connection: &Connection) -> bool {
        !connection.listens
            && self
                .namespace
                .is_none_or(|inode| inode == connection.namespace)
            && self.to.is_none_or(|to| to.contains(connection.remote.ip()))
            && (self.ports.contains(connection.remote.port())
                || self.ports.contains(connection.local.port()))
    }
}

impl Scope {
    /// Whether rules of both stand in each other's way, as far as these go.
    fn meets(&self, other: &Self) -> bool {
        let namespaces = self.cookie == 0 || other.cookie == 0 || self.cookie == other.cookie;
        namespaces && self.cgroup == other.cgroup
    }
}

impl Wanted {
    /// Whether the rule in force is the same as this one.
    pub fn is(&self, rule: &Rule) -> bool {
        (&rule.place, rule.scope, rule.target) == (&self.place, self.scope, self.target)
            && rule.control == self.control
    }

    /// Refuses a rule that overlaps with another. Cgroup, namespace, prefix and ports alone tell rules apart.
    fn check(&self, rules: &[Rule]) -> Result<(), Error> {
        let Place { to, ports, .. } = &self.place;
        let overlap = |one: &Option<Network>, other: &Option<Network>| match (one, other) {
            (Some(one), Some(other)) => one.overlaps(other),
            _ => true,
        };
        for rule in rules {
            let there = &rule.place;
            let why = if *there == self.place {
                format!(
                    "{there} is attached already, to {}; end that first with: howdah cc detach {there}",
                    rule.control
                )
            } else if !rule.scope.meets(&self.scope) {
                continue;
            } else if there.to == *to && there.ports.overlaps(ports) {
                format!(
                    "ports {ports} of {} overlap those of the rule {there}; \
                     detach that first, or give ports outside of it",
                    named(to)
                )
            } else if there.to != *to && overlap(&there.to, to) {
                format!(
                    "prefix {} overlaps {} of the rule {there}; \
                     detach that first, or give both the same prefix and other ports",
                    named(to),
                    named(&there.to)
                )
            } else {
                continue;
            };
            return Err(Error::Rule { why });
        }
        Ok(())
    }
}

impl Rule {
    fn read(number: u32, rule: &layout::Rule) -> Self {
        Self {
            number: number + 1,
            place: Place {
                cgroup: Cgroup::known(&layout::text(&rule.cgroup)),
                to: Network::of_key(&rule.prefix),
                ports: Ports {
                    least: rule.least,
                    most: rule.most,
                },
                namespace: (rule.namespace > 0).then_some(rule.namespace),
            },
            control: layout::text(&rule.control),
            target: (!rule.target.is_none()).then_some(rule.target),
            chosen: rule.chosen,
            refused: rule.refused,
            scope: Scope {
                cookie: rule.prefix.namespace,
                cgroup: rule.prefix.cgroup,
            },
        }
    }

    /// How many cgroups below that of the rule the connection's own lies, if the rule is for it; a rule of no cgroup
    /// comes behind all.
    fn rank(&self, connection: &Connection) -> Option<usize> {
        if !self.place.means(connection) {
            return None;
        }
        match self.scope.cgroup {
            0 => Some(usize::MAX),
            id => connection.cgroups.iter().rev().position(|&own| own == id),
        }
    }

    /// The change to a live connection when the rule begins.
    pub(crate) fn adopt(&self) -> Change {
        Change {
            to: Some(self.control.clone()),
            target: Some(self.target.unwrap_or_default()),
            rule: Some(self.number),
            forget: false,
        }
    }

    /// The change to a connection for which another of the rules `there` chose, unless its control was changed since.
    pub(crate) fn adopt_from(&self, connection: &Connection, there: &[Rule]) -> Option<Change> {
        let (number, _) = connection.rule.as_ref()?;
        let other = there.iter().find(|rule| rule.number == *number)?;
        (*number != self.number && connection.control == other.control).then(|| self.adopt())
    }

    /// The change to a connection of the rule when the rule ends. It then belongs to the rule `next`, if there is
    /// one. If its control was changed since, it keeps that.
    pub(crate) fn release(&self, connection: &Connection, next: Option<&Rule>) -> Option<Change> {
        let (_, before) = connection
            .rule
            .as_ref()
            .filter(|(number, _)| *number == self.number)?;
        if let Some(next) = next.filter(|_| connection.control == self.control) {
            return Some(next.adopt());
        }
        Some(Change {
            to: (connection.control == self.control).then(|| before.clone()),
            target: Some(Target::default()),
            rule: None,
            forget: true,
        })
    }
}

/// The rule of a connection, in the order of `src/bpf/attach.bpf.c`.
pub(crate) fn choose<'a>(
    rules: impl IntoIterator<Item = &'a Rule>,
    connection: &Connection,
) -> Option<&'a Rule> {
    let ranked = rules
        .into_iter()
        .filter_map(|rule| Some((rule.rank(connection)?, rule)));
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, rule)| rule)
}

fn named(to: &Option<Network>) -> String {
    to.map_or_else(|| "all addresses".to_owned(), |to| to.to_string())
}

impl Maps {
    /// The maps pinned in `folder`.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let open = |name: &str, value_bytes: usize| {
            let map = MapHandle::from_pinned_path(folder.join(name))
                .map_err(|error| system("read the rules", &error))?;
            if map.value_size() as usize == value_bytes && map.max_entries() == RULES_MAX {
                return Ok(map);
            }
            Err(Error::Rule {
                why: format!(
                    "the rules in force were attached by another howdah, and this one cannot read them; \
                     end them with that one, or all at once with: rm -r {}",
                    folder.display()
                ),
            })
        };
        Ok(Self {
            rules: open("rules", size_of::<layout::Rule>())?,
            prefixes: open("prefixes", size_of::<Ranges>())?,
        })
    }

    pub fn all(&self) -> Result<Vec<Rule>, Error> {
        let mut found = Vec::new();
        for number in 0..RULES_MAX {
            let value = self.rules.lookup(&number.to_ne_bytes(), MapFlags::ANY);
            let value = value.map_err(|error| system("read the rules", &error))?;
            let rule = value.and_then(|value| layout::Rule::read(&value));
            found.extend(
                rule.filter(|rule| rule.used == 1)
                    .map(|rule| Rule::read(number, &rule)),
            );
        }
        Ok(found)
    }

    /// Adds rules to the `earlier` ones, all of them or none.
    pub fn add(&self, wanted: &[Wanted], earlier: &[Rule]) -> Result<Vec<Rule>, Error> {
        let mut all = earlier.to_vec();
        for each in wanted {
            let added = each.check(&all).and_then(|()| self.add_one(each, &all));
            match added {
                Ok(rule) => all.push(rule),
                Err(error) => {
                    for rule in &all[earlier.len()..] {
                        self.remove(rule)?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(all.split_off(earlier.len()))
    }

    fn add_one(&self, wanted: &Wanted, earlier: &[Rule]) -> Result<Rule, Error> {
        let full = |why: String| Error::Rule { why };
        let taken: BTreeSet<_> = earlier.iter().map(|rule| rule.number - 1).collect();
        let free = (0..RULES_MAX).find(|number| !taken.contains(number));
        let number = free.ok_or_else(|| {
            full(format!(
                "there are {RULES_MAX} rules already; detach one first"
            ))
        })?;
        let Place {
            ref cgroup,
            ref to,
            ports,
            namespace,
        } = wanted.place;
        let prefix = wanted.place.key(wanted.scope);
        let mut ranges = self.ranges(&prefix)?;
        let count = ranges.count as usize;
        if count == RANGES_MAX {
            return Err(full(format!(
                "{} has {RANGES_MAX} ranges of ports already; detach one first",
                named(to)
            )));
        }
        ranges.of[count] = Range {
            least: ports.least,
            most: ports.most,
            rule: number,
        };
        ranges.count += 1;
        let rule = layout::Rule {
            control: layout::name(&wanted.control),
            target: wanted.target.unwrap_or_default(),
            chosen: 0,
            refused: 0,
            prefix,
            namespace: namespace.unwrap_or(0),
            least: ports.least,
            most: ports.most,
            used: 1,
            cgroup: layout::name(cgroup.as_ref().map_or("", AsRef::as_ref)),
        };
        put(&self.rules, &number.to_ne_bytes(), rule.bytes())?;
        put(&self.prefixes, prefix.bytes(), ranges.bytes())?;
        Ok(Rule::read(number, &rule))
    }

    pub fn remove(&self, rule: &Rule) -> Result<(), Error> {
        let number = rule.number - 1;
        let prefix = rule.place.key(rule.scope);
        let before = self.ranges(&prefix)?;
        let mut after = Ranges::zero();
        let kept = before.of[..before.count as usize]
            .iter()
            .filter(|range| range.rule != number);
        for range in kept {
            after.of[after.count as usize] = *range;
            after.count += 1;
        }
        if after.count > 0 {
            put(&self.prefixes, prefix.bytes(), after.bytes())?;
        } else {
            self.prefixes
                .delete(prefix.bytes())
                .map_err(|error| system("end a rule", &error))?;
        }
        put(
            &self.rules,
            &number.to_ne_bytes(),
            layout::Rule::zero().bytes(),
        )
    }

    /// The ranges of exactly this prefix. A shorter one would be found as well, but rules never overlap.
    fn ranges(&self, prefix: &layout::Prefix) -> Result<Ranges, Error> {
        let value = self.prefixes.lookup(prefix.bytes(), MapFlags::ANY);
        let value = value.map_err(|error| system("read the rules", &error))?;
        Ok(value
            .and_then(|value| Ranges::read(&value))
            .unwrap_or_else(Ranges::zero))
    }
}

fn put(map: &MapHandle, key: &[u8], value: &[u8]) -> Result<(), Error> {
    map.update(key, value, MapFlags::ANY)
        .map_err(|error| system("note a rule", &error))
}
