//! Rules: connections to a prefix, with a port in a range at either end, get a congestion control.

use std::{
    fmt,
    fs::{self, File},
    os::fd::AsRawFd,
    path::PathBuf,
};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use serde::Serialize;

use crate::{
    Error, Network, Ports, Program, Store, Target,
    connections::{Census, Change, Connection},
    kernel,
    layout::{self, Plain, RANGES_MAX, RULES_MAX, Range, Ranges},
    loader::{self, system},
    mounts,
    program::object,
};

/// The connections a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The far ends.
    pub to: Network,
    /// Ports of either end.
    pub ports: Ports,
}

/// A rule and what it has done.
#[derive(Clone, Debug, Serialize)]
pub struct Rule {
    /// From 1.
    pub number: u32,
    /// Which connections.
    #[serde(flatten)]
    pub place: Place,
    /// What they get.
    pub control: String,
    /// What `hd_hold` holds for each of them; absent: the default.
    pub target: Option<Target>,
    /// New connections it chose for.
    pub chosen: u64,
    /// New connections that the kernel did not let have it.
    pub refused: u64,
}

/// What attaching or detaching has done.
#[derive(Debug, Serialize)]
pub struct Attaching {
    /// The rule.
    pub rule: Rule,
    /// Live connections that were moved.
    pub moved: usize,
    /// Rules left in force.
    pub rules: usize,
}

/// The maps of the program in force.
struct Maps {
    rules: MapHandle,
    prefixes: MapHandle,
}

impl Store {
    /// The rules in force. Needs root.
    pub fn rules(&self) -> Result<Vec<Rule>, Error> {
        Ok(self.in_force()?.1)
    }

    /// From now on connections to `place` get `control`; those that live are moved.
    pub fn attach(
        &self,
        place: Place,
        control: &str,
        target: Option<Target>,
    ) -> Result<Attaching, Error> {
        kernel::check()?;
        self.check_control(control, target)?;
        let _lock = self.open()?;
        let (maps, earlier) = self.in_force()?;
        check_place(place, &earlier)?;
        let maps = match maps {
            Some(maps) => maps,
            None => self.start()?,
        };
        let added = maps.add(place, control, target, &earlier);
        if added.is_err() && earlier.is_empty() {
            self.stop();
        }
        let rule = added?;
        let census = Census::take(self)?;
        let change = Change {
            to: Some(control.to_owned()),
            target: Some(target.unwrap_or_default()),
            rule: Some(rule.number),
            forget: false,
        };
        let meant = census
            .all
            .iter()
            .filter(|each| place.means(each) && each.rule.is_none());
        let changes: Vec<_> = meant.map(|each| (each, change.clone())).collect();
        let moved = census.change(self, &changes)?;
        Ok(Attaching {
            rule,
            moved,
            rules: earlier.len() + 1,
        })
    }

    /// Ends a rule; connections it chose for get back the control they had.
    pub fn detach(&self, place: Place) -> Result<Attaching, Error> {
        kernel::check()?;
        let _lock = self.open()?;
        let (maps, rules) = self.in_force()?;
        let found = rules.iter().find(|rule| rule.place == place);
        let (Some(maps), Some(rule)) = (maps, found) else {
            return Err(Error::Rule {
                why: not_attached(place, &rules),
            });
        };
        maps.remove(rule)?;
        let census = Census::take(self)?;
        let changes: Vec<_> = census
            .all
            .iter()
            .filter_map(|each| match &each.rule {
                Some((number, before)) if *number == rule.number => {
                    // Who chose another control since keeps it.
                    let back = (each.control == rule.control).then(|| before.clone());
                    let change = Change {
                        to: back,
                        target: Some(Target::default()),
                        rule: None,
                        forget: true,
                    };
                    Some((each, change))
                }
                _ => None,
            })
            .collect();
        let moved = census.change(self, &changes)?;
        if rules.len() == 1 {
            self.stop();
        }
        Ok(Attaching {
            rule: rule.clone(),
            moved,
            rules: rules.len() - 1,
        })
    }

