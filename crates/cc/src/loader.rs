//! Loads a compiled program into the kernel as a congestion control.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    path::Path,
};

use libbpf_rs::{
    ErrorKind, Link, MapCore as _, MapHandle, MapMut, MapType, Object, ObjectBuilder, OpenMapMut,
};

use crate::{Error, Program, Store, kernel, layout, log::LogCapture};

/// The section of each program that has its parameters, 64 bits each.
const PARAMETERS: &str = ".rodata.params";
/// The name of the `tcp_congestion_ops` in each program.
const CONTROL: &str = "control";

/// A program that the kernel has verified and that is not a congestion control yet.
pub struct Candidate {
    object: Object,
    name: String,
}

impl Candidate {
    /// Makes the kernel verify `program` with the `values` of all its parameters. If `pinned`, the program uses the
    /// maps of `store`.
    pub(crate) fn verify(
        store: &Store,
        program: &Program,
        values: &[u64],
        pinned: bool,
    ) -> Result<Self, Error> {
        let name = store.kernel_name(program.name);
        let parameters: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect();
        let object = load(&name, program.object, |map_name, map| {
            match map_name {
                CONTROL => rename(map, &format!("hd_{}", program.name), &name),
                PARAMETERS => map.set_initial_value(&parameters)?,
                "flows" if pinned => map.set_pin_path(store.flows())?,
                // The rest is the program's own and goes on under the next one.
                "default_target" | "memories" | "shares" | "uses" if pinned => {
                    map.set_pin_path(store.folder(&name).join(map_name))?;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(Self { object, name })
    }

    /// Registers the program as a congestion control under its name, or returns why that failed.
    pub(crate) fn register(&mut self) -> Result<Link, Error> {
        let capture = LogCapture::begin();
        let attached = self.control().attach_struct_ops();
        let log = capture.end();
        attached.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Error::NameTaken {
                name: self.name.clone(),
            },
            _ => Error::Refused {
                why: error.to_string(),
                name: self.name.clone(),
                release: kernel::release(),
                log,
            },
        })
    }

    /// Replaces the program that a link has registered under the same name, after [`Self::register`] was refused.
    /// That call is needed first: it prepares the program, for which libbpf has no other public function.
    pub(crate) fn replace(&mut self, pinned: &Path) -> Result<(), Error> {
        let link = Link::open(pinned).map_err(|error| system("open what is loaded", &error))?;
        let map = self.control().as_fd().as_raw_fd();
        // SAFETY: both descriptors are open; without options the third argument is not read.
        let failed =
            unsafe { libbpf_sys::bpf_link_update(link.as_fd().as_raw_fd(), map, std::ptr::null()) };
        if failed == 0 {
            return Ok(());
        }
        Err(Error::System {
            what: format!("put the new {} in the place of the old", self.name),
            source: io::Error::from_raw_os_error(-failed),
        })
    }

    /// The kernel's numbers of the callbacks, with their names.
    pub(crate) fn callbacks(&self) -> Result<Vec<(String, u32)>, Error> {
        self.object
            .progs()
            .map(|program| {
                let name = program.name().to_string_lossy().into_owned();
                libbpf_rs::Program::id_from_fd(program.as_fd())
                    .map(|id| (name, id))
                    .map_err(|error| system("ask for a program's number", &error))
            })
            .collect()
    }

    /// A map of the program.
    pub(crate) fn map(&self, name: &str) -> Result<MapHandle, Error> {
        let missing = || Error::System {
            what: format!("find the map {name} of {}", self.name),
            source: io::ErrorKind::NotFound.into(),
        };
        let map = self.object.maps().find(|map| map.name() == name);
        MapHandle::try_from(&map.ok_or_else(missing)?).map_err(|error| system("open a map", &error))
    }

    fn control(&mut self) -> MapMut<'_> {
        self.object
            .maps_mut()
            .find(|map| map.map_type() == MapType::StructOps)
            .expect("each of our objects has one")
    }
}

/// Loads an object after calling `prepare` for each of its maps, by name. If it fails, the error contains the log of
/// libbpf and the kernel.
pub(crate) fn load(
    name: &str,
    object: &[u8],
    prepare: impl FnMut(&str, &mut OpenMapMut<'_>) -> libbpf_rs::Result<()>,
) -> Result<Object, Error> {
    let capture = LogCapture::begin();
    let loaded = open_and_load(object, prepare);
    let log = capture.end();
    loaded.map_err(|error| {
        if error.kind() == ErrorKind::PermissionDenied && !log.contains("BEGIN PROG LOAD LOG") {
            return kernel::refusal();
        }
        Error::Refused {
            name: name.to_owned(),
            release: kernel::release(),
            why: last_line(&log).unwrap_or_else(|| error.to_string()),
            log,
        }
    })
}

fn open_and_load(
    object: &[u8],
    mut prepare: impl FnMut(&str, &mut OpenMapMut<'_>) -> libbpf_rs::Result<()>,
) -> libbpf_rs::Result<Object> {
    let mut object = ObjectBuilder::default().open_memory(object)?;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        prepare(&name, &mut map)?;
    }
    object.load()
}

/// Overwrites the name in a `tcp_congestion_ops`.
fn rename(control: &mut OpenMapMut<'_>, from: &str, to: &str) {
    let Some(bytes) = control.initial_value_mut() else {
        return;
    };
    let found = bytes
        .windows(from.len())
        .position(|part| part == from.as_bytes());
    if let Some(at) = found {
        let field = &mut bytes[at..at + 16];
        field.copy_from_slice(&layout::name::<16>(to));
    }
}

fn last_line(log: &str) -> Option<String> {
    let lines = log
        .lines()
        .filter(|line| !line.starts_with("libbpf:") && !line.starts_with("processed"));
    let mut said: Vec<_> = lines
        .filter(|line| !line.trim_start().starts_with('-'))
        .collect();
    said.retain(|line| !line.trim().is_empty());
    said.last().map(|line| line.trim().to_owned())
}

pub(crate) fn system(what: &str, error: &libbpf_rs::Error) -> Error {
    Error::System {
        what: what.to_owned(),
        source: io::Error::other(error.to_string()),
    }
}
