//! One direction of a link: takes segments at an instant, says when they arrive or why they do not.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::loss::{Bursty, Independent};
use crate::schedule::{Piece, unfold};
use crate::service::Finish;
use crate::spec::{DirectionSpec, Spec};

/// Why a segment does not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The queue was full.
    Queue,
    /// Independent loss, or a drop of the schedule.
    Loss,
    /// Loss of the Gilbert–Elliott model.
    Burst,
    /// The link was down when it was offered, or goes down for ever before it is served.
    Outage,
}

/// What becomes of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It arrives at this instant, ns.
    Arrives(u64),
    /// It does not arrive.
    Dropped(Cause),
}

/// Segments offered at the same instant: what a host's offloaded packet becomes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// At least 1.
    pub segments: u32,
    /// Bytes on the wire of each but the last.
    pub wire_bytes: u32,
    /// Bytes on the wire of the last; at most `wire_bytes`.
    pub last_wire_bytes: u32,
}

impl Burst {
    /// Bytes on the wire of `count` segments from the one numbered `first` on.
    pub fn wire_bytes_of(&self, first: u32, count: u32) -> u64 {
        let full = u64::from(self.wire_bytes) * u64::from(count);
        match first + count == self.segments {
            true => full - u64::from(self.wire_bytes - self.last_wire_bytes),
            false => full,
        }
    }

    fn total_bytes(&self) -> u64 {
        self.wire_bytes_of(0, self.segments)
    }
}

/// Neighbouring segments of a burst that arrive together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Number of the first segment within the burst.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// When the last of them arrives, ns.
    pub arrival_ns: u64,
}

/// Segments dropped, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops {
    /// See [`Cause::Queue`].
    pub queue: u64,
    /// See [`Cause::Loss`].
    pub loss: u64,
    /// See [`Cause::Burst`].
    pub burst: u64,
    /// See [`Cause::Outage`].
    pub outage: u64,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.queue + self.loss + self.burst + self.outage
    }

    fn count(&mut self, cause: Cause, segments: u64) {
        *match cause {
            Cause::Queue => &mut self.queue,
            Cause::Loss => &mut self.loss,
            Cause::Burst => &mut self.burst,
            Cause::Outage => &mut self.outage,
        } += segments;
    }
}

/// How full the queue was. Means are over the offered bytes, each counting what was there before its
/// burst; largest values count the burst itself too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queue {
    /// Largest backlog, bytes on the wire.
    pub largest_bytes: u64,
    /// Longest time until everything queued is served, ns.
    pub longest_ns: u64,
    /// Bytes that were offered, which the means are over.
    pub offered_bytes: u64,
    byte_bytes: u128,
    byte_ns: u128,
}

impl Queue {
    /// Mean backlog, bytes; absent before the first offer.
    pub fn mean_bytes(&self) -> Option<f64> {
        self.per_offered(self.byte_bytes)
    }

    /// Mean time until what was queued is served, ns; absent before the first offer.
    pub fn mean_ns(&self) -> Option<f64> {
        self.per_offered(self.byte_ns)
    }

    fn per_offered(&self, sum: u128) -> Option<f64> {
        (self.offered_bytes > 0).then(|| sum as f64 / self.offered_bytes as f64)
    }
}

/// One direction of a link. Offers must come in order of time.
#[derive(Debug, Clone)]
pub struct Direction {
    pieces: Vec<Piece>,
    limit_bytes: u64,
    jitter_ns: u64,
    /// The piece of the last offer.
    piece: usize,
    /// The server; absent where nothing limits the rate.
    finish: Option<Finish>,
    last_arrival_ns: u64,
    loss: Independent,
    bursty: Bursty,
    jitter: Xoshiro256PlusPlus,
    /// Dropped because the schedule said so.
    scheduled: u64,
    drops: Drops,
    queue: Queue,
}

impl Direction {
    /// Both directions of `spec`, which must have passed [`Spec::check`]: near to far, far to near.
    pub fn pair(spec: &Spec) -> [Direction; 2] {
        let near_to_far = Xoshiro256PlusPlus::seed_from_u64(spec.seed);
        let mut far_to_near = near_to_far.clone();
        far_to_near.long_jump();
        [
            Direction::new(
                &spec.near_to_far,
                spec.queue_limit_bytes(&spec.near_to_far),
                near_to_far,
            ),
            Direction::new(
                &spec.far_to_near,
                spec.queue_limit_bytes(&spec.far_to_near),
                far_to_near,
            ),
        ]
    }

