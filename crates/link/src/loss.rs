//! Loss of single wire segments. The distance to the next hit is drawn, so that segments between
//! hits cost a subtraction and a whole burst can be known to be free of loss.

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::spec::GilbertElliott;

/// Independent trials of one probability, as the number of misses before the next hit.
#[derive(Debug, Clone)]
struct Trials {
    probability: f64,
    /// Absent: never a hit.
    misses_left: Option<u64>,
}

impl Trials {
    fn new(probability: f64, random: &mut Xoshiro256PlusPlus) -> Self {
        Trials {
            probability,
            misses_left: draw_misses(probability, random),
        }
    }

    fn hit(&mut self, random: &mut Xoshiro256PlusPlus) -> bool {
        match &mut self.misses_left {
            Some(0) => {
                self.misses_left = draw_misses(self.probability, random);
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    fn misses(&self, n: u64) -> bool {
        self.misses_left.is_none_or(|left| left >= n)
    }

    fn skip(&mut self, n: u64) {
        if let Some(left) = &mut self.misses_left {
            *left -= n;
        }
    }
}

/// Geometric by inversion: ⌊ln U / ln(1 − p)⌋ with U uniform in (0, 1].
fn draw_misses(probability: f64, random: &mut Xoshiro256PlusPlus) -> Option<u64> {
    if probability <= 0.0 {
        return None;
    }
    let uniform = ((random.next_u64() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64);
    Some((uniform.ln() / (-probability).ln_1p()) as u64)
}

/// Independent loss.
#[derive(Debug, Clone)]
pub(crate) struct Independent {
    trials: Trials,
    random: Xoshiro256PlusPlus,
}

impl Independent {
    pub fn new(probability: f64, mut random: Xoshiro256PlusPlus) -> Self {
        Independent {
            trials: Trials::new(probability, &mut random),
            random,
        }
    }

    /// Trials have no memory, so a fresh start is exact.
    pub fn set(&mut self, probability: f64) {
        if probability != self.trials.probability {
            self.trials = Trials::new(probability, &mut self.random);
        }
    }

    pub fn hits(&mut self) -> bool {
        self.trials.hit(&mut self.random)
    }

    /// Whether the next `n` segments all pass.
    pub fn spares(&self, n: u64) -> bool {
        self.trials.misses(n)
    }

    pub fn skip(&mut self, n: u64) {
        self.trials.skip(n);
    }
}

/// Loss in bursts; see [`GilbertElliott`].
#[derive(Debug, Clone)]
pub(crate) struct Bursty {
    model: Option<Chain>,
    epoch: usize,
    random: Xoshiro256PlusPlus,
}

#[derive(Debug, Clone)]
struct Chain {
    parameters: GilbertElliott,
    bad: bool,
    turn: Trials,
    loss: Trials,
}

impl Chain {
    fn new(parameters: GilbertElliott, bad: bool, random: &mut Xoshiro256PlusPlus) -> Self {
        let (turn, loss) = match bad {
            false => (parameters.enter, parameters.loss_good),
            true => (parameters.leave, parameters.loss_bad),
        };
        Chain {
            parameters,
            bad,
            turn: Trials::new(turn, random),
            loss: Trials::new(loss, random),
        }
    }
}

impl Bursty {
    pub fn new(model: Option<GilbertElliott>, mut random: Xoshiro256PlusPlus) -> Self {
        let model = model.map(|parameters| Chain::new(parameters, false, &mut random));
        Bursty {
            model,
            epoch: 0,
            random,
        }
    }

    /// Begins anew when the schedule has set another model; `epoch` counts those.
    pub fn set(&mut self, model: Option<GilbertElliott>, epoch: usize) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.model = model.map(|parameters| Chain::new(parameters, false, &mut self.random));
        }
    }

    pub fn hits(&mut self) -> bool {
        let Some(chain) = &mut self.model else {
            return false;
        };
        if chain.turn.hit(&mut self.random) {
            *chain = Chain::new(chain.parameters, !chain.bad, &mut self.random);
        }
        chain.loss.hit(&mut self.random)
    }

    pub fn spares(&self, n: u64) -> bool {
        self.model
            .as_ref()
            .is_none_or(|chain| chain.turn.misses(n) && chain.loss.misses(n))
    }

    pub fn skip(&mut self, n: u64) {
        if let Some(chain) = &mut self.model {
            chain.turn.skip(n);
            chain.loss.skip(n);
        }
    }
}
