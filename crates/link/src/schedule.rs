//! The changes of a direction, unfolded into pieces of time in which nothing changes.

use crate::spec::{DirectionSpec, GilbertElliott};

/// A piece of time in which nothing changes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub from_ns: u64,
    /// The first instant after it; absent for the last piece.
    pub until_ns: Option<u64>,
    /// Bits per second; 0 during an outage, absent where nothing limits the rate.
    pub rate_bps: Option<u64>,
    pub delay_ns: u64,
    pub loss: f64,
    pub burst: Option<GilbertElliott>,
    /// Counts the values `burst` has had, so that the same burst goes on through other changes.
    pub burst_epoch: usize,
    /// Segments that changes have asked to drop, up to here.
    pub drops: u64,
    pub outage: bool,
}

/// Never empty; the first piece begins at 0, each next where the one before ends.
pub(crate) fn unfold(spec: &DirectionSpec) -> Vec<Piece> {
    let mut now = Piece {
        from_ns: 0,
        until_ns: None,
        rate_bps: spec.rate_bps,
        delay_ns: spec.delay_ns,
        loss: spec.loss,
        burst: spec.burst,
        burst_epoch: 0,
        drops: 0,
        outage: false,
    };
    let mut configured_bps = spec.rate_bps;
    let mut pieces = Vec::with_capacity(spec.changes.len() + 1);
    for change in &spec.changes {
        if change.at_ns > now.from_ns {
            pieces.push(Piece {
                until_ns: Some(change.at_ns),
                ..now.clone()
            });
            now.from_ns = change.at_ns;
        }
        configured_bps = change.rate_bps.or(configured_bps);
        now.delay_ns = change.delay_ns.unwrap_or(now.delay_ns);
        now.loss = change.loss.unwrap_or(now.loss);
        if change.burst.is_some() {
            now.burst = change.burst;
            now.burst_epoch += 1;
        }
        now.drops += u64::from(change.drop.unwrap_or(0));
        now.outage = change.outage.unwrap_or(now.outage);
        now.rate_bps = configured_bps.map(|rate_bps| if now.outage { 0 } else { rate_bps });
    }
    pieces.push(now);
    pieces
}
