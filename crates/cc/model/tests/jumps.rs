//! What a jump costs on a path that is not what it was, beside a slow start in its place.

use howdah_cc_model::{
    Control, Path, Simulation, Values, Window,
    controls::resume::{Resume, Saved},
};

const MS: u64 = 1_000_000;
const RATE_BPS: u64 = 200_000_000;
const WIRE_BYTES: u32 = 1538;
const SPAN_NS: u64 = 5_000 * MS;

/// A path, and what is remembered of it.
struct Case {
    path: Path,
    saved: Saved,
    bdp: u64,
    queue: u64,
    shown: String,
}

impl Case {
    fn new(rtt_ms: u64, part: f64, queue: f64, ack_segments: f64) -> Self {
        let path = |rate_bps| Path::new(rtt_ms * MS, Some(rate_bps), WIRE_BYTES).unwrap();
        let mut now = path((RATE_BPS as f64 * part) as u64);
        let bdp = now.bdp_segments().unwrap();
        let queue_segments = (bdp as f64 * queue) as u64;
        now.queue_segments = Some(queue_segments);
        now.ack_segments = ack_segments;
        Case {
            path: now,
            saved: Saved {
                segments: path(RATE_BPS).bdp_segments().unwrap() as u32,
                rtt_us: rtt_ms * 1_000,
            },
            bdp,
            queue: queue_segments,
            shown: format!(
                "{rtt_ms} ms, {part} of the rate, a queue of {queue} BDP, {ack_segments} segments an ACK"
            ),
        }
    }

    fn run(&self, saved: Option<Saved>) -> Simulation<Resume> {
        let values = Values::new(Resume::PARAMETERS, &[]).unwrap();
        Simulation::new(
            Resume::new(saved, &values),
            self.path,
            Window::new(10, None),
        )
    }

    /// Segments that were lost of what was sent until CUBIC went on, and how many had been delivered by then.
    fn jump(&self) -> (u64, u64) {
        let mut run = self.run(Some(self.saved));
        let (mut now_ns, step_ns) = (0, self.path.rtt_ns / 20);
        while run.control.owns_window() {
            now_ns += step_ns;
            run.run_until(now_ns);
        }
        run.run_until(now_ns + 2 * self.path.rtt_ns);
        (run.lost(), run.delivered())
    }

    /// Segments that a slow start has lost when it has delivered as many.
    fn slow_start(&self, delivered: u64) -> u64 {
        let mut run = self.run(None);
        let mut now_ns = 0;
        while run.delivered() < delivered {
            now_ns += 10 * MS;
            run.run_until(now_ns);
        }
        run.lost()
    }

    fn after_span(&self, saved: Option<Saved>) -> (u64, u64) {
        let mut run = self.run(saved);
        run.run_until(SPAN_NS);
        (run.lost(), run.delivered())
    }

    /// Half of what was remembered, as far as it does not fit.
    fn too_much(&self) -> u64 {
        u64::from(self.saved.segments / 2).saturating_sub(self.bdp + self.queue)
    }
}

fn cases(parts: &[f64]) -> Vec<Case> {
    let mut all = vec![];
    for rtt_ms in [20, 50, 100, 183, 366] {
        for &part in parts {
            for queue in [0.25, 0.5, 1.0, 2.0] {
                for ack_segments in [1.0, 8.0] {
                    all.push(Case::new(rtt_ms, part, queue, ack_segments));
                }
            }
        }
    }
    all
}

#[test]
fn a_jump_loses_no_more_than_a_slow_start_of_as_much_where_half_is_left() {
    for case in cases(&[0.5, 0.55, 0.6, 0.67, 0.75, 0.9, 1.0, 1.5, 2.0]) {
        let (lost, delivered) = case.jump();
        let slow = case.slow_start(delivered);
        assert!(lost <= slow, "{}: {lost}, not {slow}", case.shown);
    }
}

/// All of it is on its way when the first loss is known. What then is lost is what does not fit.
#[test]
fn where_less_than_half_is_left_it_loses_what_does_not_fit_and_no_more() {
    for case in cases(&[0.25, 0.33, 0.4, 0.45]) {
        let (lost, delivered) = case.jump();
        let most = case.too_much() + u64::from(case.saved.segments / 32);
        let most = most.max(case.slow_start(delivered));
        assert!(lost <= most, "{}: {lost}, not {most}", case.shown);
    }
}

/// CUBIC grows by a twentieth a round trip until it has lost something. After a jump it comes to that sooner.
#[test]
fn after_five_seconds_it_has_lost_what_cubic_loses_once_at_most_and_brought_more() {
    let (mut losses, mut slow_losses) = (0, 0);
    for case in cases(&[0.5, 0.6, 0.75, 1.0, 2.0]) {
        let (lost, delivered) = case.after_span(Some(case.saved));
        let (slow_lost, slow_delivered) = case.after_span(None);
        let once = (case.bdp + case.queue) / 18;
        assert!(
            lost <= slow_lost + once,
            "{}: {lost}, not {slow_lost} + {once}",
            case.shown
        );
        assert!(
            delivered * 100 >= slow_delivered * 98,
            "{}: {delivered} of {slow_delivered}",
            case.shown
        );
        losses += lost;
        slow_losses += slow_lost;
    }
    assert!(losses < slow_losses, "{losses}, not {slow_losses}");
}
