//! The data plane (crates/transfer).

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

use pyo3::prelude::*;

use crate::raise;

/// The near end of one transfer.
#[pyclass(frozen, module = "howdah._native")]
pub struct Session(howdah_transfer::Session);

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (read_fd, write_fd, ahead=None, *, fill=false))]
    fn new(
        py: Python<'_>,
        read_fd: RawFd,
        write_fd: RawFd,
        ahead: Option<Vec<RawFd>>,
        fill: bool,
    ) -> PyResult<Self> {
        let (read, write) = own(read_fd, write_fd)?;
        // SAFETY: the caller hands them over and uses them no more, as the stubs say.
        let ahead = ahead
            .into_iter()
            .flatten()
            .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let ahead = ahead.map(TcpStream::from).collect();
        py.detach(|| howdah_transfer::Session::new(read, write))
            .map(|session| Self(session.with_connections(ahead, fill)))
            .map_err(raise)
    }

    fn begin(&self, py: Python<'_>, within_s: f64) -> PyResult<()> {
        let within = duration(within_s)?;
        py.detach(|| self.0.begin(within));
        Ok(())
    }

    fn hello(&self, py: Python<'_>, timeout_s: f64) -> PyResult<Option<Vec<u8>>> {
        let timeout = duration(timeout_s)?;
        py.detach(|| self.0.hello(timeout)).map_err(raise)
    }

    #[pyo3(signature = (job, plan, lost=None))]
    fn start(&self, py: Python<'_>, job: &[u8], plan: &[u8], lost: Option<&Self>) -> PyResult<()> {
        let lost = lost.map(|session| &session.0);
        py.detach(|| self.0.start_after(lost, job, plan))
            .map_err(raise)
    }

    fn try_port(&self, py: Python<'_>, addresses: Vec<IpAddr>, port: u16) -> PyResult<()> {
        py.detach(|| self.0.try_port(addresses, port))
            .map_err(raise)
    }

    #[pyo3(signature = (address, port, ports))]
    fn try_near(
        &self,
        py: Python<'_>,
        address: IpAddr,
        port: u16,
        ports: Option<(u16, u16)>,
    ) -> PyResult<()> {
        let ports = ports.map(|(first, last)| first..=last);
        let far = SocketAddr::new(address, port);
        py.detach(|| self.0.try_near(far, ports)).map_err(raise)
    }

    fn port_tried(&self, py: Python<'_>, timeout_s: f64) -> PyResult<Option<Vec<u8>>> {
        let timeout = duration(timeout_s)?;
        py.detach(|| self.0.port_tried(timeout)).map_err(raise)
    }

    fn expand(&self, py: Python<'_>, patterns: Vec<Vec<u8>>) -> PyResult<()> {
        py.detach(|| self.0.expand(patterns)).map_err(raise)
    }

    fn expanded(&self, py: Python<'_>, timeout_s: f64) -> PyResult<Option<Vec<u8>>> {
        let timeout = duration(timeout_s)?;
        py.detach(|| self.0.expanded(timeout)).map_err(raise)
    }

    fn start_between(
        &self,
        py: Python<'_>,
        receiver: &Self,
        job: &[u8],
        plan: &[u8],
    ) -> PyResult<()> {
        py.detach(|| self.0.start_between(&receiver.0, job, plan))
            .map_err(raise)
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

    fn limit(&self, limit: &[u8]) -> PyResult<()> {
        self.0.limit(limit).map_err(raise)
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

/// Connections to the far end whose hello waits unread in a pipe.
#[pyfunction]
pub(crate) fn connect_ahead(
    py: Python<'_>,
    hello_fd: RawFd,
    data_address: Option<&str>,
    count: u16,
    within_s: f64,
) -> PyResult<Vec<RawFd>> {
    let within = duration(within_s)?;
    if hello_fd < 0 {
        return Err(raise("a pipe is needed"));
    }
    // SAFETY: the caller keeps it open meanwhile, as the stubs say.
    let pipe = unsafe { BorrowedFd::borrow_raw(hello_fd) };
    let made = py.detach(|| howdah_transfer::connect_ahead(pipe, data_address, count, within));
    Ok(made.into_iter().map(IntoRawFd::into_raw_fd).collect())
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