    fn new(spec: &DirectionSpec, limit_bytes: u64, random: Xoshiro256PlusPlus) -> Self {
        let mut streams = std::iter::successors(Some(random), |last| {
            let mut next = last.clone();
            next.jump();
            Some(next)
        });
        let mut stream = || streams.next().expect("successors without an end");
        Direction {
            pieces: unfold(spec),
            limit_bytes,
            jitter_ns: spec.jitter_ns,
            piece: 0,
            finish: spec.rate_bps.map(|_| Finish::default()),
            last_arrival_ns: 0,
            loss: Independent::new(spec.loss, stream()),
            bursty: Bursty::new(spec.burst, stream()),
            jitter: stream(),
            scheduled: 0,
            drops: Drops::default(),
            queue: Queue::default(),
        }
    }

    /// What was dropped so far.
    pub fn drops(&self) -> Drops {
        self.drops
    }

    /// How full the queue was so far.
    pub fn queue(&self) -> Queue {
        self.queue
    }

    /// How much later packets offered at `now_ns` may leave than they should, if they came up to
    /// `unread_ns` earlier. With the server busy all that time an offer that comes late changes
    /// nothing, unless the queue might have overflowed before it drained.
    pub fn harm_ns(&mut self, now_ns: u64, unread_ns: u64) -> u64 {
        self.advance(now_ns);
        let Some(finish) = self.finish else {
            return unread_ns;
        };
        let rate_bps = self.pieces[self.piece].rate_bps.unwrap_or(0);
        let drained_bytes = u128::from(rate_bps) * u128::from(unread_ns) / 8_000_000_000;
        let backlog_bytes = finish.backlog_bytes(now_ns, self.piece, &self.pieces);
        match u128::from(backlog_bytes) + drained_bytes > u128::from(self.limit_bytes) {
            true => unread_ns,
            false => unread_ns.min(now_ns.saturating_sub(finish.ceil_ns())),
        }
    }

    /// Offers one segment of `wire_bytes` at `now_ns`.
    pub fn offer(&mut self, now_ns: u64, wire_bytes: u32) -> Verdict {
        let burst = Burst {
            segments: 1,
            wire_bytes,
            last_wire_bytes: wire_bytes,
        };
        let mut arrival = None;
        let before = self.drops;
        self.offer_burst(now_ns, burst, 0, |run| arrival = Some(run.arrival_ns));
        match arrival {
            Some(arrival_ns) => Verdict::Arrives(arrival_ns),
            None if self.drops.queue > before.queue => Verdict::Dropped(Cause::Queue),
            None if self.drops.loss > before.loss => Verdict::Dropped(Cause::Loss),
            None if self.drops.burst > before.burst => Verdict::Dropped(Cause::Burst),
            None => Verdict::Dropped(Cause::Outage),
        }
    }

    /// Offers `burst` at `now_ns` and reports what arrives as runs, in order: neighbours that arrive
    /// within `spread_ns` of the first of their run. Says the same as offering each segment alone.
    pub fn offer_burst(
        &mut self,
        now_ns: u64,
        burst: Burst,
        spread_ns: u64,
        mut report: impl FnMut(Run),
    ) {
        self.advance(now_ns);
        if self.pieces[self.piece].outage {
            return self.drops.count(Cause::Outage, u64::from(burst.segments));
        }
        let mut backlog_bytes = self.observe(now_ns, burst.total_bytes());
        if self
            .offer_whole(now_ns, burst, backlog_bytes, spread_ns, &mut report)
            .is_some()
        {
            backlog_bytes += burst.total_bytes();
        } else {
            self.offer_each(now_ns, burst, &mut backlog_bytes, spread_ns, report);
        }
        if let Some(finish) = self.finish {
            self.queue.largest_bytes = self.queue.largest_bytes.max(backlog_bytes);
            let drained_ns = finish.ceil_ns().saturating_sub(now_ns);
            self.queue.longest_ns = self.queue.longest_ns.max(drained_ns);
        }
    }

    /// Counts what an offer of `bytes` finds, and returns the backlog in bytes.
    fn observe(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let Some(finish) = self.finish else {
            self.queue.offered_bytes += bytes;
            return 0;
        };
        let backlog_bytes = finish.backlog_bytes(now_ns, self.piece, &self.pieces);
        let wait_ns = finish.ceil_ns().saturating_sub(now_ns);
        self.queue.offered_bytes += bytes;
        self.queue.byte_bytes += u128::from(backlog_bytes) * u128::from(bytes);
        self.queue.byte_ns += u128::from(wait_ns) * u128::from(bytes);
        backlog_bytes
    }

