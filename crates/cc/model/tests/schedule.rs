//! The schedule behind a held rate makes good what late timers cost, and never sends more than it may.

use howdah_cc_model::controls::hold::{LATE_US, Look, Schedule};
use proptest::prelude::*;

const SEGMENT_BYTES: u64 = 1538;
const MS: u64 = 1_000_000;

/// A sender as the kernel's: packets of a millisecond, at least two segments, each behind a timer.
struct Sender {
    schedule: Schedule,
    rate: u64,
    now_ns: u64,
    may_ns: u64,
    sent_bytes: u64,
    /// Time and bytes before each packet, and the bytes with it.
    left: Vec<(u64, u64, u64)>,
}

impl Sender {
    fn new(rate: u64) -> Self {
        Sender {
            schedule: Schedule::new(rate),
            rate,
            now_ns: MS,
            may_ns: 0,
            sent_bytes: 0,
            left: vec![],
        }
    }

    fn look(&mut self, written: u64) -> u64 {
        self.schedule.follow(&Look {
            now_ns: self.now_ns.max(self.may_ns),
            sent_bytes: self.sent_bytes,
            sent_first: self.sent_bytes,
            written,
        })
    }

    /// Sends a packet when its timer, `late_ns` late, lets it (`tcp_update_skb_after_send`).
    fn send(&mut self, late_ns: u64, written: u64) {
        self.now_ns = self.now_ns.max(self.may_ns + late_ns);
        let pacing = self.look(written);
        let segments = (pacing / 1024 / SEGMENT_BYTES).clamp(2, 42);
        let bytes = segments * SEGMENT_BYTES;
        let wait_ns = bytes * 1_000_000_000 / pacing;
        let late_ns = self.now_ns - self.may_ns.min(self.now_ns);
        self.left
            .push((self.now_ns, self.sent_bytes, self.sent_bytes + bytes));
        self.sent_bytes += bytes;
        self.may_ns = self.now_ns + wait_ns - late_ns.min(wait_ns / 2);
        // An ACK may come at any time; looking once more must change nothing.
        self.look(written);
    }

    fn run(&mut self, until_ns: u64, mut late_ns: impl FnMut() -> u64) {
        while self.may_ns.max(self.now_ns) < until_ns {
            self.send(late_ns(), u64::MAX);
        }
    }

    fn ns_of(&self, bytes: u64) -> u64 {
        bytes * 1_000_000_000 / self.rate
    }

    /// The most that left in any time beyond the rate, as time of the rate.
    fn most_beyond_ns(&self) -> u64 {
        let mut least = i64::MAX;
        let mut most = 0;
        for &(t_ns, before, after) in &self.left {
            least = least.min(self.ns_of(before) as i64 - t_ns as i64);
            most = most.max(self.ns_of(after) as i64 - t_ns as i64 - least);
        }
        most as u64
    }

    fn largest_ns(&self) -> u64 {
        let sizes = self.left.iter().map(|(_, before, after)| after - before);
        self.ns_of(sizes.max().unwrap())
    }
}

/// Now and then late, so often in a thousand, by up to so much.
fn spells(often: u64, late_ns: u64) -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_u64;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let drawn = state >> 33;
        match drawn % 1000 < often {
            true => drawn / 1000 % (late_ns + 1),
            false => 0,
        }
    }
}

proptest! {
    /// At any rate, however late the timers are.
    #[test]
    fn never_more_than_the_rate_and_the_depth_leaves(
        rate in 1_000_u64..1_000_000_000,
        often in 0_u64..=1000,
        late_us in 0_u64..100_000,
    ) {
        let mut sender = Sender::new(rate);
        let span_ns = (500 * MS).max(sender.ns_of(100 * SEGMENT_BYTES));
        sender.run(MS + span_ns, spells(often, late_us * 1000));
        let largest_ns = sender.largest_ns();
        let depth_ns = (2 * largest_ns).max(LATE_US * 1000);
        prop_assert!(sender.most_beyond_ns() <= depth_ns + 2 * largest_ns);
    }

    /// From some Mb/s on, with a tenth of the time in spells shorter than the depth.
    #[test]
    fn what_late_timers_cost_is_made_good(
        rate in 1_000_000_u64..1_000_000_000,
        often in 0_u64..20,
        late_us in 0_u64..8_000,
    ) {
        let mut sender = Sender::new(rate);
        sender.run(2_000 * MS, spells(often, late_us * 1000));
        let due_ns = sender.now_ns - MS;
        let lag_ns = due_ns.saturating_sub(sender.ns_of(sender.sent_bytes));
        prop_assert!(lag_ns <= LATE_US * 1000, "{} ms behind", lag_ns / MS);
    }

    /// Each timer late by a packet or two; beyond 100 Mb/s a packet would have to be larger than one can be.
    #[test]
    fn even_when_each_of_them_is_late(
        rate in 1_000_000_u64..12_500_000,
        late_us in 0_u64..2_000,
    ) {
        let mut sender = Sender::new(rate);
        sender.run(2_000 * MS, || late_us * 1000);
        let kept = sender.ns_of(sender.sent_bytes) as f64 / (sender.now_ns - MS) as f64;
        prop_assert!(kept > 0.98, "{kept}");
    }
}

#[test]
fn what_an_application_did_not_give_is_not_due() {
    let mut sender = Sender::new(5_000_000);
    let given = 20 * SEGMENT_BYTES;
    while sender.sent_bytes < given {
        sender.send(0, given);
    }
    // Half a second later there is more.
    sender.now_ns += 500 * MS;
    let began_ns = sender.now_ns;
    let before = sender.sent_bytes;
    sender.run(began_ns + 100 * MS, || 0);
    let sent_ns = sender.ns_of(sender.sent_bytes - before);
    assert!(sent_ns <= 100 * MS + 2 * sender.largest_ns());
}

#[test]
fn who_has_sent_ahead_waits() {
    let mut schedule = Schedule::new(1_000_000);
    let look = |now_ns, sent_bytes| Look {
        now_ns,
        sent_bytes,
        sent_first: sent_bytes,
        written: u64::MAX,
    };
    assert_eq!(schedule.follow(&look(MS, 0)), 1_000_000);
    assert_eq!(schedule.follow(&look(2 * MS, 1_000)), 1_000_000);
    // Nine packets of a millisecond at once, then one.
    assert_eq!(schedule.follow(&look(2 * MS, 10_000)), 1_000_000);
    assert_eq!(schedule.follow(&look(3 * MS, 11_000)), 111_111);
    // What is due is sent, then five of them were missed.
    assert_eq!(schedule.follow(&look(11 * MS, 11_000)), 1_000_000);
    assert_eq!(schedule.follow(&look(16 * MS, 11_000)), 4_000_000);
}
