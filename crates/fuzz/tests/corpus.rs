//! Each target on its kept inputs and on changes of them: `HOWDAH_FUZZ_SECONDS` each, a few by default.

use std::time::Duration;
use std::{env, process};

use howdah_fuzz::drive::{Until, drive};
use howdah_fuzz::{TARGETS, Target};
use libtest_mimic::{Arguments, Failed, Trial};

/// Time of a target by default, in seconds: with the targets side by side on two cores, half a minute.
const SECONDS: u64 = 3;

fn main() {
    let seconds = match env::var("HOWDAH_FUZZ_SECONDS").map(|text| text.parse()) {
        Err(_) => SECONDS,
        Ok(Ok(seconds)) => seconds,
        Ok(Err(error)) => {
            eprintln!("HOWDAH_FUZZ_SECONDS is no number of seconds: {error}");
            process::exit(2);
        }
    };
    let until = Until {
        time: Duration::from_secs(seconds),
        inputs: u64::MAX,
    };
    let trials = TARGETS.iter().map(|target| trial(target, until)).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn trial(target: &'static Target, until: Until) -> Trial {
    Trial::test(target.name, move || {
        let seed = 1;
        let count = drive(target, seed, until).map_err(Failed::from)?;
        println!("{}: {count} inputs", target.name);
        Ok(())
    })
}
