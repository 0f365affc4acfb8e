//! A sender over one path, simulated from ACK to ACK in virtual time.
//!
//! Source of the sender: Linux 6.18 `net/ipv4/tcp_input.c`; RFC 6937 for the window in recovery.

use std::collections::VecDeque;

use crate::{Ack, Control, Cut, Path, Round, Trace, Window, Written};

/// A sender over a path. Both may be changed between calls of [`Simulation::run_until`].
#[derive(Debug)]
pub struct Simulation<C> {
    /// The algorithm.
    pub control: C,
    /// The path that the segments take.
    pub path: Path,
    window: Window,
    now_ns: u64,
    flight: VecDeque<Segment>,
    /// Segments that have arrived at the far end and are not acknowledged yet.
    unanswered: u32,
    /// Part of the next ACK that they have earned.
    ack_due: f64,
    /// Segments that were written and have not left.
    waiting: u64,
    sent: u64,
    delivered: u64,
    lost: u64,
    to_lose: u64,
    to_repeat: u64,
    recovery: Option<Recovery>,
    /// Segments lost after recovery began and not repaired yet; the next recovery is theirs.
    lost_since: u64,
    server_free_ns: u64,
    last_arrival_ns: u64,
    next_paced_ns: u64,
    round_ends: u64,
    trace: Trace,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    /// When its ACK comes, or would come.
    answer_ns: u64,
    sent_ns: u64,
    number: u64,
    delivered_when_sent: u64,
    lost: bool,
    repeats: bool,
}

/// Proportional rate reduction, until everything sent before it began is there.
#[derive(Debug, Clone, Copy)]
struct Recovery {
    /// Segments from this number on were sent after it began.
    begins_at: u64,
    /// Lost segments from before that are not repaired yet.
    missing: u64,
    seen_all: bool,
    window_before: u64,
    delivered: u64,
    sent: u64,
}

impl<C: Control> Simulation<C> {
    /// A connection that was just established, with endless data.
    pub fn new(control: C, path: Path, window: Window) -> Self {
        let mut new = Simulation {
            control,
            path,
            window,
            now_ns: 0,
            flight: VecDeque::new(),
            unanswered: 0,
            ack_due: 0.0,
            waiting: u64::MAX,
            sent: 0,
            delivered: 0,
            lost: 0,
            to_lose: 0,
            to_repeat: 0,
            recovery: None,
            lost_since: 0,
            server_free_ns: 0,
            last_arrival_ns: 0,
            next_paced_ns: 0,
            round_ends: 0,
            trace: Trace::default(),
        };
        let rtt_us = (path.rtt_ns + path.segment_ns) / 1_000;
        new.control.begin(&mut new.window, rtt_us);
        new.sample(path.rtt_ns);
        new
    }

    /// As [`Self::new`], but with nothing to send before [`Self::write`].
    pub fn silent(control: C, path: Path, window: Window) -> Self {
        Simulation {
            waiting: 0,
            ..Self::new(control, path, window)
        }
    }

    /// Gives the sender this many more segments to send.
    pub fn write(&mut self, segments: u64) {
        self.waiting = self.waiting.saturating_add(segments);
        let written = Written {
            now_us: self.now_ns / 1_000,
            delivered: self.delivered,
            in_flight: self.in_flight(),
            waiting: self.waiting,
            recovering: self.recovery.is_some(),
        };
        self.control.written(&mut self.window, &written);
    }

    /// The window now.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Whether losses are being repaired.
    pub fn recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// Segments that were lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Segments that were acknowledged so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// What was recorded so far.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Loses the next `segments` that are sent.
    pub fn lose(&mut self, segments: u64) {
        self.to_lose += segments;
    }

    /// Continues the simulation up to `t_ns` since the start.
    pub fn run_until(&mut self, t_ns: u64) {
        loop {
            let answer_ns = self
                .flight
                .front()
                .map_or(u64::MAX, |first| first.answer_ns);
            let send_ns = match self.may_send() {
                0 => u64::MAX,
                _ => self.next_paced_ns.max(self.now_ns),
            };
            if answer_ns.min(send_ns) > t_ns {
                self.now_ns = t_ns;
                return;
            }
            self.now_ns = answer_ns.min(send_ns);
            if send_ns <= answer_ns {
                self.send();
            } else if let Some(segment) = self.flight.pop_front() {
                match segment.lost {
                    true => self.lose_one(segment),
                    false => self.arrive(segment),
                }
            }
        }
    }

    /// How many segments may be sent now.
    fn may_send(&self) -> u64 {
        let room = u64::from(self.window.cwnd).saturating_sub(self.in_flight());
        room.min(self.waiting.saturating_add(self.to_repeat))
    }

    fn in_flight(&self) -> u64 {
        self.flight.len() as u64 + u64::from(self.unanswered)
    }

    fn send(&mut self) {
        let repeats = self.to_repeat > 0;
        self.to_repeat -= u64::from(repeats);
        if !repeats && self.waiting < u64::MAX {
            self.waiting -= 1;
        }
        let (answer_ns, lost) = self.cross();
        self.flight.push_back(Segment {
            answer_ns,
            sent_ns: self.now_ns,
            number: self.sent,
            delivered_when_sent: self.delivered,
            lost,
            repeats,
        });
        self.sent += 1;
        if let Some(recovery) = &mut self.recovery {
            recovery.sent += 1;
        }
        if let Some(per_s) = self.control.pacing_per_s() {
            self.next_paced_ns = self.next_paced_ns.max(self.now_ns) + (1e9 / per_s) as u64;
        }
    }

