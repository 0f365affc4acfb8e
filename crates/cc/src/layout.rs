//! The counterparts of `src/bpf/intf.h`: values that programs and user space exchange through maps.

use std::{mem, net::IpAddr, ptr};

use serde::Serialize;

/// The version of all layouts here and of the programs' parameters. A loaded program of another version
/// is not touched.
pub(crate) const ABI: u32 = 4;

pub(crate) const RULES_MAX: u32 = 2048;
pub(crate) const RANGES_MAX: usize = 32;
pub(crate) const CGROUPS_MAX: usize = 32;
pub(crate) const CGROUP_PATH_MAX: usize = 256;
pub(crate) const SHARES_MAX: u32 = 4096;
pub(crate) const SHARE_NAME_MAX: usize = 64;
pub(crate) const MEMORIES_MAX: u32 = 4096;

pub(crate) const ORDER_MOVE: u32 = 1;
pub(crate) const ORDER_TARGET: u32 = 2;
pub(crate) const ORDER_REMEMBER: u32 = 4;
pub(crate) const ORDER_FORGET: u32 = 8;
pub(crate) const ORDER_PENDING: i32 = 1;

/// A name in the kernel's form: at most 15 bytes and a zero.
pub(crate) type Name = [u8; 16];

/// A value without padding and references, which can be read from any bytes.
///
/// # Safety
/// Any bytes are a value of the type, and it has no padding.
pub(crate) unsafe trait Plain: Copy {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the type has no padding, so all its bytes are initialised.
        unsafe { std::slice::from_raw_parts(ptr::from_ref(self).cast(), mem::size_of::<Self>()) }
    }

    /// The value that `bytes` begin with, if they are enough.
    fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..mem::size_of::<Self>())?;
        // SAFETY: the slice is long enough, and any bytes are a value.
        Some(unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) })
    }

    fn zero() -> Self {
        // SAFETY: any bytes are a value.
        unsafe { mem::zeroed() }
    }
}

/// The target of `hd_hold`: one of the three, or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Target {
    /// The rate on the wire, bits per second; 0 for none.
    pub rate_bps: u64,
    /// The window, packets; 0 for none.
    pub window_packets: u32,
    /// The number of a share, from 1; 0 for none.
    pub share: u32,
}

