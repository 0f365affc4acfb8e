//! Loads programs that outlive this process, swaps them while connections use them, and unloads them.

use std::{collections::BTreeMap, fs};

use howdah_cc_model::Parameter;
use libbpf_rs::Link;
use serde::Serialize;

use crate::{
    Error, Namespace, PROGRAMS, Program, Setting, Store, Target,
    connections::{Census, Change, Connection},
    kernel,
    layout::{self, ABI, About},
    loader::Candidate,
    namespaces,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// A control that every kernel has.
const LAST_RESORT: &str = "reno";

/// A program and whether it is in the kernel.
#[derive(Debug, Serialize)]
pub struct Listed {
    /// The name as users call it.
    pub name: &'static str,
    /// Its name in the kernel, whether it is loaded or not.
    pub kernel_name: String,
    /// What the control does, in one line.
    pub summary: &'static str,
    /// The parameters.
    pub parameters: &'static [Parameter],
    /// The ranges of the parameters as users write them, in the same order.
    pub ranges: Vec<String>,
    /// The defaults of the parameters as users write them, in the same order.
    pub defaults: Vec<String>,
    /// What is loaded; absent if howdah has loaded nothing, or this process may not look.
    pub loaded: Option<Loaded>,
    /// Whether the kernel has a congestion control of that name.
    pub in_kernel: bool,
}

/// What is in the kernel.
#[derive(Debug, Serialize)]
pub struct Loaded {
    /// The version of the howdah that loaded it.
    pub version: String,
    /// Whether it is the program of this version of howdah.
    pub current: bool,
    /// Whether this howdah can tune it.
    pub understood: bool,
    /// Its parameters.
    pub settings: Vec<Setting>,
}

/// What loading has done.
#[derive(Debug, Serialize)]
pub struct Loading {
    /// The kernel's name.
    pub kernel_name: String,
    /// `loaded`, `swapped` or `unchanged`.
    pub action: &'static str,
    /// The version that it has replaced, if it has replaced one.
    pub replaced: Option<String>,
    /// Connections and listeners that now use the new program.
    pub moved: usize,
    /// Its parameters.
    pub settings: Vec<Setting>,
}

/// What unloading has done.
#[derive(Debug, Serialize)]
pub struct Unloading {
    /// The kernel's name.
    pub kernel_name: String,
    /// Connections and listeners that were moved, by their new control.
    pub moved: BTreeMap<String, usize>,
    /// Namespaces that had it as their default, by their new default.
    pub defaults: BTreeMap<String, usize>,
    /// Connections that could not be moved. The kernel keeps the program for them until they end.
    pub left: usize,
}

impl Store {
    /// Every program of howdah. Without root, less is known about each.
    pub fn list(&self) -> Vec<Listed> {
        let available = howdah_tcp::available_controls().unwrap_or_default();
        PROGRAMS
            .iter()
            .map(|program| self.describe(program, &available))
            .collect()
    }

    fn describe(&self, program: &'static Program, available: &[String]) -> Listed {
        let kernel_name = self.kernel_name(program.name);
        let about = self.about(&self.folder(&kernel_name));
        let show = |each: &Parameter| each.unit.show(each.default);
        Listed {
            name: program.name,
            summary: program.summary,
            parameters: program.parameters,
            ranges: program.parameters.iter().map(Parameter::range).collect(),
            defaults: program.parameters.iter().map(show).collect(),
            loaded: about.map(|about| loaded(program, &about)),
            in_kernel: available.contains(&kernel_name),
            kernel_name,
        }
    }

    /// Loads `program` so that it outlives this process, or swaps it in place while connections use it. Parameters
    /// that are not `given` keep the values of the loaded program, if there is one, and have their defaults
    /// otherwise.
    pub fn load(
        &self,
        program: &'static Program,
        given: &[(String, String)],
    ) -> Result<Loading, Error> {
        program.values(given)?;
        kernel::check()?;
        let _lock = self.open()?;
        let kernel_name = self.kernel_name(program.name);
        let folder = self.folder(&kernel_name);
        let before = self.about(&folder);
        if let Some(about) = &before {
            self.check_abi(program, about)?;
        }
        let values = program.values_over(before.as_ref().map(|about| &about.values[..]), given)?;
        let about = about(program, &values);
        let settings = settings(program, &values);
        let replaced = before.map(|about| layout::text(&about.version));
        if before == Some(about) {
            return Ok(Loading {
                kernel_name,
                action: "unchanged",
                replaced: None,
                moved: 0,
                settings,
            });
        }
        fs::create_dir_all(&folder).map_err(|source| Error::System {
            what: format!("make {}", folder.display()),
            source,
        })?;
        let allowed = howdah_tcp::allowed_controls().unwrap_or_default();
        let swapped = self.put_in(program, &values, &about).inspect_err(|_| {
            if before.is_none() {
                self.clear(&folder);
            }
        })?;
        let moved = if swapped {
            self.follow(&kernel_name, &allowed)?
        } else {
            0
        };
        let action = if swapped { "swapped" } else { "loaded" };
        Ok(Loading {
            kernel_name,
            action,
            replaced,
            moved,
            settings,
        })
    }

    /// Registers the program, or puts it in the place of ours. Returns whether it took a place.
    fn put_in(&self, program: &Program, values: &[u64], about: &About) -> Result<bool, Error> {
        let kernel_name = self.kernel_name(program.name);
        let folder = self.folder(&kernel_name);
        let mut candidate = Candidate::verify(self, program, values, true)?;
        let pinned = folder.join("link");
        match candidate.register() {
            Ok(mut link) => {
                self.note(&folder, about)?;
                link.pin(&pinned)
                    .map_err(|error| crate::loader::system("keep what was loaded", &error))?;
                Ok(false)
            }
            Err(Error::NameTaken { .. }) if pinned.exists() => {
                candidate.replace(&pinned)?;
                self.note(&folder, about)?;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// After a swap: live connections, defaults of namespaces and the list of what is allowed still mean
    /// the old program, which the kernel keeps for them.
    fn follow(&self, kernel_name: &str, allowed: &[String]) -> Result<usize, Error> {
        if allowed.iter().any(|name| name == kernel_name) {
            let _ = namespaces::allow_controls(allowed);
        }
        for namespace in Namespace::all() {
            let _ = namespace.inside(|| {
                if namespaces::default_control().as_deref() == Some(kernel_name) {
                    let _ = namespaces::set_default_control(kernel_name);
                }
                Ok(())
            });
        }
        let census = Census::take(self)?;
        let again = Change {
            to: Some(kernel_name.to_owned()),
            ..Change::default()
        };
        let changes = census.on(kernel_name).map(|each| (each, again.clone()));
        census.change(self, &changes.collect::<Vec<_>>())
    }

    /// Unloads `program` from the kernel. Its connections continue with the control that they had before attach chose
    /// it, or else with the default of their namespace.
    pub fn unload(&self, program: &'static Program) -> Result<Unloading, Error> {
        kernel::check()?;
        let _lock = self.open()?;
        let kernel_name = self.kernel_name(program.name);
        let folder = self.folder(&kernel_name);
        let pinned = folder.join("link");
        if !pinned.exists() {
            return Err(match self.absent(program) {
                Error::NotLoaded { name, .. } => Error::NothingLoaded { name },
                other => other,
            });
        }
        self.check_unattached(&kernel_name)?;
        if namespaces::default_control().as_deref() == Some(&kernel_name) {
            return Err(Error::HostDefault { name: kernel_name });
        }
        let mut defaults = BTreeMap::new();
        let mut by_namespace = BTreeMap::new();
        for namespace in Namespace::all() {
            let found = namespace.inside(|| Ok(leave_default(&kernel_name)));
            if let Ok((default, left)) = found {
                if left {
                    *defaults.entry(default.clone()).or_insert(0) += 1;
                }
                by_namespace.insert(namespace.inode, default);
            }
        }
        let moved = self.move_away(&kernel_name, &by_namespace)?;
        // Closed by us, the last descriptor, the link takes the name away before we go on.
        let link = Link::open(&pinned)
            .map_err(|error| crate::loader::system("open what is loaded", &error))?;
        self.clear(&folder);
        drop(link);
        let left = Census::take(self)?.on(&kernel_name).count();
        Ok(Unloading {
            kernel_name,
            moved,
            defaults,
            left,
        })
    }

    fn move_away(
        &self,
        kernel_name: &str,
        defaults: &BTreeMap<u64, String>,
    ) -> Result<BTreeMap<String, usize>, Error> {
        let census = Census::take(self)?;
        let mut by_control: BTreeMap<String, Vec<(&Connection, Change)>> = BTreeMap::new();
        for each in census.on(kernel_name) {
            let before = each.rule.as_ref().map(|(_, before)| before.as_str());
            let default = defaults
                .get(&each.namespace)
                .map_or(LAST_RESORT, String::as_str);
            let to = before
                .filter(|name| !name.is_empty() && *name != kernel_name)
                .unwrap_or(default);
            let change = Change {
                to: Some(to.to_owned()),
                target: Some(Target::default()),
                ..Change::default()
            };
            by_control
                .entry(to.to_owned())
                .or_default()
                .push((each, change));
        }
        by_control
            .into_iter()
            .map(|(to, changes)| Ok((to, census.change(self, &changes)?)))
            .collect()
    }

    /// The loaded version of `program`. This version of howdah must be able to read its maps.
    pub(crate) fn understood(&self, program: &'static Program) -> Result<About, Error> {
        let folder = self.folder(&self.kernel_name(program.name));
        let about = self.about(&folder).ok_or_else(|| self.absent(program))?;
        self.check_abi(program, &about)?;
        Ok(about)
    }

    fn absent(&self, program: &'static Program) -> Error {
        let name = self.kernel_name(program.name);
        if howdah_tcp::available_controls().is_ok_and(|all| all.contains(&name)) {
            return Error::NameTaken { name };
        }
        Error::NotLoaded {
            name,
            short: program.name,
        }
    }

    fn check_abi(&self, program: &'static Program, about: &About) -> Result<(), Error> {
        if about.abi == ABI {
            return Ok(());
        }
        let version = layout::text(&about.version);
        Err(Error::OtherAbi {
            name: self.kernel_name(program.name),
            version: if version.is_empty() {
                "unknown".to_owned()
            } else {
                version
            },
            own: VERSION,
            short: program.name,
        })
    }
}

/// Has the calling thread's namespace use another control than `kernel_name` for new connections; its
/// default, and whether it was changed.
fn leave_default(kernel_name: &str) -> (String, bool) {
    let default = namespaces::default_control().unwrap_or_else(|| LAST_RESORT.to_owned());
    if default != kernel_name {
        return (default, false);
    }
    for name in ["cubic", LAST_RESORT] {
        if namespaces::set_default_control(name).is_ok() {
            return (name.to_owned(), true);
        }
    }
    (LAST_RESORT.to_owned(), false)
}

fn about(program: &Program, values: &[u64]) -> About {
    let mut about = About {
        abi: ABI,
        count: values.len() as u32,
        digest: program.digest(),
        version: [0; 24],
        values: [0; 8],
    };
    about.version[..VERSION.len()].copy_from_slice(VERSION.as_bytes());
    about.values[..values.len()].copy_from_slice(values);
    about
}

fn loaded(program: &Program, found: &About) -> Loaded {
    let understood = found.abi == ABI;
    let count = if understood { found.count as usize } else { 0 };
    Loaded {
        version: layout::text(&found.version),
        current: understood && *found == about(program, &found.values[..count.min(8)]),
        understood,
        settings: settings(program, &found.values[..count.min(8)]),
    }
}

fn settings(program: &Program, values: &[u64]) -> Vec<Setting> {
    let pairs = program.parameters.iter().zip(values);
    pairs
        .map(|(parameter, &value)| Setting::new(parameter, value))
        .collect()
}