    /// The whole burst as one run, where that is what it becomes; None: look at each segment.
    fn offer_whole(
        &mut self,
        now_ns: u64,
        burst: Burst,
        backlog_bytes: u64,
        spread_ns: u64,
        report: &mut impl FnMut(Run),
    ) -> Option<()> {
        let segments = u64::from(burst.segments);
        let bytes = burst.total_bytes();
        let start = self.finish.map(|finish| finish.or_now(now_ns, self.piece));
        let settled = start.is_none_or(|start| start.piece == self.piece);
        if !settled || self.jitter_ns > 0 || backlog_bytes + bytes > self.room_bytes() {
            return None;
        }
        self.enter(self.piece);
        if !self.loss.spares(segments)
            || !self.bursty.spares(segments)
            || self.drop_is_due(self.piece)
        {
            return None;
        }
        let mut departure_ns = now_ns;
        if let Some(start) = start {
            let first_bytes = burst.wire_bytes_of(0, 1);
            let first = start.push(first_bytes, &self.pieces)?;
            let last = first.push(bytes - first_bytes, &self.pieces)?;
            if last.piece != self.piece || last.ceil_ns() - first.ceil_ns() > spread_ns {
                return None;
            }
            self.finish = Some(last);
            departure_ns = last.ceil_ns();
        }
        self.loss.skip(segments);
        self.bursty.skip(segments);
        let arrival_ns = departure_ns + self.pieces[self.piece].delay_ns;
        self.last_arrival_ns = self.last_arrival_ns.max(arrival_ns);
        report(Run {
            first: 0,
            count: burst.segments,
            arrival_ns: self.last_arrival_ns,
        });
        Some(())
    }

    fn offer_each(
        &mut self,
        now_ns: u64,
        burst: Burst,
        backlog_bytes: &mut u64,
        spread_ns: u64,
        mut report: impl FnMut(Run),
    ) {
        let mut open: Option<(Run, u64)> = None;
        for index in 0..burst.segments {
            let bytes = burst.wire_bytes_of(index, 1);
            match (self.pass(now_ns, bytes, backlog_bytes), &mut open) {
                (Ok(arrival_ns), Some((run, first_ns))) if arrival_ns - *first_ns <= spread_ns => {
                    run.count += 1;
                    run.arrival_ns = arrival_ns;
                }
                (Ok(arrival_ns), open) => {
                    let run = Run {
                        first: index,
                        count: 1,
                        arrival_ns,
                    };
                    if let Some((done, _)) = open.replace((run, arrival_ns)) {
                        report(done);
                    }
                }
                (Err(cause), open) => {
                    self.drops.count(cause, 1);
                    if let Some((done, _)) = open.take() {
                        report(done);
                    }
                }
            }
        }
        if let Some((done, _)) = open {
            report(done);
        }
    }

    /// One segment through queue, server, loss and delay; returns its arrival, ns.
    fn pass(&mut self, now_ns: u64, bytes: u64, backlog_bytes: &mut u64) -> Result<u64, Cause> {
        let (mut departure_ns, mut piece) = (now_ns, self.piece);
        if *backlog_bytes + bytes > self.room_bytes() {
            return Err(Cause::Queue);
        }
        if let Some(finish) = self.finish {
            let start = finish.or_now(now_ns, self.piece);
            let next = start.push(bytes, &self.pieces).ok_or(Cause::Outage)?;
            *backlog_bytes += bytes;
            self.finish = Some(next);
            (departure_ns, piece) = (next.ceil_ns(), next.piece);
        }
        self.enter(piece);
        let delay_ns = self.pieces[piece].delay_ns;
        let (mut lost, burst_lost) = (self.loss.hits(), self.bursty.hits());
        if self.drop_is_due(piece) {
            self.scheduled += 1;
            lost = true;
        }
        let jitter_ns = match self.jitter_ns {
            0 => 0,
            most => ((u128::from(self.jitter.next_u64()) * u128::from(most + 1)) >> 64) as u64,
        };
        if lost {
            return Err(Cause::Loss);
        }
        if burst_lost {
            return Err(Cause::Burst);
        }
        let arrival_ns = departure_ns + delay_ns + jitter_ns;
        self.last_arrival_ns = self.last_arrival_ns.max(arrival_ns);
        Ok(self.last_arrival_ns)
    }

    /// Bytes the queue can hold; all there are where nothing limits the rate.
    fn room_bytes(&self) -> u64 {
        self.finish.map_or(u64::MAX, |_| self.limit_bytes)
    }

    fn advance(&mut self, now_ns: u64) {
        while self.pieces[self.piece]
            .until_ns
            .is_some_and(|until_ns| until_ns <= now_ns)
        {
            self.piece += 1;
        }
    }

    fn drop_is_due(&self, piece: usize) -> bool {
        self.pieces[piece].drops > self.scheduled
    }

    /// Sets the loss of the piece in which segments now leave the server.
    fn enter(&mut self, piece: usize) {
        let piece = &self.pieces[piece];
        self.loss.set(piece.loss);
        self.bursty.set(piece.burst, piece.burst_epoch);
    }
}
