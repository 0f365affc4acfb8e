//! What the current network namespace and this machine allow.

use std::{fs, io, os::fd::OwnedFd, str::FromStr, thread};

use rustix::net::{AddressFamily, SocketType, socket, sockopt};
use serde::Serialize;

use crate::{
    Error,
    control::{allowed_controls, available_controls},
};

/// HostLimits of the contract with Python (`python/howdah/values/record.py`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostLimits {
    /// Release of the running kernel.
    pub kernel: String,
    /// Processors this process may use.
    pub cpus: usize,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Congestion controls the kernel has loaded.
    pub congestion_controls_available: Vec<String>,
    /// Those a process without CAP_NET_ADMIN may choose.
    pub congestion_controls_allowed: Vec<String>,
    /// The one a socket gets that asks for none.
    pub congestion_control_default: String,
    /// What SO_RCVBUF may ask for (`net.core.rmem_max`).
    pub rmem_max_bytes: u64,
    /// What SO_SNDBUF may ask for (`net.core.wmem_max`).
    pub wmem_max_bytes: u64,
    /// How far the kernel grows a receive buffer by itself (third of `net.ipv4.tcp_rmem`), with
    /// packet overhead.
    pub tcp_rmem_max_bytes: u64,
    /// The same for a send buffer.
    pub tcp_wmem_max_bytes: u64,
    /// Memory for all TCP sockets (`net.ipv4.tcp_mem`: low, pressure, high), pages; `None` where
    /// the namespace does not show it.
    pub tcp_mem_pages: Option<[u64; 3]>,
    /// Whether the kernel forgets the window it reached at a destination.
    pub no_metrics_save: bool,
    /// Whether an idle connection starts slowly again.
    pub slow_start_after_idle: bool,
    /// Whether windows above 64 KiB are offered; `None`, as for the three below: the namespace does
    /// not show it.
    pub window_scaling: Option<bool>,
    /// Whether segments carry timestamps.
    pub timestamps: Option<bool>,
    /// Whether selective acknowledgment is offered.
    pub sack: Option<bool>,
    /// Whether the kernel grows receive buffers by itself.
    pub receive_autotuning: Option<bool>,
    /// Whether SO_RCVBUFFORCE works, which lifts `rmem_max_bytes` and `wmem_max_bytes`.
    pub privileged: bool,
}

impl HostLimits {
    /// Asks the kernel about the network namespace of the calling thread.
    pub fn gather() -> Result<Self, Error> {
        let probe = socket(AddressFamily::INET, SocketType::STREAM, None)
            .or_else(|_| socket(AddressFamily::INET6, SocketType::STREAM, None))
            .map_err(|errno| Error::Read {
                what: "limits",
                source: errno.into(),
            })?;
        let privileged = sockopt::set_socket_recv_buffer_size_force(&probe, 1 << 16).is_ok();
        let (rmem_max_bytes, wmem_max_bytes) =
            buffer_limits(&probe).map_err(|errno| Error::Read {
                what: "SO_RCVBUF",
                source: errno.into(),
            })?;
        let [_, _, tcp_rmem_max_bytes] = triple("/proc/sys/net/ipv4/tcp_rmem")?;
        let [_, _, tcp_wmem_max_bytes] = triple("/proc/sys/net/ipv4/tcp_wmem")?;
        Ok(Self {
            kernel: text("/proc/sys/kernel/osrelease")?,
            cpus: thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes()?,
            congestion_controls_available: available_controls()?,
            congestion_controls_allowed: allowed_controls()?,
            congestion_control_default: text("/proc/sys/net/ipv4/tcp_congestion_control")?,
            rmem_max_bytes,
            wmem_max_bytes,
            tcp_rmem_max_bytes,
            tcp_wmem_max_bytes,
            tcp_mem_pages: match triple("/proc/sys/net/ipv4/tcp_mem") {
                Err(Error::Proc { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
                other => Some(other?),
            },
            no_metrics_save: number("/proc/sys/net/ipv4/tcp_no_metrics_save")? != 0,
            slow_start_after_idle: number("/proc/sys/net/ipv4/tcp_slow_start_after_idle")? != 0,
            window_scaling: switch("/proc/sys/net/ipv4/tcp_window_scaling"),
            timestamps: switch("/proc/sys/net/ipv4/tcp_timestamps"),
            sack: switch("/proc/sys/net/ipv4/tcp_sack"),
            receive_autotuning: switch("/proc/sys/net/ipv4/tcp_moderate_rcvbuf"),
            privileged,
        })
    }
}

/// The kernel caps what SO_RCVBUF and SO_SNDBUF ask for, then doubles it. Asking a socket works in
/// every namespace; the files of net.core are absent from most before Linux 6.9.
fn buffer_limits(socket: &OwnedFd) -> rustix::io::Result<(u64, u64)> {
    let most = i32::MAX as usize;
    sockopt::set_socket_recv_buffer_size(socket, most)?;
    sockopt::set_socket_send_buffer_size(socket, most)?;
    let rmem = sockopt::socket_recv_buffer_size(socket)? / 2;
    let wmem = sockopt::socket_send_buffer_size(socket)? / 2;
    Ok((rmem as u64, wmem as u64))
}

fn text(path: &'static str) -> Result<String, Error> {
    fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .map_err(|source| Error::Proc { path, source })
}

fn malformed(path: &'static str, found: &str) -> Error {
    let source = io::Error::other(format!("expected numbers, found {found:?}"));
    Error::Proc { path, source }
}

fn number(path: &'static str) -> Result<u64, Error> {
    let text = text(path)?;
    u64::from_str(&text).map_err(|_| malformed(path, &text))
}

fn switch(path: &'static str) -> Option<bool> {
    number(path).ok().map(|value| value != 0)
}

fn triple(path: &'static str) -> Result<[u64; 3], Error> {
    let text = text(path)?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    numbers.try_into().map_err(|_| malformed(path, &text))
}

fn memory_bytes() -> Result<u64, Error> {
    let path = "/proc/meminfo";
    let text = text(path)?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    total
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .and_then(|kib| kib.trim().parse::<u64>().ok())
        .map(|kib| kib * 1024)
        .ok_or_else(|| malformed(path, text.lines().next().unwrap_or_default()))
}
