//! How late packets left, as a histogram weighted by bytes on the wire. One thread writes, any reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets within one power of two; a quantile is at most 1/16 too large.
const STEPS: usize = 16;
const STEP_BITS: u32 = STEPS.ilog2();
const BUCKETS: usize = (64 - STEP_BITS as usize + 1) * STEPS;

/// See the module.
#[derive(Debug)]
pub(crate) struct Lateness {
    limit_ns: u64,
    releases: AtomicU64,
    longest_ns: AtomicU64,
    late_bytes: AtomicU64,
    buckets: Box<[AtomicU64]>,
}

/// Adds where only one thread writes, so that no locked instruction is needed.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

impl Lateness {
    pub fn new(limit_ns: u64) -> Self {
        Lateness {
            limit_ns,
            releases: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
            late_bytes: AtomicU64::new(0),
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub fn count(&self, late_ns: u64, wire_bytes: u64) {
        add(&self.releases, 1);
        add(&self.buckets[bucket(late_ns)], wire_bytes);
        if late_ns > self.limit_ns {
            add(&self.late_bytes, wire_bytes);
        }
        if late_ns > self.longest_ns.load(Relaxed) {
            self.longest_ns.store(late_ns, Relaxed);
        }
    }

    pub fn counts(&self) -> Counts {
        Counts {
            limit_ns: self.limit_ns,
            releases: self.releases.load(Relaxed),
            longest_ns: self.longest_ns.load(Relaxed),
            late_bytes: self.late_bytes.load(Relaxed),
            buckets: self.buckets.iter().map(|one| one.load(Relaxed)).collect(),
        }
    }
}

/// What had been counted at an instant, or between two.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    pub limit_ns: u64,
    pub releases: u64,
    longest_ns: u64,
    late_bytes: u64,
    buckets: Box<[u64]>,
}

impl Counts {
    /// What was counted after `earlier`.
    pub fn since(mut self, earlier: &Counts) -> Counts {
        self.releases -= earlier.releases;
        self.late_bytes = self.late_bytes.saturating_sub(earlier.late_bytes);
        for (now, before) in self.buckets.iter_mut().zip(&earlier.buckets) {
            *now -= before;
        }
        let last = self.buckets.iter().rposition(|&bytes| bytes > 0);
        self.longest_ns = last.map_or(0, upper_end).min(self.longest_ns);
        self
    }

    /// To a bucket's width after `since`; absent before the first release.
    pub fn longest_ns(&self) -> Option<u64> {
        (self.releases > 0).then_some(self.longest_ns)
    }

    /// Share of the bytes that left later than the limit; 0 when none left.
    pub fn late_fraction(&self) -> f64 {
        let total: u64 = self.buckets.iter().sum();
        self.late_bytes as f64 / total.max(1) as f64
    }

    /// The lateness that a share `quantile` of the bytes kept, ns; absent before the first release.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let total: u64 = self.buckets.iter().sum();
        let wanted = (total as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0;
        let index = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(upper_end(index).min(self.longest_ns))
    }
}

fn bucket(value: u64) -> usize {
    match value.checked_ilog2() {
        Some(power) if power >= STEP_BITS => {
            let step = (value >> (power - STEP_BITS)) as usize % STEPS;
            (power - STEP_BITS + 1) as usize * STEPS + step
        }
        _ => value as usize,
    }
}

/// The largest value of bucket `index`.
fn upper_end(index: usize) -> u64 {
    let (row, step) = ((index / STEPS) as u32, (index % STEPS) as u64);
    match row.checked_sub(1) {
        None => step,
        Some(shift) => ((STEPS as u64 + step) << shift) + ((1 << shift) - 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_is_a_sixteenth_wide(value: u64) {
            let index = bucket(value);
            prop_assert!(index < BUCKETS);
            let end = upper_end(index);
            prop_assert!(end >= value && end - value <= value / STEPS as u64);
            prop_assert!(index == 0 || upper_end(index - 1) < value);
        }
    }

    #[test]
    fn quantiles_weigh_bytes() {
        let lateness = Lateness::new(1_000_000);
        assert_eq!(lateness.counts().quantile_ns(0.5), None);
        assert_eq!(lateness.counts().longest_ns(), None);
        lateness.count(10, 900);
        lateness.count(2_000_000, 100);
        let counts = lateness.counts();
        assert_eq!(counts.quantile_ns(0.5), Some(10));
        assert_eq!(counts.quantile_ns(0.99), Some(2_000_000));
        assert_eq!(counts.late_fraction(), 0.1);
        assert_eq!((counts.releases, counts.longest_ns()), (2, Some(2_000_000)));
    }

    proptest! {
        #[test]
        fn what_is_counted_after_a_mark_is_as_if_counted_alone(
            releases in prop::collection::vec((0u64..1 << 40, 1u64..1 << 20), 1..40),
            mark in 0usize..40,
        ) {
            let (all, alone) = (Lateness::new(1_000_000), Lateness::new(1_000_000));
            let mark = mark.min(releases.len());
            for &(late_ns, bytes) in &releases[..mark] {
                all.count(late_ns, bytes);
            }
            let earlier = all.counts();
            for &(late_ns, bytes) in &releases[mark..] {
                all.count(late_ns, bytes);
                alone.count(late_ns, bytes);
            }
            let (since, alone) = (all.counts().since(&earlier), alone.counts());
            prop_assert_eq!(since.releases, alone.releases);
            prop_assert_eq!(since.late_fraction(), alone.late_fraction());
            for quantile in [0.1, 0.5, 0.99] {
                let (one, other) = (since.quantile_ns(quantile), alone.quantile_ns(quantile));
                prop_assert_eq!(one.map(bucket), other.map(bucket));
            }
            let (one, other) = (since.longest_ns(), alone.longest_ns());
            prop_assert_eq!(one.map(bucket), other.map(bucket));
        }
    }
}
