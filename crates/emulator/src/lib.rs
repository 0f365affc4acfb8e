//! Runs the link model on real packets between two network namespaces.
//!
//! Each host is a network namespace with one TUN device; what a host sends is read here, offered to
//! [`howdah_link::Direction`] at the instant it was read, held in memory until the model says it
//! arrives, and written to the other host's device. Offloaded packets (up to 64 KB) pass whole where
//! the model treats their segments alike, and are cut at wire segments where it does not.
//!
//! Nothing here outlives the process: namespaces are held by descriptors, devices are not persistent.

mod arrival;
mod clock;
mod emulator;
mod error;
mod idle;
mod lateness;
mod memory;
mod netlink;
mod netns;
mod packet;
mod path;
mod process;
mod schedule;
mod stats;
mod steer;
mod unread;

pub use emulator::{Emulator, Host};
pub use error::EmulatorError;
pub use packet::{HEAD_BYTES, Packet, Piece, VNET_BYTES};
pub use process::{bind_mount, die_with_parent, drop_capabilities, mount_proc, unshare};
pub use stats::{DirectionStats, Dropped, LatenessStats, LinkStats, Mark};
