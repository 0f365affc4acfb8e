//! A host: a network namespace with one TUN device, both kept alive by descriptors alone.

use std::ffi::c_short;
use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::{io, mem, thread};

use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::EmulatorError;
use crate::arrival::FirstArrival;
use crate::netlink::Link;
use crate::steer;

/// The name of the TUN device in each host.
pub(crate) const DEVICE: &str = "wan0";

/// A TUN device takes packets away from TCP at once, so TCP sees no queue there to be held back by:
/// a whole window can come in one go. Beyond this many packets the device drops.
const DEVICE_QUEUE_PACKETS: u32 = 65_536;

/// The parts of a host.
#[derive(Debug)]
pub(crate) struct Netns {
    pub namespace: OwnedFd,
    pub tun: OwnedFd,
    /// Absent where the kernel refuses it; then a packet came when it was read.
    pub first_arrival: Option<FirstArrival>,
    /// Which cores do the host's part of receiving; absent where the kernel refuses it.
    pub steering: Option<File>,
    /// `/proc/net/dev` of this namespace, whichever thread reads it.
    counters: File,
}

impl Netns {
    /// Makes a namespace and its device on a thread that ends with it.
    pub fn make(mtu: u32) -> Result<Self, EmulatorError> {
        thread::scope(|scope| {
            let made = thread::Builder::new()
                .name("howdah-netns".into())
                .spawn_scoped(scope, || Self::make_here(mtu))
                .map_err(EmulatorError::refused("starting a thread"))?;
            made.join()
                .unwrap_or(Err(EmulatorError::Misuse("making a namespace panicked")))
        })
    }

    fn make_here(mtu: u32) -> Result<Self, EmulatorError> {
        // SAFETY: only the network namespace of this thread changes; no descriptor table is unshared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
            .map_err(EmulatorError::refused("making a network namespace"))?;
        let open = |path| File::open(path);
        let namespace = open("/proc/thread-self/ns/net")
            .map_err(EmulatorError::refused("opening /proc/thread-self/ns/net"))?;
        let tun = open_tun().map_err(EmulatorError::refused("opening /dev/net/tun"))?;
        configure(mtu).map_err(EmulatorError::refused("setting up the TUN device"))?;
        let counters = open("/proc/thread-self/net/dev")
            .map_err(EmulatorError::refused("opening /proc/thread-self/net/dev"))?;
        Ok(Netns {
            first_arrival: FirstArrival::attach(&tun).ok(),
            steering: steer::setting(DEVICE).ok(),
            namespace: namespace.into(),
            tun,
            counters,
        })
    }

    /// Packets that were dropped on their way from or to the host because this machine took too long.
    pub fn device_drops(&self) -> io::Result<u64> {
        let mut text = [0; 4096];
        let read = self.counters.read_at(&mut text, 0)?;
        let text = String::from_utf8_lossy(&text[..read]);
        let row = text
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(DEVICE)?.strip_prefix(':'));
        // Eight columns each of what was received and sent; the fourth of them is `drop`.
        let dropped = |column| row?.split_whitespace().nth(column)?.parse::<u64>().ok();
        match (dropped(3), dropped(8 + 3)) {
            (Some(received), Some(sent)) => Ok(received + sent),
            _ => Err(io::Error::other("no counters of the TUN device")),
        }
    }
}

fn open_tun() -> io::Result<OwnedFd> {
    let tun = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    let mut request = request();
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq.
    checked(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    let little_endian: libc::c_int = 1;
    // SAFETY: TUNSETVNETLE reads one int.
    checked(unsafe {
        libc::ioctl(
            tun.as_raw_fd(),
            libc::TUNSETVNETLE,
            &raw const little_endian,
        )
    })?;
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
    // Kernels before 6.2 know no segmentation of UDP, and then cut it themselves.
    set_offload(&tun, tcp | udp).or_else(|_| set_offload(&tun, tcp))?;
    Ok(tun.into())
}

fn set_offload(tun: &File, features: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    checked(unsafe {
        libc::ioctl(
            tun.as_raw_fd(),
            libc::TUNSETOFFLOAD,
            libc::c_ulong::from(features),
        )
    })
}

/// Sets MTU and queue of the device, and brings it and the loopback up.
fn configure(mtu: u32) -> io::Result<()> {
    // Without a link-local address the device itself sends nothing; refused where /proc/sys is read-only.
    let _ = fs::write(
        format!("/proc/sys/net/ipv6/conf/{DEVICE}/addr_gen_mode"),
        "1",
    );
    let device = Link {
        // With neither IFF_MULTICAST nor anyone to resolve, no group is joined and none reported.
        flags: libc::IFF_UP | libc::IFF_NOARP,
        attributes: &[
            (libc::IFLA_MTU, mtu),
            (libc::IFLA_TXQLEN, DEVICE_QUEUE_PACKETS),
        ],
    };
    device.apply(DEVICE)?;
    let loopback = Link {
        flags: libc::IFF_UP,
        attributes: &[],
    };
    loopback.apply("lo")
}

fn request() -> libc::ifreq {
    // SAFETY: an ifreq of zeros is a valid one.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(DEVICE.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn checked(result: libc::c_int) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
