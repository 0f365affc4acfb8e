//! The data plane (crates/transfer).

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use howdah_confine::{Reaches, Rights, Standing, harden, only_beneath};
use howdah_transfer::{Overseer, Reach, Site};
use pyo3::prelude::*;

use crate::raise;

/// The near end of one transfer.
#[pyclass(frozen, module = "howdah._native")]
pub struct Session(howdah_transfer::Session);

#[pymethods]
impl Session {
    #[new]
    fn new(py: Python<'_>, read_fd: RawFd, write_fd: RawFd) -> PyResult<Self> {
        let (read, write) = own(read_fd, write_fd)?;
        py.detach(|| howdah_transfer::Session::new(read, write))
            .map(Self)
            .map_err(raise)
    }

    fn hello(&self, py: Python<'_>, timeout_s: f64) -> PyResult<Option<Vec<u8>>> {
        let timeout = duration(timeout_s)?;
        py.detach(|| self.0.hello(timeout)).map_err(raise)
    }

    fn start(&self, py: Python<'_>, job: &[u8], plan: &[u8]) -> PyResult<()> {
        py.detach(|| self.0.start(job, plan)).map_err(raise)
    }

    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let timeout = duration(timeout_s)?;
        Ok(py.detach(|| self.0.wait(timeout)))
    }

    fn progress(&self) -> Vec<u8> {
        self.0.progress()
    }

    fn steer(&self, steering: &[u8]) -> PyResult<()> {
        self.0.steer(steering).map_err(raise)
    }

    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.0.cancel());
    }

    fn result(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        py.detach(|| self.0.result()).map_err(raise)
    }

    fn lost_connection(&self) -> bool {
        self.0.lost_connection()
    }
}

/// The far end of one transfer.
#[pyclass(frozen, module = "howdah._native")]
pub struct FarEnd {
    /// Gone once it serves.
    prepared: Mutex<Option<howdah_transfer::FarEnd>>,
    reach: Mutex<Reach>,
    /// Held as long as landlock's rules count.
    landlock: Mutex<Option<howdah_confine::Landlock>>,
}

#[pymethods]
impl FarEnd {
    #[new]
    fn new(py: Python<'_>, overseer: Py<PyAny>, ports: Option<(u16, u16)>) -> PyResult<Self> {
        let site = Site {
            ports: ports.map(|(least, most)| least..=most),
            overseer: Some(Arc::new(PythonOverseer(overseer))),
        };
        let prepared = py
            .detach(|| howdah_transfer::FarEnd::prepare(site))
            .map_err(raise)?;
        Ok(Self {
            prepared: Mutex::new(Some(prepared)),
            reach: Mutex::default(),
            landlock: Mutex::default(),
        })
    }

    fn harden(&self) -> PyResult<bool> {
        let reaches = match &*lock(&self.landlock) {
            Some(_) => Reaches::OneFolder,
            None => Reaches::AllFiles,
        };
        Ok(harden(reaches).map_err(raise)? == Standing::Enforced)
    }

    fn confine(&self, root_fd: RawFd, read_only: bool) -> PyResult<(Option<u32>, bool)> {
        if root_fd < 0 {
            return Err(raise("a folder to serve needs a descriptor"));
        }
        // SAFETY: the caller keeps the descriptor open during this call, as the stubs say.
        let root = unsafe { BorrowedFd::borrow_raw(root_fd) };
        let root = root.try_clone_to_owned().map_err(raise)?;
        let rights = match read_only {
            true => Rights::Read,
            false => Rights::ReadAndWrite,
        };
        let landlock = only_beneath(&root, rights).map_err(raise)?;
        let held = (landlock.abi, landlock.whole);
        *lock(&self.landlock) = Some(landlock);
        *lock(&self.reach) = Reach::beneath(root, read_only);
        Ok(held)
    }

    fn serve(&self, py: Python<'_>, read_fd: RawFd, write_fd: RawFd) -> PyResult<u8> {
        let (read, write) = own(read_fd, write_fd)?;
        let prepared = lock(&self.prepared).take();
        let prepared = prepared.ok_or_else(|| raise("a far end serves once"))?;
        let reach = std::mem::take(&mut *lock(&self.reach));
        Ok(u8::from(
            py.detach(|| prepared.serve(read, write, &reach)).is_err(),
        ))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An object of Python that decides. What it raises is the refusal.
struct PythonOverseer(Py<PyAny>);

impl Overseer for PythonOverseer {
    fn accept(&self, job: &[u8]) -> Result<(), String> {
        Python::attach(|py| answer(py, self.0.call_method1(py, "accept", (job,))))
    }

    fn moved(&self, moved: u64, known: u64) -> Result<(), String> {
        Python::attach(|py| answer(py, self.0.call_method1(py, "moved", (moved, known))))
    }

    fn ended(&self, account: &[u8]) -> Result<(), String> {
        Python::attach(|py| answer(py, self.0.call_method1(py, "ended", (account,))))
    }
}

fn answer(py: Python<'_>, called: PyResult<Py<PyAny>>) -> Result<(), String> {
    called
        .map(|_| ())
        .map_err(|error| error.value(py).to_string())
}

/// Takes both descriptors over.
pub(crate) fn own(read_fd: RawFd, write_fd: RawFd) -> PyResult<(OwnedFd, OwnedFd)> {
    if read_fd < 0 || write_fd < 0 || read_fd == write_fd {
        return Err(raise("a control channel needs two descriptors"));
    }
    // SAFETY: the caller hands both descriptors over and uses them no more, as the stubs say.
    Ok(unsafe {
        (
            OwnedFd::from_raw_fd(read_fd),
            OwnedFd::from_raw_fd(write_fd),
        )
    })
}

fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(raise)
}
