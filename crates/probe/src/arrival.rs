//! When an answer came, on a clock that never jumps.
//!
//! The kernel stamps what it receives (SO_TIMESTAMPNS, socket(7)), long before a program is awake to read it,
//! but by the clock of the day, which may be set at any moment. So a stamp only says how long ago the answer
//! came when it is read, and is believed only if nothing else is impossible then.

/// Both clocks at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// CLOCK_MONOTONIC, ns since the probing began.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, ns.
    pub realtime_ns: i64,
}

/// When something came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Monotonic clock, ns since the probing began.
    pub at_ns: u64,
    /// By the kernel's stamp; else when it was read.
    pub by_kernel: bool,
}

/// The clock of the day may be slewed by 500 ppm (ntp_adjtime(2)); between two readings of both clocks the
/// program may also be interrupted.
const SLEW: i64 = 1000;
const BETWEEN_READINGS_NS: i64 = 50_000;

/// When the answer to what was `sent` came, that was `read` with this stamp of CLOCK_REALTIME.
#[must_use]
pub fn arrival(sent: Reading, read: Reading, stamp_ns: Option<i64>) -> Arrival {
    let by_program = Arrival {
        at_ns: read.monotonic_ns,
        by_kernel: false,
    };
    let Some(waited_ns) = stamp_ns.and_then(|stamp_ns| read.realtime_ns.checked_sub(stamp_ns))
    else {
        return by_program;
    };
    let whole_ns = read.monotonic_ns.saturating_sub(sent.monotonic_ns) as i64;
    let by_realtime_ns = read.realtime_ns.saturating_sub(sent.realtime_ns);
    let jumped =
        by_realtime_ns.abs_diff(whole_ns) > (whole_ns / SLEW + BETWEEN_READINGS_NS).unsigned_abs();
    if jumped || !(0..=whole_ns).contains(&waited_ns) {
        return by_program;
    }
    Arrival {
        at_ns: read.monotonic_ns - waited_ns.unsigned_abs(),
        by_kernel: true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY_NS: i64 = 86_400_000_000_000;

    proptest! {
        #[test]
        fn a_clock_that_runs_evenly_is_believed_to_the_nanosecond(
            sent in 0_u64..1 << 40, rtt in 0_u64..1 << 33, waited in 0_u64..1 << 30, offset in 0_i64..1 << 60,
        ) {
            let at = |ns: u64| Reading { monotonic_ns: ns, realtime_ns: offset + ns as i64 };
            let came = arrival(at(sent), at(sent + rtt + waited), Some(at(sent + rtt).realtime_ns));
            prop_assert_eq!(came, Arrival { at_ns: sent + rtt, by_kernel: true });
        }

        /// Set between any two of: sent, came, read.
        #[test]
        fn a_clock_that_is_set_never_moves_an_arrival_out_of_its_bounds(
            sent in 0_u64..1 << 40, rtt in 0_u64..1 << 33, waited in 0_u64..1 << 30,
            before in -DAY_NS..DAY_NS, after in -DAY_NS..DAY_NS,
        ) {
            let offset = 1_i64 << 60;
            let read_at = sent + rtt + waited;
            let came = arrival(
                Reading { monotonic_ns: sent, realtime_ns: offset + sent as i64 },
                Reading { monotonic_ns: read_at, realtime_ns: offset + read_at as i64 + before + after },
                Some(offset + (sent + rtt) as i64 + before),
            );
            prop_assert!((sent..=read_at).contains(&came.at_ns));
            if came.by_kernel {
                // What is not noticed is no more than the clock may be slewed by, unless it was set back again.
                let slack = ((rtt + waited) as i64 / SLEW + BETWEEN_READINGS_NS).unsigned_abs();
                prop_assert!((before + after).unsigned_abs() <= slack);
            } else {
                prop_assert_eq!(came.at_ns, read_at);
            }
        }
    }

    #[test]
    fn without_a_stamp_it_came_when_it_was_read() {
        let reading = Reading {
            monotonic_ns: 5,
            realtime_ns: 50,
        };
        assert_eq!(
            arrival(reading, reading, None),
            Arrival {
                at_ns: 5,
                by_kernel: false
            }
        );
    }
}