    /// Refuses while a rule chooses `control`.
    pub(crate) fn check_unattached(&self, control: &str) -> Result<(), Error> {
        match self.rules()?.iter().find(|rule| rule.control == control) {
            None => Ok(()),
            Some(rule) => Err(Error::Attached {
                name: control.to_owned(),
                rules: rule.place.to_string(),
            }),
        }
    }

    fn check_control(&self, control: &str, target: Option<Target>) -> Result<(), Error> {
        let hold = self.kernel_name("hold");
        if target.is_some() && control != hold {
            return Err(Error::Rule {
                why: format!("{control} holds no rate or window; only hold does: --cc hold"),
            });
        }
        if let Some(Ok(program)) = control.strip_prefix(&self.prefix).map(Program::find) {
            self.understood(program)?;
        }
        let available = howdah_tcp::available_controls()?;
        if available.iter().any(|name| name == control) {
            return Ok(());
        }
        Err(Error::Rule {
            why: format!(
                "congestion control {control:?} is not in this kernel, which has {}; \
                 load what howdah brings with: howdah cc load NAME",
                available.join(" ")
            ),
        })
    }

    fn in_force(&self) -> Result<(Option<Maps>, Vec<Rule>), Error> {
        let maps = self.maps()?;
        let rules = maps.as_ref().map_or(Ok(Vec::new()), Maps::all)?;
        Ok((maps, rules))
    }

    fn attach_folder(&self) -> PathBuf {
        self.root.join("attach")
    }

    fn maps(&self) -> Result<Option<Maps>, Error> {
        let folder = self.attach_folder();
        if !folder.join("link").exists() {
            return Ok(None);
        }
        let open = |name| {
            MapHandle::from_pinned_path(folder.join(name))
                .map_err(|error| system("read the rules", &error))
        };
        Ok(Some(Maps {
            rules: open("rules")?,
            prefixes: open("prefixes")?,
        }))
    }

    /// Puts the program that chooses in force for every process of this host.
    fn start(&self) -> Result<Maps, Error> {
        let folder = self.attach_folder();
        let root = cgroup_root()?;
        fs::create_dir_all(&folder).map_err(|source| Error::System {
            what: format!("make {}", folder.display()),
            source,
        })?;
        let started = self.start_at(&root);
        if started.is_err() {
            self.stop();
        }
        started?;
        Ok(self.maps()?.expect("the link is there"))
    }

    fn start_at(&self, root: &File) -> Result<(), Error> {
        let folder = self.attach_folder();
        let object = loader::load("howdah_attach", object!("attach"), |name, map| match name {
            "flows" => map.set_pin_path(self.flows()),
            "rules" | "prefixes" => map.set_pin_path(folder.join(name)),
            _ => Ok(()),
        })?;
        let program = object.progs_mut().find(|each| each.name() == "choose");
        program
            .expect("it is in the object")
            .attach_cgroup(root.as_raw_fd())
            .and_then(|mut link| link.pin(folder.join("link")))
            .map_err(|error| system("attach to the root of cgroup2", &error))
    }

    fn stop(&self) {
        self.clear(&self.attach_folder());
    }
}

impl fmt::Display for Place {
    /// As attach and detach take it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--to {} --ports {}", self.to, self.ports)
    }
}

impl Place {
    fn means(&self, connection: &Connection) -> bool {
        !connection.listens
            && self.to.contains(connection.remote.ip())
            && (self.ports.contains(connection.remote.port())
                || self.ports.contains(connection.local.port()))
    }
}

impl Maps {
    fn all(&self) -> Result<Vec<Rule>, Error> {
        let mut found = Vec::new();
        for number in 0..RULES_MAX {
            let rule = self.rule(number)?;
            if rule.used == 1 {
                found.push(Rule {
                    number: number + 1,
                    place: Place {
                        to: Network::of_key(&rule.prefix),
                        ports: Ports {
                            least: rule.least,
                            most: rule.most,
                        },
                    },
                    control: layout::text(&rule.control),
                    target: (!rule.target.is_none()).then_some(rule.target),
                    chosen: rule.chosen,
                    refused: rule.refused,
                });
            }
        }
        Ok(found)
    }

