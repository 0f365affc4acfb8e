//! From a compiled program to a congestion control in the kernel.

use std::{ffi::OsStr, io, os::fd::AsFd};

use libbpf_rs::{
    ErrorKind, Link, MapCore as _, MapMut, MapType, Object, ObjectBuilder, OpenMapMut, OpenObject,
};

use crate::{Error, Program, kernel, log::Listening};

/// Where each program keeps its parameters, 64 bits each; libbpf cuts names to 15 bytes.
const PARAMETERS: &str = ".rodata.params";
/// What each program calls its `tcp_congestion_ops`.
const CONTROL: &str = "control";

/// A program that the kernel has verified, not yet a congestion control.
pub struct Candidate {
    object: Object,
    name: String,
}

/// A program that sockets may choose while this lives.
pub struct Registered {
    candidate: Candidate,
    link: Link,
}

impl Candidate {
    /// Has the kernel verify `program` with all its parameters' `values`.
    pub fn verify(program: &Program, values: &[u64]) -> Result<Self, Error> {
        Self::verify_as(program, values, program.kernel_name)
    }

    /// The same under another name of at most 15 bytes, so that two can be compared.
    pub fn verify_as(program: &Program, values: &[u64], name: &str) -> Result<Self, Error> {
        kernel::check()?;
        let listening = Listening::begin();
        let loaded = open(program, values, name).and_then(OpenObject::load);
        let log = listening.end();
        match loaded {
            Ok(object) => Ok(Self {
                object,
                name: name.to_owned(),
            }),
            Err(error) if error.kind() == ErrorKind::PermissionDenied && log.is_empty() => {
                Err(kernel::refusal())
            }
            Err(error) => Err(Error::Refused {
                name: name.to_owned(),
                release: kernel::release(),
                why: last_line(&log).unwrap_or_else(|| error.to_string()),
                log,
            }),
        }
    }

    /// Makes it a congestion control under its name.
    pub fn register(mut self) -> Result<Registered, Error> {
        let listening = Listening::begin();
        let attached = self.control().attach_struct_ops();
        let log = listening.end();
        match attached {
            Ok(link) => Ok(Registered {
                candidate: self,
                link,
            }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(Error::NameTaken { name: self.name })
            }
            Err(error) => Err(Error::Refused {
                why: error.to_string(),
                name: self.name,
                release: kernel::release(),
                log,
            }),
        }
    }

    /// The kernel's identifiers of the callbacks, with their names.
    pub fn callbacks(&self) -> Result<Vec<(String, u32)>, Error> {
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

    fn control(&mut self) -> MapMut<'_> {
        self.object
            .maps_mut()
            .find(|map| map.map_type() == MapType::StructOps)
            .expect("each of our objects has one")
    }
}

impl Registered {
    /// What the kernel verified.
    #[must_use]
    pub fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// The kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.candidate.name
    }

    /// What keeps it registered.
    pub fn link(&self) -> &Link {
        &self.link
    }
}

fn open(program: &Program, values: &[u64], name: &str) -> libbpf_rs::Result<OpenObject> {
    let mut object = ObjectBuilder::default().open_memory(program.object)?;
    for mut map in object.maps_mut() {
        if map.name() == CONTROL {
            rename(&mut map, program.kernel_name, name);
        } else if is_parameters(map.name()) {
            let bytes: Vec<u8> = values
                .iter()
                .flat_map(|value| value.to_ne_bytes())
                .collect();
            map.set_initial_value(&bytes)?;
        }
    }
    Ok(object)
}

fn is_parameters(map: &OsStr) -> bool {
    map.to_str()
        .is_some_and(|name| PARAMETERS.starts_with(name) && name.starts_with(".rodata.p"))
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
        field.fill(0);
        let length = to.len().min(15);
        field[..length].copy_from_slice(&to.as_bytes()[..length]);
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
