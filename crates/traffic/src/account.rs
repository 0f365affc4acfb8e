//! What came of a numbered sequence: once, twice, out of order (RFC 4737 §3.3, RFC 5560 §3).
//!
//! Deviation: only the newest [`WINDOW`] numbers are remembered. What comes later than that is neither new nor
//! double for certain, and is counted apart.

/// How many numbers behind the newest are told apart, some 12 s at 1 Gb/s.
pub const WINDOW: u64 = 1 << 20;

/// What a number was when it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// New, and the largest so far.
    InOrder,
    /// New, after a larger one.
    Reordered,
    /// It had come already.
    Doubled,
    /// Too far behind the largest to know.
    TooLate,
}

/// The numbers that have come.
#[derive(Debug)]
pub struct Account {
    largest: Option<u64>,
    /// A bit for each of the newest numbers, at the number modulo the window.
    come: Vec<u64>,
}

impl Default for Account {
    fn default() -> Self {
        let come = vec![0; (WINDOW / 64) as usize];
        Self {
            largest: None,
            come,
        }
    }
}

impl Account {
    /// Takes the next arrival in.
    pub fn take(&mut self, number: u64) -> Arrival {
        let Some(largest) = self.largest.filter(|&largest| number <= largest) else {
            self.advance(number);
            return Arrival::InOrder;
        };
        if largest - number >= WINDOW {
            return Arrival::TooLate;
        }
        let (word, bit) = place(number);
        let doubled = self.come[word] & bit != 0;
        self.come[word] |= bit;
        if doubled {
            Arrival::Doubled
        } else {
            Arrival::Reordered
        }
    }

    /// Makes `number` the largest; those before it have not come yet.
    fn advance(&mut self, number: u64) {
        let next = self.largest.map_or(0, |largest| largest + 1);
        if number - next >= WINDOW {
            self.come.fill(0);
        } else {
            for passed in next..number {
                let (word, bit) = place(passed);
                self.come[word] &= !bit;
            }
        }
        let (word, bit) = place(number);
        self.come[word] |= bit;
        self.largest = Some(number);
    }
}

fn place(number: u64) -> (usize, u64) {
    let at = number % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}
