//! The model against a second one written the plain way, and against what must hold for any link.

use howdah_link::{Burst, Cause, Change, Direction, DirectionSpec, GilbertElliott, Spec, Verdict};
use proptest::prelude::*;

fn direction(rate_bps: Option<u64>, delay_ns: u64) -> DirectionSpec {
    DirectionSpec {
        rate_bps,
        delay_ns,
        jitter_ns: 0,
        queue_bytes: None,
        loss: 0.0,
        burst: None,
        changes: vec![],
    }
}

fn link(near_to_far: DirectionSpec, seed: u64) -> Direction {
    let far_to_near = direction(None, near_to_far.delay_ns);
    let spec = Spec {
        mtu: 1500,
        frame_overhead_bytes: 38,
        seed,
        near_to_far,
        far_to_near,
    };
    spec.check().unwrap();
    let [near_to_far, _] = Direction::pair(&spec);
    near_to_far
}

/// Served work S(t) = ∫rate dt and its inverse, written out from the changes.
struct Plain<'a> {
    spec: &'a DirectionSpec,
    finish_work: u128,
    dropped: u32,
    last_arrival_ns: u64,
    limit_bytes: u64,
}

const WORK_PER_BYTE: u128 = 8_000_000_000;

impl Plain<'_> {
    /// (from, rate, delay, down) of each stretch.
    fn stretches(&self) -> Vec<(u64, u64, u64, bool)> {
        let (mut rate, mut delay, mut down) =
            (self.spec.rate_bps.unwrap(), self.spec.delay_ns, false);
        let mut all = vec![(0, rate, delay, down)];
        for change in &self.spec.changes {
            rate = change.rate_bps.unwrap_or(rate);
            delay = change.delay_ns.unwrap_or(delay);
            down = change.outage.unwrap_or(down);
            all.push((change.at_ns, if down { 0 } else { rate }, delay, down));
        }
        all
    }

    fn served_by(&self, t_ns: u64) -> u128 {
        let all = self.stretches();
        let ends = all.iter().skip(1).map(|next| next.0).chain([u64::MAX]);
        all.iter()
            .zip(ends)
            .map(|(&(from, rate, ..), end)| {
                u128::from(t_ns.min(end).saturating_sub(from)) * u128::from(rate)
            })
            .sum()
    }

    fn offer(&mut self, now_ns: u64, bytes: u32) -> Verdict {
        let all = self.stretches();
        let at = |t_ns: u64| *all.iter().rfind(|stretch| stretch.0 <= t_ns).unwrap();
        if at(now_ns).3 {
            return Verdict::Dropped(Cause::Outage);
        }
        let backlog = self.finish_work.saturating_sub(self.served_by(now_ns));
        let work = u128::from(bytes) * WORK_PER_BYTE;
        if backlog + work > u128::from(self.limit_bytes) * WORK_PER_BYTE {
            return Verdict::Dropped(Cause::Queue);
        }
        let finish_work = self.finish_work.max(self.served_by(now_ns)) + work;
        let (mut low, mut high) = (now_ns, 1 << 50);
        if self.served_by(high) < finish_work {
            return Verdict::Dropped(Cause::Outage);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.served_by(middle) >= finish_work {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        self.finish_work = finish_work;
        let to_drop: u32 = self
            .spec
            .changes
            .iter()
            .filter(|change| change.at_ns < low)
            .map(|change| change.drop.unwrap_or(0))
            .sum();
        if self.dropped < to_drop {
            self.dropped += 1;
            return Verdict::Dropped(Cause::Loss);
        }
        // A segment belongs to the stretch that serves its last bit.
        self.last_arrival_ns = self.last_arrival_ns.max(low + at(low - 1).2);
        Verdict::Arrives(self.last_arrival_ns)
    }
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = (
        1u64..3_000_000,
        proptest::option::of(1_000_000u64..20_000_000_000),
        proptest::option::of(0u64..2_000_000),
        proptest::option::of(any::<bool>()),
        proptest::option::of(1u32..4),
    );
    proptest::collection::vec(change, 0..6).prop_map(|steps| {
        let mut at_ns = 0;
        let each = |(step, rate_bps, delay_ns, outage, drop)| {
            at_ns += step;
            Change {
                at_ns,
                rate_bps,
                delay_ns,
                outage,
                drop,
                ..Change::default()
            }
        };
        steps.into_iter().map(each).collect()
    })
}

fn offers() -> impl Strategy<Value = Vec<(u64, Burst)>> {
    let offer = (0u64..400_000, 1u32..46, 60u32..1538, 0.0..1.0f64);
    proptest::collection::vec(offer, 1..80).prop_map(|steps| {
        let mut now_ns = 0;
        let each = |(step, segments, wire_bytes, last)| {
            now_ns += step;
            let last_wire_bytes = 53 + (f64::from(wire_bytes - 53) * last) as u32;
            let last_wire_bytes = if segments == 1 {
                wire_bytes
            } else {
                last_wire_bytes
            };
            (
                now_ns,
                Burst {
                    segments,
                    wire_bytes,
                    last_wire_bytes,
                },
            )
        };
        steps.into_iter().map(each).collect()
    })
}

fn sizes(burst: Burst) -> impl Iterator<Item = u32> {
    (0..burst.segments).map(move |i| burst.wire_bytes_of(i, 1) as u32)
}

fn noise() -> impl Strategy<Value = (f64, Option<GilbertElliott>, u64)> {
    let burst =
        (0.0..0.3, 0.1..1.0, 0.0..0.1, 0.2..1.0).prop_map(|(enter, leave, loss_good, loss_bad)| {
            GilbertElliott {
                enter,
                leave,
                loss_good,
                loss_bad,
            }
        });
    let loss = prop_oneof![Just(0.0), 0.0..0.2];
    (
        loss,
        proptest::option::of(burst),
        prop_oneof![Just(0u64), 1u64..300_000],
    )
}

proptest! {
    #[test]
    fn exact_over_changes_and_outages(
        rate_bps in 1_000_000u64..20_000_000_000,
        delay_ns in 0u64..5_000_000,
        queue_bytes in 1538u64..400_000,
        changes in changes(),
        offers in offers(),
    ) {
        let spec = DirectionSpec {
            queue_bytes: Some(queue_bytes), changes, ..direction(Some(rate_bps), delay_ns)
        };
        let mut plain =
            Plain { spec: &spec, finish_work: 0, dropped: 0, last_arrival_ns: 0, limit_bytes: queue_bytes };
        let mut model = link(spec.clone(), 1);
        for (now_ns, burst) in offers {
            for bytes in sizes(burst) {
                prop_assert_eq!(model.offer(now_ns, bytes), plain.offer(now_ns, bytes));
            }
        }
    }

    #[test]
    fn a_burst_is_its_segments(
        rate_bps in proptest::option::of(1_000_000u64..40_000_000_000),
        queue_bytes in 1538u64..4_000_000,
        (loss, burst, jitter_ns) in noise(),
        changes in changes(),
        offers in offers(),
        spread_ns in 0u64..500_000,
        seed: u64,
    ) {
        let mut spec = DirectionSpec {
            queue_bytes: Some(queue_bytes), loss, burst, jitter_ns, changes, ..direction(rate_bps, 1_000_000)
        };
        if rate_bps.is_none() {
            spec.changes.iter_mut().for_each(|change| change.rate_bps = None);
        }
        let (mut whole, mut single) = (link(spec.clone(), seed), link(spec, seed));
        for (now_ns, burst) in offers {
            let mut runs = vec![];
            whole.offer_burst(now_ns, burst, spread_ns, |run| runs.push(run));
            let mut expected = vec![];
            for (index, bytes) in sizes(burst).enumerate() {
                if let Verdict::Arrives(at_ns) = single.offer(now_ns, bytes) {
                    expected.push((index as u32, at_ns));
                }
            }
            let mut left = expected.iter();
            for run in runs {
                let segments: Vec<_> = left.by_ref().take(run.count as usize).collect();
                prop_assert_eq!(segments.len(), run.count as usize);
                prop_assert!(segments.iter().zip(run.first..).all(|(got, want)| got.0 == want));
                prop_assert_eq!(segments.last().unwrap().1, run.arrival_ns);
                prop_assert!(run.arrival_ns - segments[0].1 <= spread_ns);
            }
            prop_assert_eq!(left.next(), None);
            prop_assert_eq!(whole.drops(), single.drops());
            prop_assert_eq!(whole.queue().largest_bytes, single.queue().largest_bytes);
            prop_assert_eq!(whole.queue().longest_ns, single.queue().longest_ns);
        }
    }

    #[test]
    fn what_any_link_keeps(
        rate_bps in 1_000_000u64..20_000_000_000,
        delay_ns in 0u64..5_000_000,
        queue_bytes in 1538u64..400_000,
        (loss, burst, jitter_ns) in noise(),
        offers in offers(),
        seed: u64,
    ) {
        let spec = DirectionSpec {
            queue_bytes: Some(queue_bytes), loss, burst, jitter_ns, ..direction(Some(rate_bps), delay_ns)
        };
        let (mut model, mut again) = (link(spec.clone(), seed), link(spec, seed));
        let (mut arrivals, mut offered) = (vec![], 0);
        for (now_ns, burst) in offers {
            for bytes in sizes(burst) {
                offered += 1;
                let verdict = model.offer(now_ns, bytes);
                prop_assert_eq!(verdict, again.offer(now_ns, bytes), "the seed decides");
                if let Verdict::Arrives(at_ns) = verdict {
                    let soonest_ns = now_ns + delay_ns + u64::from(bytes) * 8_000_000_000 / rate_bps;
                    prop_assert!(at_ns >= soonest_ns, "faster than light");
                    arrivals.push((at_ns, bytes));
                }
            }
        }
        prop_assert_eq!(offered, arrivals.len() as u64 + model.drops().total(), "none is lost track of");
        prop_assert!(arrivals.is_sorted_by_key(|arrival| arrival.0), "nothing overtakes");
        prop_assert!(model.queue().largest_bytes <= queue_bytes, "the queue holds no more");
        prop_assert!(model.queue().mean_bytes().unwrap() <= queue_bytes as f64);
        if jitter_ns == 0 {
            let (first_ns, _) = arrivals.first().copied().unwrap_or_default();
            let bytes: u64 = arrivals.iter().skip(1).map(|arrival| u64::from(arrival.1)).sum();
            let span_ns = arrivals.last().map_or(0, |last| last.0 - first_ns);
            let most = u128::from(rate_bps) * u128::from(span_ns + 1) / WORK_PER_BYTE;
            prop_assert!(u128::from(bytes) <= most, "faster than the rate");
        }
    }
}

/// Half-width of the 99.9 % interval of a share of `n` trials.
fn half_width(p: f64, n: f64) -> f64 {
    3.29 * (p * (1.0 - p) / n).sqrt()
}

fn lost_of(spec: DirectionSpec, segments: u64, seed: u64) -> Vec<bool> {
    let mut model = link(spec, seed);
    (0..segments)
        .map(|i| model.offer(i, 1538) != Verdict::Arrives(i))
        .collect()
}

#[test]
fn independent_loss_has_its_share_and_no_memory() {
    for (seed, loss) in [(1, 1e-3), (2, 1e-2), (3, 0.3)] {
        let n = 1_000_000;
        let lost = lost_of(
            DirectionSpec {
                loss,
                ..direction(None, 0)
            },
            n,
            seed,
        );
        let share = lost.iter().filter(|lost| **lost).count() as f64 / n as f64;
        assert!(
            (share - loss).abs() < half_width(loss, n as f64),
            "{share} of {loss}"
        );
        let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64 / n as f64;
        let expected = loss * loss;
        assert!(
            (pairs - expected).abs() < 1.5 * half_width(expected, n as f64),
            "{pairs} of {expected}"
        );
    }
}

#[test]
fn bursts_have_the_share_and_length_of_the_chain() {
    let model = GilbertElliott {
        enter: 0.002,
        leave: 0.1,
        loss_good: 0.0,
        loss_bad: 1.0,
    };
    let n = 2_000_000;
    let lost = lost_of(
        DirectionSpec {
            burst: Some(model),
            ..direction(None, 0)
        },
        n,
        7,
    );
    let share = lost.iter().filter(|lost| **lost).count() as f64 / n as f64;
    let expected = model.enter / (model.enter + model.leave);
    // Neighbours are correlated: the variance is larger by (2 − enter − leave) / (enter + leave).
    let wider = ((2.0 - 0.102) / 0.102f64).sqrt();
    assert!(
        (share - expected).abs() < wider * half_width(expected, n as f64),
        "{share} of {expected}"
    );
    let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
    let length = share * n as f64 / bursts;
    assert!(
        (length - 10.0).abs() < 3.29 * (90.0 / bursts).sqrt(),
        "mean burst of {length} segments"
    );
}

#[test]
fn loss_changes_when_the_schedule_says() {
    let change = Change {
        at_ns: 500,
        loss: Some(1.0),
        ..Change::default()
    };
    let lost = lost_of(
        DirectionSpec {
            changes: vec![change],
            ..direction(None, 0)
        },
        1000,
        1,
    );
    assert!(lost[..500].iter().all(|lost| !lost) && lost[500..].iter().all(|lost| *lost));
}

#[test]
fn the_schedule_drops_as_many_as_it_says() {
    let at = |at_ns, drop| Change {
        at_ns,
        drop: Some(drop),
        ..Change::default()
    };
    let spec = DirectionSpec {
        changes: vec![at(500, 1), at(600, 3)],
        ..direction(None, 0)
    };
    let lost = lost_of(spec, 1000, 1);
    let which: Vec<_> = (0..1000).filter(|&i| lost[i]).collect();
    assert_eq!(which, [500, 600, 601, 602]);
}

#[test]
fn a_queue_waits_through_an_outage() {
    let changes = vec![
        Change {
            at_ns: 1_000,
            outage: Some(true),
            ..Change::default()
        },
        Change {
            at_ns: 50_000,
            outage: Some(false),
            ..Change::default()
        },
    ];
    let mut model = link(
        DirectionSpec {
            changes,
            ..direction(Some(1_000_000_000), 0)
        },
        1,
    );
    assert_eq!(
        model.offer(0, 1000),
        Verdict::Arrives(57_000),
        "1 µs before, 7 µs after"
    );
    assert_eq!(model.offer(2_000, 1000), Verdict::Dropped(Cause::Outage));
    assert_eq!(model.offer(50_000, 1000), Verdict::Arrives(65_000));
}

#[test]
fn a_late_offer_harms_only_an_idle_server_or_a_full_queue() {
    let spec = DirectionSpec {
        queue_bytes: Some(10_000),
        ..direction(Some(8_000_000), 0)
    };
    let mut model = link(spec, 1);
    assert_eq!(
        model.harm_ns(5_000_000, 2_000_000),
        2_000_000,
        "idle since ever"
    );
    assert_eq!(model.offer(5_000_000, 1_000), Verdict::Arrives(6_000_000));
    assert_eq!(model.harm_ns(5_500_000, 2_000_000), 0, "busy");
    assert_eq!(
        model.harm_ns(6_300_000, 2_000_000),
        300_000,
        "idle for a while"
    );
    assert_eq!(
        model.harm_ns(5_500_000, 9_600_000),
        9_600_000,
        "the queue may have been full"
    );
    assert_eq!(link(direction(None, 0), 1).harm_ns(7, 5), 5, "no server");
}

#[test]
fn harm_is_known_when_the_link_has_changed_since_the_last_offer() {
    let change = Change {
        at_ns: 1_000_000,
        delay_ns: Some(0),
        ..Change::default()
    };
    let spec = DirectionSpec {
        changes: vec![change],
        ..direction(Some(8_000_000), 0)
    };
    let mut model = link(spec, 1);
    assert_eq!(model.offer(0, 1_000), Verdict::Arrives(1_000_000));
    assert_eq!(model.offer(0, 1_000), Verdict::Arrives(2_000_000));
    assert_eq!(model.harm_ns(1_500_000, 100_000), 0, "busy");
}
