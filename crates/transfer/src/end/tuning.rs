//! How the open streams of a sending end send, by the last steering.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

use howdah_tcp::{bound_rate, congestion_control, set_congestion_control, try_control};
use howdah_wire::Steering;

use crate::end::abort::{Abort, lock};
use crate::error::TransferError;

/// The congestion control that holds connections to a rate. A rule of the sending host can give it to connections
/// that did not ask for it (docs/cc.md), so that they keep to a share.
pub const HOLD: &str = "hd_hold";

/// The last steering; none before the first one, and none at a receiving end.
#[derive(Debug, Default)]
pub struct Tuning {
    in_force: Mutex<Option<Steering>>,
}

impl Tuning {
    /// Whether a rule of this host has given open streams the control [`HOLD`], although another one was `planned`.
    pub fn held_by_rule(&self, planned: Option<&str>, abort: &Abort) -> bool {
        let steered = lock(&self.in_force)
            .as_ref()
            .and_then(|steering| steering.congestion_control.clone());
        let mut held = false;
        if steered.as_deref().or(planned) != Some(HOLD) {
            abort.each(|socket| held |= congestion_control(socket).is_ok_and(|name| name == HOLD));
        }
        held
    }

    /// Applies `steering` to every socket, and to those that are opened later. Returns the congestion control in use
    /// from then on.
    ///
    /// # Errors
    /// When the kernel does not give this process that congestion control. Nothing was changed then.
    pub fn change(&self, steering: &Steering, abort: &Abort) -> Result<String, TransferError> {
        let here = |error: howdah_tcp::Error| TransferError::Here(error.to_string());
        // A socket of no stream tries it, so that streams are never changed by halves.
        let mut in_use = try_control(steering.congestion_control.as_deref()).map_err(here)?;
        let mut wanted = steering.clone();
        {
            let mut in_force = lock(&self.in_force);
            if let Some(before) = in_force.take() {
                let same = wanted.congestion_control.or(before.congestion_control);
                wanted.congestion_control = same;
            }
            *in_force = Some(wanted.clone());
        }
        abort.each(|socket| {
            obey(socket.as_fd(), &wanted);
            if let Ok(name) = congestion_control(socket) {
                in_use = name;
            }
        });
        Ok(in_use)
    }

    /// Applies the last steering to a socket that was just opened.
    pub fn join(&self, socket: BorrowedFd<'_>) {
        if let Some(steering) = &*lock(&self.in_force) {
            obey(socket, steering);
        }
    }
}

/// A socket that refuses what one of its kind has taken just before has ended.
fn obey(socket: BorrowedFd<'_>, steering: &Steering) {
    let _ = bound_rate(socket, steering.pacing_bps);
    if let Some(name) = &steering.congestion_control {
        let _ = set_congestion_control(socket, name);
    }
}
