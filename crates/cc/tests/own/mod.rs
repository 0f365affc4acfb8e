//! A store of a test's own, and what the tests of stores share.

use std::{
    net::TcpStream,
    path::{Path as FilePath, PathBuf},
};

use howdah_cc::{Connection, Error, Place, Program, Store};

/// A store of a test's own, taken away at its end however that comes.
pub struct Own {
    pub store: Store,
    pub root: PathBuf,
    prefix: String,
}

impl Own {
    pub fn new(mark: char) -> Self {
        let number = std::process::id() % 1_000;
        let folder = format!("howdah-test-{number}{mark}");
        let prefix = format!("{mark}{number}");
        Self {
            store: Store::at(&folder, &prefix),
            root: FilePath::new("/sys/fs/bpf").join(folder),
            prefix,
        }
    }

    pub fn name(&self, program: &str) -> String {
        format!("{}{program}", self.prefix)
    }

    pub fn load(&self, program: &str, given: &[(&str, &str)]) -> Result<&'static str, Error> {
        let given: Vec<_> = given
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect();
        let program = Program::find(program)?;
        self.store
            .load(program, &given)
            .map(|loading| loading.action)
    }

    pub fn connection(&self, of: &TcpStream) -> Connection {
        let (local, remote) = (of.local_addr().unwrap(), of.peer_addr().unwrap());
        let mut all = self.store.connections().unwrap();
        all.retain(|each| each.local == local && each.remote == remote && !each.listens);
        assert_eq!(all.len(), 1);
        all.remove(0)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        for rule in self.store.rules().unwrap_or_default() {
            let _ = self.store.detach(&rule.place);
        }
        for listed in self.store.list() {
            if listed.in_kernel {
                let _ = self.store.unload(Program::find(listed.name).unwrap());
            }
        }
        if !std::thread::panicking() {
            assert!(!self.root.exists(), "{} is left", self.root.display());
        }
    }
}

pub fn said<T>(result: Result<T, Error>) -> String {
    let Err(error) = result else {
        panic!("not refused");
    };
    let said = error.to_string();
    assert!(!said.contains('\n'), "{said}");
    said
}

#[allow(dead_code, reason = "not every test needs it")]
pub fn place(to: &str, ports: &str) -> Place {
    Place::new(Some(to), ports, None, None).unwrap()
}