impl Target {
    /// Whether there is nothing to hold.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Flow {
    pub target: Target,
    pub rounds: u64,
    pub rounds_held: u64,
    pub falls: u32,
    pub returns: u32,
    pub state: u32,
    pub window: u32,
    pub base_rtt_us: u32,
    pub loss_ppm: u32,
    pub rule: u32,
    pub unused: u32,
    pub before: Name,
    pub resumed: Resumed,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Resumed {
    pub memory_ns: u64,
    pub jumped_bytes: u64,
    pub validated_bytes: u64,
    pub phase: u32,
    pub why: u32,
    pub retreats: u32,
    pub rtt_us: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Connection {
    pub cookie: u64,
    pub family: u32,
    pub state: u32,
    pub local: [u8; 16],
    pub remote: [u8; 16],
    pub local_port: u16,
    pub remote_port: u16,
    pub window: u32,
    pub srtt_us: u32,
    pub known: u32,
    pub control: Name,
    pub flow: Flow,
    pub cgroups: [u64; CGROUPS_MAX],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Order {
    pub from: Name,
    pub to: Name,
    pub target: Target,
    pub flags: u32,
    pub rule: u32,
    pub result: i32,
    pub unused: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed(4))]
pub(crate) struct Prefix {
    pub bits: u32,
    pub namespace: u64,
    pub cgroup: u64,
    pub family: u32,
    pub address: [u8; 16],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed(4))]
pub(crate) struct Destination {
    pub bits: u32,
    pub namespace: u64,
    pub port: u64,
    pub family: u64,
    pub address: [u8; 16],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Memory {
    pub set_ns: u64,
    pub until_ns: u64,
    pub saved_bytes: u64,
    pub saved_rtt_us: u64,
    pub namespace: u64,
    pub then: Name,
    pub destination: Destination,
    pub streams: u32,
    pub part: u32,
    pub connections: u32,
    pub jumps: u32,
    pub validated: u32,
    pub retreats: u32,
    pub other_paths: u32,
    pub parts: u64,
    pub jumped_bytes: u64,
    pub validated_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Range {
    pub least: u16,
    pub most: u16,
    pub rule: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Ranges {
    pub count: u32,
    pub of: [Range; RANGES_MAX],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Rule {
    pub control: Name,
    pub target: Target,
    pub chosen: u64,
    pub refused: u64,
    pub prefix: Prefix,
    pub namespace: u64,
    pub least: u16,
    pub most: u16,
    pub used: u32,
    pub cgroup: [u8; CGROUP_PATH_MAX],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Share {
    pub lock: u32,
    pub unused: u32,
    pub rate_bps: u64,
    pub minimum_bps: u64,
    pub until_ns: u64,
    pub owner: [u8; SHARE_NAME_MAX],
    pub name: [u8; SHARE_NAME_MAX],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Use {
    pub lock: u32,
    pub connections: u32,
    pub epoch: u32,
    pub active: u32,
    pub active_before: u32,
    pub unused: u32,
    pub epoch_began_ns: u64,
    pub epoch_lasts_ns: u64,
    pub sent_bytes: u64,
    pub acked_bytes: u64,
    pub beside_bytes: u64,
}

impl Use {
    /// The connections that wait for their turn, counted in this epoch and the last one.
    pub(crate) fn active(&self, now_ns: u64) -> u32 {
        let since_ns = now_ns.saturating_sub(self.epoch_began_ns);
        match since_ns.checked_div(self.epoch_lasts_ns) {
            Some(0) => self.active + self.active_before,
            Some(1) => self.active,
            _ => 0,
        }
    }
}

/// The program in the kernel under one of our names. This is pinned beside the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct About {
    pub abi: u32,
    pub count: u32,
    pub digest: u64,
    pub version: [u8; 24],
    pub values: [u64; 8],
}

// SAFETY: `repr(C)` structs of integers whose sizes leave no gap, as the assertions below hold.
unsafe impl Plain for Target {}
// SAFETY: as above.
unsafe impl Plain for Flow {}
// SAFETY: as above.
unsafe impl Plain for Connection {}
// SAFETY: as above.
unsafe impl Plain for Order {}
// SAFETY: as above.
unsafe impl Plain for Prefix {}
// SAFETY: as above.
unsafe impl Plain for Ranges {}
// SAFETY: as above.
unsafe impl Plain for Destination {}
// SAFETY: as above.
unsafe impl Plain for Memory {}
// SAFETY: as above.
unsafe impl Plain for Rule {}
// SAFETY: as above.
unsafe impl Plain for Share {}
// SAFETY: as above.
unsafe impl Plain for Use {}
// SAFETY: as above.
unsafe impl Plain for About {}

const _: () = {
    assert!(mem::size_of::<Target>() == 16);
    assert!(mem::size_of::<Flow>() == 120);
    assert!(mem::size_of::<Connection>() == 200 + 8 * CGROUPS_MAX);
    assert!(mem::size_of::<Order>() == 64);
    assert!(mem::size_of::<Prefix>() == 40);
    assert!(mem::size_of::<Destination>() == 44);
    assert!(mem::size_of::<Memory>() == 152);
    assert!(mem::size_of::<Ranges>() == 4 + 8 * RANGES_MAX);
    assert!(mem::size_of::<Rule>() == 104 + CGROUP_PATH_MAX);
    assert!(mem::size_of::<Share>() == 160);
    assert!(mem::size_of::<Use>() == 64);
    assert!(mem::size_of::<About>() == 104);
};

/// `text` and a zero, cut to what fits.
pub(crate) fn name<const N: usize>(text: &str) -> [u8; N] {
    let mut name = [0; N];
    let length = text.len().min(N - 1);
    name[..length].copy_from_slice(&text.as_bytes()[..length]);
    name
}

/// The text of a name or another text of fixed length.
pub(crate) fn text(bytes: &[u8]) -> String {
    let length = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// An address in the kernel's form. IPv4-mapped ones become IPv4.
pub(crate) fn address(family: u32, bytes: &[u8; 16]) -> IpAddr {
    if family == libc::AF_INET as u32 {
        IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]])
    } else {
        IpAddr::from(*bytes).to_canonical()
    }
}
