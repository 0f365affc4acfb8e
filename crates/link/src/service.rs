//! The bottleneck as a fluid server, exact over a schedule of rates.
//!
//! Work is counted in bit·ns/s (10⁻⁹ bit), so that rate × time is a whole number. The instant at which
//! the server will be done is kept as whole ns and a remainder of work smaller than one ns of service;
//! nothing is ever rounded, so n small pushes end where one large one does.

use crate::schedule::Piece;

const WORK_PER_BYTE: u64 = 8_000_000_000;

/// When everything taken so far will have been served: `ns` + `rest` / rate, in piece `piece`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Finish {
    ns: u64,
    rest: u64,
    pub piece: usize,
}

impl Finish {
    /// The first whole ns at which it is done.
    pub fn ceil_ns(self) -> u64 {
        self.ns + u64::from(self.rest > 0)
    }

    /// This, or `now_ns` in piece `piece` if that is later.
    pub fn or_now(self, now_ns: u64, piece: usize) -> Self {
        match self.ns < now_ns {
            true => Finish {
                ns: now_ns,
                rest: 0,
                piece,
            },
            false => self,
        }
    }

    /// Serves `bytes` more. None: the schedule ends in an outage, they are never served.
    pub fn push(mut self, bytes: u64, pieces: &[Piece]) -> Option<Self> {
        let mut work = bytes * WORK_PER_BYTE;
        loop {
            let piece = &pieces[self.piece];
            let rate = piece.rate_bps.expect("a server has a rate");
            let total = self.rest + work;
            if let Some(span_ns) = total.checked_div(rate) {
                let (ns, rest) = (self.ns + span_ns, total % rate);
                match piece.until_ns {
                    Some(until_ns) if ns > until_ns || (ns == until_ns && rest > 0) => {
                        let served = u128::from(until_ns - self.ns) * u128::from(rate)
                            - u128::from(self.rest);
                        work -= served as u64;
                    }
                    _ => return Some(Finish { ns, rest, ..self }),
                }
            }
            self = Finish {
                ns: piece.until_ns?,
                rest: 0,
                piece: self.piece + 1,
            };
        }
    }

    /// Bytes (rounded up) still to be served at `now_ns` in piece `piece`.
    pub fn backlog_bytes(self, now_ns: u64, piece: usize, pieces: &[Piece]) -> u64 {
        if self.ceil_ns() <= now_ns {
            return 0;
        }
        let mut from_ns = now_ns;
        let mut work = u128::from(self.rest);
        for piece in &pieces[piece..self.piece] {
            let until_ns = piece.until_ns.expect("only the last piece has no end");
            work += served(piece, until_ns - from_ns);
            from_ns = until_ns;
        }
        work += served(&pieces[self.piece], self.ns - from_ns);
        work.div_ceil(u128::from(WORK_PER_BYTE)) as u64
    }
}

fn served(piece: &Piece, span_ns: u64) -> u128 {
    u128::from(piece.rate_bps.unwrap_or(0)) * u128::from(span_ns)
}