    /// When the answer to a segment comes that is sent now, and whether the segment is lost.
    fn cross(&mut self) -> (u64, bool) {
        let start_ns = self.server_free_ns.max(self.now_ns);
        let waiting = (start_ns - self.now_ns).checked_div(self.path.segment_ns);
        let overflows = match (waiting, self.path.queue_segments) {
            (Some(waiting), Some(limit)) => waiting > limit,
            _ => false,
        };
        if !overflows {
            self.server_free_ns = start_ns + self.path.segment_ns;
        }
        let answer_ns = self.server_free_ns + self.path.rtt_ns;
        let answer_ns = answer_ns.max(self.now_ns + self.path.rtt_ns);
        self.last_arrival_ns = self.last_arrival_ns.max(answer_ns);
        let chosen = self.to_lose > 0;
        self.to_lose -= u64::from(chosen);
        let lost = overflows || chosen || self.path.loses(self.sent);
        (self.last_arrival_ns, lost)
    }

    fn lose_one(&mut self, segment: Segment) {
        self.lost += 1;
        self.to_repeat += 1;
        match &mut self.recovery {
            Some(recovery) => {
                recovery.seen_all |= segment.number + 1 >= recovery.begins_at;
                match segment.repeats {
                    true => {}
                    false if segment.number < recovery.begins_at => recovery.missing += 1,
                    false => self.lost_since += 1,
                }
            }
            None => self.enter_recovery(1, segment.number + 1 == self.sent),
        }
        self.reduce(0, false);
    }

    fn enter_recovery(&mut self, missing: u64, seen_all: bool) {
        let before = self.window.cwnd;
        let after = self.control.cut(&self.window, self.now_ns / 1_000);
        self.window.ssthresh = after;
        self.window.count = 0;
        self.recovery = Some(Recovery {
            begins_at: self.sent,
            missing,
            seen_all,
            window_before: u64::from(before),
            delivered: 0,
            sent: 0,
        });
        self.trace.cuts.push(Cut {
            t_ns: self.now_ns,
            before_segments: before,
            after_segments: after,
        });
    }

    /// The far end answers at once while something is missing, and when nothing more is on its way.
    fn arrive(&mut self, segment: Segment) {
        self.unanswered += 1;
        self.ack_due += 1.0 / self.path.ack_segments.max(1.0);
        let in_order =
            self.recovery.is_none() && self.flight.front().is_some_and(|next| !next.lost);
        if self.ack_due >= 1.0 || !in_order {
            self.ack_due = (self.ack_due - 1.0).max(0.0);
            self.acknowledge(segment);
        }
    }

    fn acknowledge(&mut self, segment: Segment) {
        let acked = std::mem::take(&mut self.unanswered);
        self.delivered += u64::from(acked);
        if let Some(recovery) = &mut self.recovery {
            recovery.delivered += u64::from(acked);
            recovery.seen_all |= segment.number + 1 >= recovery.begins_at;
            if segment.repeats {
                let old = u64::from(recovery.missing > 0);
                recovery.missing -= old;
                self.lost_since -= 1 - old;
            }
            if recovery.seen_all && recovery.missing == 0 {
                self.leave_recovery();
            }
        }
        let rtt_ns = self.now_ns - segment.sent_ns;
        let ack = Ack {
            now_us: self.now_ns / 1_000,
            rtt_us: (rtt_ns / 1_000).max(1),
            acked,
            delivered: self.delivered,
            delivered_when_sent: segment.delivered_when_sent,
            in_flight: self.in_flight(),
            lost: self.lost,
            waiting: self.waiting,
            recovering: self.recovery.is_some(),
        };
        self.control.acked(&mut self.window, &ack);
        self.reduce(acked.into(), segment.repeats);
        if segment.delivered_when_sent >= self.round_ends {
            self.round_ends = self.delivered;
            self.sample(rtt_ns);
        }
    }

    fn leave_recovery(&mut self) {
        self.recovery = None;
        if !self.control.owns_window() {
            self.window.cwnd = self.window.ssthresh;
        }
        self.control.repaired(self.now_ns / 1_000);
        match std::mem::take(&mut self.lost_since) {
            0 => {}
            missing => self.enter_recovery(missing, false),
        }
    }

    /// The window in recovery: what is in flight, and what may follow what was just delivered.
    fn reduce(&mut self, delivered: u64, repaired: bool) {
        let Some(recovery) = self.recovery else {
            return;
        };
        if self.control.owns_window() {
            return;
        }
        let (flight, target) = (self.in_flight(), u64::from(self.window.ssthresh));
        let more = if flight > target {
            (recovery.delivered * target)
                .div_ceil(recovery.window_before)
                .saturating_sub(recovery.sent)
        } else {
            let owed = recovery.delivered.saturating_sub(recovery.sent);
            (owed.max(delivered) + u64::from(repaired)).min(target - flight)
        };
        let first = u64::from(recovery.sent == 0);
        self.window.cwnd = ((flight + more.max(first)) as u32).max(Window::FLOOR);
    }

    fn sample(&mut self, rtt_ns: u64) {
        let known = self.window.ssthresh != Window::NO_THRESHOLD;
        self.trace.rounds.push(Round {
            t_ns: self.now_ns,
            cwnd_segments: self.window.cwnd,
            ssthresh_segments: known.then_some(self.window.ssthresh),
            rtt_ns,
        });
    }
}
