//! Scalable TCP: 1 % more for each window acknowledged, an eighth less at a loss, so that the time
//! between losses does not depend on the window.
//!
//! Source: T. Kelly, "Scalable TCP: Improving Performance in Highspeed Wide Area Networks", ACM CCR
//! 33(2), 2003; Linux 6.18 `net/ipv4/tcp_scalable.c`. Below 100 segments it grows as Reno does.
//! Deviations: those of the crate.

use crate::{About, Ack, AfterLoss, Control, Model, Parameter, Values, Window};

/// What is known of Scalable TCP.
pub const ABOUT: About = About {
    title: "Scalable",
    summary: "Scalable TCP (Kelly 2003): grows by 1 % a round trip, falls by an eighth",
    in_linux: true,
    growth: "1 % a round trip",
    after_loss: AfterLoss::Takes(1, 8),
    fair_beside_reno: "no",
    parameters: Scalable::PARAMETERS,
    model: Model::Free(|values| Box::new(Scalable::new(values))),
};

const AI_PACKETS: Parameter = Parameter::count(
    "ai_packets",
    (100, 2, 10_000),
    "one packet more for so many acknowledged",
);
const MD_SHIFT: Parameter =
    Parameter::count("md_shift", (3, 1, 8), "a loss takes 2^-N of the window");

/// Scalable TCP for one connection.
#[derive(Debug, Clone)]
pub struct Scalable {
    ai_packets: u32,
    md_shift: u64,
}

impl Scalable {
    /// The parameters that can be set.
    pub const PARAMETERS: &[Parameter] = &[AI_PACKETS, MD_SHIFT];

    /// A fresh control, with values of [`Self::PARAMETERS`].
    #[must_use]
    pub fn new(values: &Values) -> Self {
        Scalable {
            ai_packets: values.get(&AI_PACKETS) as u32,
            md_shift: values.get(&MD_SHIFT),
        }
    }
}

impl Control for Scalable {
    fn acked(&mut self, window: &mut Window, ack: &Ack) {
        if !ack.recovering {
            window.grow(ack.acked, |window, left| {
                window.avoid(window.cwnd.min(self.ai_packets), left);
            });
        }
    }

    fn cut(&mut self, window: &Window, _now_us: u64) -> u32 {
        (window.cwnd - (window.cwnd >> self.md_shift)).max(Window::FLOOR)
    }
}
