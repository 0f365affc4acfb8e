//! How much earlier than needed a sleep ends on a quiet link, so that the release after it is in time.
//!
//! A core takes some tens of microseconds to wake, on a virtual machine more, and how many depends on the
//! machine. So the thread sleeps less and is awake at the instant, while that costs little of a core.

/// Of each [`SPAN_NS`], the most that is spent waiting awake: an eighth.
const AWAKE_NS: u64 = SPAN_NS / 8;
const SPAN_NS: u64 = 10_000_000;
const LEAST_EARLY_NS: u64 = 20_000;
const MOST_EARLY_NS: u64 = 200_000;
/// Each sleep that ended in time takes this off, each other one adds it [`RISES`] times, so that one in
/// `RISES + 1` ends too late.
const STEP_NS: u64 = 500;
const RISES: u64 = 15;

/// See the module.
#[derive(Debug)]
pub(crate) struct Idle {
    early_ns: u64,
    since_ns: u64,
    releases: u64,
    was_busy: bool,
}

impl Default for Idle {
    fn default() -> Self {
        Idle {
            early_ns: 60_000,
            since_ns: 0,
            releases: 0,
            was_busy: false,
        }
    }
}

impl Idle {
    /// How much earlier to wake, ns; 0 on a busy link.
    pub fn early_ns(&self) -> u64 {
        match self.was_busy || self.is_busy() {
            true => 0,
            false => self.early_ns,
        }
    }

    /// A packet left. Spans of [`SPAN_NS`] begin with one.
    pub fn released(&mut self, now_ns: u64) {
        if now_ns - self.since_ns > SPAN_NS {
            self.was_busy = self.is_busy();
            self.since_ns = now_ns;
            self.releases = 0;
        }
        self.releases += 1;
    }

    /// When the present span began, and how many packets have left since.
    pub fn span(&self) -> (u64, u64) {
        (self.since_ns, self.releases)
    }

    /// A sleep lasted `late_ns` longer than was asked for.
    pub fn overslept(&mut self, late_ns: u64) {
        let early_ns = match late_ns > self.early_ns {
            true => self.early_ns + RISES * STEP_NS,
            false => self.early_ns - STEP_NS,
        };
        self.early_ns = early_ns.clamp(LEAST_EARLY_NS, MOST_EARLY_NS);
    }

    fn is_busy(&self) -> bool {
        self.releases * self.early_ns > AWAKE_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Latenesses spread evenly from `least` to `most`, in an order that mixes them.
    fn sleep(idle: &mut Idle, least_ns: u64, most_ns: u64) {
        let of = |n: u64| least_ns + (most_ns - least_ns) * (n * 37 % 100) / 100;
        (0..2000).for_each(|n| idle.overslept(of(n)));
    }

    #[test]
    fn nearly_all_sleeps_end_in_time() {
        let mut idle = Idle::default();
        for (least_ns, most_ns) in [(70_000, 110_000), (30_000, 50_000)] {
            sleep(&mut idle, least_ns, most_ns);
            let share = (idle.early_ns() - least_ns) as f64 / (most_ns - least_ns) as f64;
            assert!((0.8..1.2).contains(&share), "{share}");
        }
    }

    #[test]
    fn it_stays_within_bounds() {
        let mut idle = Idle::default();
        sleep(&mut idle, 5_000_000, 6_000_000);
        assert_eq!(idle.early_ns(), MOST_EARLY_NS);
        sleep(&mut idle, 0, 1);
        assert_eq!(idle.early_ns(), LEAST_EARLY_NS);
    }

    #[test]
    fn a_busy_link_never_waits_awake_and_a_quiet_one_an_eighth_at_most() {
        let mut idle = Idle::default();
        let mut awake_ns = [0, 0];
        for (phase, gap_ns) in [10_000, 5_000_000].into_iter().enumerate() {
            let begin_ns = phase as u64 * 1_000_000_000;
            for n in 0..100_000_000 / gap_ns {
                idle.released(begin_ns + n * gap_ns);
                awake_ns[phase] += idle.early_ns();
            }
        }
        assert!(
            awake_ns[0] <= 2 * AWAKE_NS,
            "only until it is known to be busy"
        );
        assert!(awake_ns[1] > 15 * 60_000);
        assert!(awake_ns[1] <= 10 * AWAKE_NS);
    }
}
