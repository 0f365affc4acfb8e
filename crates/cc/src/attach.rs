//! Rules: connections to a prefix, with a port in a range at either end, get a congestion control.

use std::{
    fs::{self, File},
    os::fd::AsRawFd,
    path::PathBuf,
};

use serde::Serialize;

use crate::{
    Cgroup, Error, Namespace, Place, Program, Rule, Store, Target, cgroups,
    connections::Census,
    kernel,
    loader::{self, system},
    program::object,
    rules::{Maps, Wanted, choose},
};

/// The most rules that an error names.
const NAMED: usize = 5;

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

impl Store {
    /// The rules in force. This needs root.
    pub fn rules(&self) -> Result<Vec<Rule>, Error> {
        self.maps()?.map_or(Ok(Vec::new()), |maps| maps.all())
    }

    /// Gives new connections to `place` the congestion control `control`, and moves existing ones to it.
    pub fn attach(
        &self,
        place: Place,
        control: &str,
        target: Option<Target>,
    ) -> Result<Attaching, Error> {
        kernel::check()?;
        self.check_control(control, target)?;
        let wanted = Wanted {
            scope: place.scope()?.map_err(Cgroup::missing)?,
            place,
            control: control.to_owned(),
            target,
        };
        let _lock = self.open()?;
        let earlier = self.rules()?;
        let (mut rules, moved) = self.begin(&[wanted], &earlier)?;
        Ok(Attaching {
            rule: rules.remove(0),
            moved,
            rules: earlier.len() + 1,
        })
    }

    /// Ends a rule. Its connections get back the control that they had.
    pub fn detach(&self, place: &Place) -> Result<Attaching, Error> {
        kernel::check()?;
        let _lock = self.open()?;
        let rules = self.rules()?;
        let Some(rule) = rules.iter().find(|rule| rule.place == *place) else {
            return Err(Error::Rule {
                why: not_attached(place, &rules),
            });
        };
        let moved = self.end(std::slice::from_ref(rule), &rules)?;
        Ok(Attaching {
            rule: rule.clone(),
            moved,
            rules: rules.len() - 1,
        })
    }

    /// Adds rules to the `earlier` ones, all or none, and moves existing connections. Returns the rules and how many
    /// connections were moved. The caller has the lock.
    pub(crate) fn begin(
        &self,
        wanted: &[Wanted],
        earlier: &[Rule],
    ) -> Result<(Vec<Rule>, usize), Error> {
        if wanted.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let maps = match self.maps()? {
            Some(maps) => maps,
            None => self.start()?,
        };
        let added = maps.add(wanted, earlier);
        if added.is_err() && earlier.is_empty() {
            self.stop();
        }
        let rules = added?;
        let census = Census::of(self, reached(&rules))?;
        let changes: Vec<_> = census
            .all
            .iter()
            .filter_map(|each| {
                let rule = choose(earlier.iter().chain(&rules), each)?;
                let new = rules.iter().any(|own| own.number == rule.number);
                let change = match each.rule {
                    _ if !new => None,
                    None => Some(rule.adopt()),
                    Some(_) => rule.adopt_from(each, earlier),
                };
                Some((each, change?))
            })
            .collect();
        let moved = census.change(self, &changes)?;
        Ok((rules, moved))
    }

    /// Ends some rules, and gives their connections back what they had. Returns how many. The caller has the lock.
    pub(crate) fn end(&self, rules: &[Rule], there: &[Rule]) -> Result<usize, Error> {
        let (Some(maps), false) = (self.maps()?, rules.is_empty()) else {
            return Ok(0);
        };
        for rule in rules {
            maps.remove(rule)?;
        }
        let ended = |rule: &&Rule| rules.iter().any(|each| each.number == rule.number);
        let census = Census::of(self, reached(rules))?;
        let changes: Vec<_> = census
            .all
            .iter()
            .filter_map(|each| {
                let next = choose(there.iter().filter(|rule| !ended(rule)), each);
                let change = rules.iter().find_map(|rule| rule.release(each, next))?;
                Some((each, change))
            })
            .collect();
        let moved = census.change(self, &changes)?;
        if rules.len() == there.len() {
            self.stop();
        }
        Ok(moved)
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

    fn maps(&self) -> Result<Option<Maps>, Error> {
        let folder = self.attach_folder();
        let there = folder.join("link").exists();
        there.then(|| Maps::open(&folder)).transpose()
    }

    fn attach_folder(&self) -> PathBuf {
        self.root.join("attach")
    }

    /// Attaches the program that applies the rules, for every process of this host.
    fn start(&self) -> Result<Maps, Error> {
        let folder = self.attach_folder();
        let root = cgroups::open_root()?;
        fs::create_dir_all(&folder).map_err(|source| Error::System {
            what: format!("make {}", folder.display()),
            source,
        })?;
        let started = self.start_at(&root).and_then(|()| Maps::open(&folder));
        if started.is_err() {
            self.stop();
        }
        started
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

/// The network namespaces that rules are for.
fn reached(rules: &[Rule]) -> Vec<Namespace> {
    let mut all = Namespace::all();
    if rules.iter().all(|rule| rule.scope.cookie > 0) {
        let inodes: Vec<_> = rules
            .iter()
            .filter_map(|rule| rule.place.namespace)
            .collect();
        all.retain(|each| inodes.contains(&each.inode));
    }
    all
}

fn not_attached(place: &Place, rules: &[Rule]) -> String {
    let named = rules.iter().take(NAMED).map(|rule| rule.place.to_string());
    let known = match rules.len() {
        0 => "no rule is attached".to_owned(),
        count => {
            let more = if count > NAMED { "; …" } else { "" };
            format!("attached: {}{more}", named.collect::<Vec<_>>().join("; "))
        }
    };
    format!("{place} is not attached; {known}")
}
