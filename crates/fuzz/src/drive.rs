//! Runs a target on a stable compiler: the kept inputs as they are, then random changes of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::mutate::{below, mutate};
use crate::{Target, corpus};

/// Inputs grow to this length, in bytes.
const MOST_BYTES: usize = 4096;
/// One input takes no longer, on however busy a machine.
const LONGEST: Duration = Duration::from_secs(20);
/// Inputs between two looks at the clock.
const AT_ONCE: u64 = 64;

/// When a run ends.
#[derive(Debug, Clone, Copy)]
pub struct Until {
    /// After this time.
    pub time: Duration,
    /// After so many inputs.
    pub inputs: u64,
}

/// Runs `target` on its kept inputs and on changes of them drawn from `seed`; how many inputs that were.
///
/// # Errors
/// What went wrong and with which input, in hexadecimal digits.
pub fn drive(target: &Target, seed: u64, until: Until) -> Result<u64, String> {
    let mut kept = corpus::kept(target.name)?;
    for input in &kept {
        attempt(target, input)?;
    }
    let mut count = kept.len() as u64;
    if kept.is_empty() {
        kept.push(Vec::new());
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let start = Instant::now();
    let mut input = Vec::new();
    while count < until.inputs && start.elapsed() < until.time {
        for _ in 0..AT_ONCE {
            let (one, other) = (
                below(&mut random, kept.len()),
                below(&mut random, kept.len()),
            );
            input.clear();
            input.extend_from_slice(&kept[one]);
            mutate(&mut input, &kept[other], MOST_BYTES, &mut random);
            attempt(target, &input)?;
        }
        count += AT_ONCE;
    }
    Ok(count)
}

fn attempt(target: &Target, input: &[u8]) -> Result<(), String> {
    let start = Instant::now();
    let what = match catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        Ok(()) if start.elapsed() < LONGEST => return Ok(()),
        Ok(()) => format!("took {:?}", start.elapsed()),
        Err(panic) => panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "panicked".to_owned()),
    };
    let digits: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
    Err(format!("{}: {what}; input {digits}", target.name))
}