    /// Beside the rules that are there `earlier`.
    fn add(
        &self,
        place: Place,
        control: &str,
        target: Option<Target>,
        earlier: &[Rule],
    ) -> Result<Rule, Error> {
        let full = |why: String| Error::Rule { why };
        let number = (0..RULES_MAX)
            .find(|number| !earlier.iter().any(|rule| rule.number == number + 1))
            .ok_or_else(|| {
                full(format!(
                    "there are {RULES_MAX} rules already; detach one first"
                ))
            })?;
        let prefix = place.to.key();
        let mut ranges = self.ranges(&prefix)?;
        let count = ranges.count as usize;
        if count == RANGES_MAX {
            let to = place.to;
            return Err(full(format!(
                "{to} has {RANGES_MAX} ranges of ports already; detach one first"
            )));
        }
        ranges.of[count] = Range {
            least: place.ports.least,
            most: place.ports.most,
            rule: number,
        };
        ranges.count += 1;
        let rule = layout::Rule {
            control: layout::name(control),
            target: target.unwrap_or_default(),
            chosen: 0,
            refused: 0,
            prefix,
            least: place.ports.least,
            most: place.ports.most,
            used: 1,
        };
        put(&self.rules, &number.to_ne_bytes(), rule.bytes())?;
        put(&self.prefixes, prefix.bytes(), ranges.bytes())?;
        Ok(Rule {
            number: number + 1,
            place,
            control: control.to_owned(),
            target,
            chosen: 0,
            refused: 0,
        })
    }

    fn remove(&self, rule: &Rule) -> Result<(), Error> {
        let number = rule.number - 1;
        let prefix = rule.place.to.key();
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

    fn rule(&self, number: u32) -> Result<layout::Rule, Error> {
        let value = self.rules.lookup(&number.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(|error| system("read the rules", &error))?;
        Ok(value
            .and_then(|value| layout::Rule::read(&value))
            .unwrap_or_else(layout::Rule::zero))
    }

    /// Of exactly this prefix: a shorter one would be found as well, but rules never overlap.
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

/// Rules are told apart by prefix and ports alone, so none may lie in the way of another.
fn check_place(place: Place, rules: &[Rule]) -> Result<(), Error> {
    let Place { to, ports } = place;
    for rule in rules {
        let there = rule.place;
        let why = if there == place {
            format!(
                "{place} is attached already, to {}; end that first with: howdah cc detach {place}",
                rule.control
            )
        } else if there.to == to && there.ports.overlaps(&ports) {
            format!(
                "ports {ports} of {to} overlap those of the rule {there}; \
                 detach that first, or give ports outside of it"
            )
        } else if there.to != to && there.to.overlaps(&to) {
            format!(
                "prefix {to} overlaps {} of the rule {there}; \
                 detach that first, or give both the same prefix and other ports",
                there.to
            )
        } else {
            continue;
        };
        return Err(Error::Rule { why });
    }
    Ok(())
}

fn not_attached(place: Place, rules: &[Rule]) -> String {
    let known: Vec<_> = rules.iter().map(|rule| rule.place.to_string()).collect();
    let known = match known.is_empty() {
        true => "no rule is attached".to_owned(),
        false => format!("attached: {}", known.join("; ")),
    };
    format!("{place} is not attached; {known}")
}

/// The root of the unified hierarchy, wherever it is mounted.
fn cgroup_root() -> Result<File, Error> {
    let found = mounts::all()
        .into_iter()
        .find(|mount| mount.kind == "cgroup2");
    let Some(mount) = found else {
        return Err(Error::Rule {
            why: "cgroup2 is not mounted here, and it is what tells us of new connections; mount it with: \
                  mount -t cgroup2 cgroup2 /sys/fs/cgroup"
                .to_owned(),
        });
    };
    File::open(&mount.place).map_err(|source| Error::System {
        what: format!("open {}", mount.place.display()),
        source,
    })
}
