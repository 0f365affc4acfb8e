//! The names of files at the destination.

use howdah_wire::{Job, TreePath};

use crate::tree::source::{BaseName, base_name};

/// Gives files their names relative to the destination. If the file itself is the destination, its last name is used.
#[derive(Debug, Default)]
pub struct Naming {
    prefixes: Vec<Vec<u8>>,
    own: Vec<u8>,
}

impl Naming {
    /// The names of a job's files; `into_folder` as in [`crate::tree::target::Targets`].
    pub fn new(job: &Job, into_folder: bool) -> Self {
        let prefix = |source: &Vec<u8>| match base_name(source) {
            Ok(BaseName::Named(name)) if into_folder => name,
            _ => Vec::new(),
        };
        let own = match base_name(&job.destination) {
            Ok(BaseName::Named(name)) => name,
            _ => Vec::new(),
        };
        Self {
            prefixes: job.sources.iter().map(prefix).collect(),
            own,
        }
    }

    /// The path at the receiver of a job's only source, or of the folder that several sources go to.
    pub fn target(job: &Job, into_folder: bool) -> Vec<u8> {
        let folder = job.destination.as_slice();
        match job.sources.as_slice() {
            [source] if into_folder => match (base_name(source), folder) {
                (Ok(BaseName::Named(name)), b"" | b"." | b"./") => name,
                (Ok(BaseName::Named(name)), [.., b'/']) => [folder, &name].concat(),
                (Ok(BaseName::Named(name)), _) => [folder, b"/", &name].concat(),
                _ => folder.to_vec(),
            },
            _ => folder.to_vec(),
        }
    }

    /// The name of a folder, with a slash at its end; the destination itself is `./`.
    pub fn folder(&self, source: u16, path: &TreePath) -> Vec<u8> {
        let name = match path.is_root() && self.prefix(source).is_empty() {
            true => b".".to_vec(),
            false => self.name(source, path),
        };
        [name.as_slice(), b"/"].concat()
    }

    fn prefix(&self, source: u16) -> &[u8] {
        let prefix = self.prefixes.get(usize::from(source));
        prefix.map_or(b"", Vec::as_slice)
    }

    /// The name of one.
    pub fn name(&self, source: u16, path: &TreePath) -> Vec<u8> {
        let prefix = self.prefix(source);
        match (prefix.is_empty(), path.is_root()) {
            (true, true) => self.own.clone(),
            (true, false) => path.as_bytes().to_vec(),
            (false, true) => prefix.to_vec(),
            (false, false) => [prefix, b"/", path.as_bytes()].concat(),
        }
    }
}
