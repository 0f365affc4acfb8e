//! One target under libFuzzer: the one that the environment variable `HOWDAH_FUZZ` names.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("HOWDAH_FUZZ").unwrap_or_default();
        let target = howdah_fuzz::find(&name).expect("HOWDAH_FUZZ names no target");
        let _ = TARGET.set(target.run);
    },
    |data: &[u8]| if let Some(run) = TARGET.get() {
        run(data);
    }
);
