//! A program that is registered only until a value is dropped, for tests and measurements.

use libbpf_rs::Link;

use crate::{
    Destination, Error, Memory, Program, Saved, Store, kernel, loader::Candidate, memories,
};

/// A program that sockets may choose until this is dropped.
pub struct Trial {
    candidate: Candidate,
    name: String,
    _link: Link,
}

impl Trial {
    /// Registers `program` with all its parameters' `values`, under the names of `store`.
    pub fn begin(store: &Store, program: &Program, values: &[u64]) -> Result<Self, Error> {
        kernel::check()?;
        let mut candidate = Candidate::verify(store, program, values, false)?;
        let link = candidate.register()?;
        Ok(Self {
            candidate,
            name: store.kernel_name(program.name),
            _link: link,
        })
    }

    /// The kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes connections to `destination` begin with `saved`. The program must be `hd_resume`.
    pub fn remember(&self, destination: &Destination, saved: &Saved) -> Result<Memory, Error> {
        memories::keep(&self.candidate.map("memories")?, destination, saved)
    }

    /// The kernel's numbers of the callbacks, with their names.
    pub fn callbacks(&self) -> Result<Vec<(String, u32)>, Error> {
        self.candidate.callbacks()
    }
}
