//! HighSpeed TCP: the larger the window, the more it grows a round trip and the less a loss takes.
//!
//! Source: RFC 3649 §5 and its appendices B (table) and C (how it is made); Linux 6.18
//! `net/ipv4/tcp_highspeed.c`.
//!
//! Deviations beside those of the crate: none from Linux. Linux's from the RFC are kept:
//! - a(w) is added once for each ACK, whatever it acknowledges: with receive offload, where an ACK
//!   stands for up to 44 segments, it grows that much slower.
//! - The table ends at 72 rows (w of 89,053).
//! - What slow start leaves over of an ACK is not used.

use std::sync::LazyLock;

use crate::{About, Ack, AfterLoss, Control, Model, Window};

/// What is known of HighSpeed TCP.
pub const ABOUT: About = About {
    title: "HighSpeed",
    summary: "HighSpeed TCP (RFC 3649): grows faster and falls less in large windows",
    in_linux: true,
    growth: "1 to 72 segments a round trip, by the window",
    after_loss: AfterLoss::Between((128, 256), (232, 256)),
    fair_beside_reno: "below 38 segments",
    parameters: &[],
    model: Model::Free(|_| Box::new(HighSpeed::default())),
};

/// A row of the table. Its number, from 1, is the growth in segments a round trip.
struct Row {
    /// The largest window of this row, segments. A larger one belongs to the next row.
    up_to: u32,
    /// What a loss takes, 1/256 of the window.
    decrease: u64,
}

const ROWS: usize = 72;
const LOW_WINDOW: f64 = 38.0;
const HIGH_WINDOW: f64 = 83_000.0;
const HIGH_DECREASE: f64 = 0.1;

/// b(w) of RFC 3649 §5: from 0.5 at 38 segments to 0.1 at 83,000, linear in log w.
fn decrease(window: f64) -> f64 {
    let position = (window.ln() - LOW_WINDOW.ln()) / (HIGH_WINDOW.ln() - LOW_WINDOW.ln());
    (HIGH_DECREASE - 0.5) * position + 0.5
}

/// a(w) = w² p(w) 2 b(w) / (2 − b(w)), with p(w) = 0.078 / w^1.2.
fn increase(window: f64) -> f64 {
    let b = decrease(window);
    window.powi(2) * 2.0 * b / ((2.0 - b) * window.powf(1.2) * 12.8)
}

static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let row = |window: u32| Row {
        up_to: window,
        decrease: (decrease(window.into()) * 256.0) as u64,
    };
    let mut rows = vec![row(LOW_WINDOW as u32)];
    let mut reached = 1.0;
    for window in LOW_WINDOW as u32.. {
        if rows.len() == ROWS {
            break;
        }
        let a = increase(window.into());
        if a > reached + 1.0 {
            rows.push(row(window));
            reached = a;
        }
    }
    rows
});

/// HighSpeed TCP for one connection.
#[derive(Debug, Clone, Default)]
pub struct HighSpeed {
    row: usize,
}

impl Control for HighSpeed {
    fn acked(&mut self, window: &mut Window, ack: &Ack) {
        if ack.recovering {
            return;
        }
        if window.in_slow_start() {
            window.slow_start(ack.acked);
            return;
        }
        self.row = TABLE
            .partition_point(|row| row.up_to < window.cwnd)
            .min(ROWS - 1);
        window.count += self.row as u32 + 1;
        if window.count >= window.cwnd {
            window.count -= window.cwnd;
            window.cwnd = (window.cwnd + 1).min(window.clamp);
        }
    }

    fn cut(&mut self, window: &Window, _now_us: u64) -> u32 {
        let taken = u64::from(window.cwnd) * TABLE[self.row].decrease / 256;
        (window.cwnd - taken as u32).max(Window::FLOOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of RFC 3649, appendix B: window, a(w), b(w) in hundredths.
    const PRINTED: [(u32, usize, f64); 6] = [
        (38, 1, 0.50),
        (118, 2, 0.44),
        (221, 3, 0.41),
        (1058, 8, 0.33),
        (10661, 30, 0.21),
        (84035, 71, 0.10),
    ];

    #[test]
    fn the_table_is_that_of_the_rfc() {
        assert_eq!(TABLE.len(), ROWS);
        for (window, growth, share) in PRINTED {
            let row = &TABLE[growth - 1];
            assert_eq!(row.up_to, window);
            assert!(
                (row.decrease as f64 / 256.0 - share).abs() < 0.01,
                "{window}"
            );
        }
        assert_eq!(TABLE[ROWS - 1].up_to, 89_053);
    }
}
