//! General AIMD: one segment more in several round trips, an eighth less at a loss, which takes as much of a
//! path as Reno does and varies less.
//!
//! Source: Y. R. Yang, S. S. Lam, "General AIMD Congestion Control", IEEE ICNP 2000, §3: fair beside Reno
//! where α = 4 (1 − β²) / 3. With β = 7/8, α = 5/16, which is taken as a third.
//! Deviations: those of the crate.

use crate::{About, Ack, AfterLoss, Control, Model, Parameter, Values, Window};

/// What is known of General AIMD.
pub const ABOUT: About = About {
    title: "General AIMD",
    summary: "General AIMD (Yang and Lam 2000): grows by a third of a segment a round trip, falls by an eighth",
    in_linux: false,
    growth: "1/3 segment a round trip",
    after_loss: AfterLoss::Takes(1, 8),
    fair_beside_reno: "yes",
    parameters: Gaimd::PARAMETERS,
    model: Model::Free(|values| Box::new(Gaimd::new(values))),
};

const ROUNDS: Parameter = Parameter::count(
    "rounds",
    (3, 1, 100),
    "one packet more in so many round trips",
);
const MD_SHIFT: Parameter =
    Parameter::count("md_shift", (3, 1, 8), "a loss takes 2^-N of the window");

/// General AIMD for one connection.
#[derive(Debug, Clone)]
pub struct Gaimd {
    rounds: u32,
    md_shift: u64,
}

impl Gaimd {
    /// The parameters that can be set.
    pub const PARAMETERS: &[Parameter] = &[ROUNDS, MD_SHIFT];

    /// A fresh control, with values of [`Self::PARAMETERS`].
    #[must_use]
    pub fn new(values: &Values) -> Self {
        Gaimd {
            rounds: values.get(&ROUNDS) as u32,
            md_shift: values.get(&MD_SHIFT),
        }
    }
}

impl Control for Gaimd {
    fn acked(&mut self, window: &mut Window, ack: &Ack) {
        if !ack.recovering {
            window.grow(ack.acked, |window, left| {
                window.avoid(window.cwnd.saturating_mul(self.rounds), left);
            });
        }
    }

    fn cut(&mut self, window: &Window, _now_us: u64) -> u32 {
        (window.cwnd - (window.cwnd >> self.md_shift)).max(Window::FLOOR)
    }
}
