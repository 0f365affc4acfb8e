//! Tests that need a privilege or a program. Without it they are shown as ignored, with the reason; in CI they fail.
//!
//! The harness that comes with Rust cannot ignore a test once it runs, so the files that use this have a
//! `main` of their own.

use std::panic::resume_unwind;
use std::process::{Command, ExitCode};
use std::{env, thread};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// A test by its name.
pub type Test = (String, Box<dyn FnOnce() + Send>);

/// The tests of these functions, by their paths.
macro_rules! tests {
    ($($test:path),* $(,)?) => {
        vec![$((
            stringify!($test).to_owned(),
            Box::new(|| $test()) as Box<dyn FnOnce() + Send>,
        )),*]
    };
}
pub(crate) use tests;

/// Why tests that need root cannot run here; `None` where they can.
#[allow(dead_code, reason = "not every program needs it")]
pub fn missing_root() -> Option<String> {
    let root = rustix::process::geteuid().is_root();
    (!root).then(|| "it needs root".to_owned())
}

/// Why tests that need rsync cannot run here; `None` where they can.
#[allow(dead_code, reason = "not every program needs it")]
pub fn missing_rsync() -> Option<String> {
    let missing = Command::new("rsync").arg("--version").output().is_err();
    missing.then(|| "rsync is missing".to_owned())
}

/// Runs groups of tests. Before each group stands why its tests cannot run here; `None` where they can.
pub fn run<const GROUPS: usize>(groups: [(Option<String>, Vec<Test>); GROUPS]) -> ExitCode {
    let mut trials = Vec::new();
    for (missing, tests) in groups {
        for (name, test) in tests {
            let missing = missing.clone();
            trials.push(Trial::ignorable_test(name, || match missing {
                // As in Rust's own harness, each has a thread of its own: some change what their thread may do.
                None => match thread::spawn(test).join() {
                    Ok(()) => Ok(Completion::Completed),
                    Err(panic) => resume_unwind(panic),
                },
                Some(why) if env::var_os("CI").is_some() => {
                    Err(Failed::from(format!("cannot be tested here: {why}")))
                }
                Some(why) => Ok(Completion::ignored_with(why)),
            }));
        }
    }
    let mut arguments = Arguments::from_args();
    // As Rust's own harness does.
    let threads = env::var("RUST_TEST_THREADS").ok();
    arguments.test_threads = arguments
        .test_threads
        .or(threads.and_then(|text| text.parse().ok()));
    libtest_mimic::run(&arguments, trials).exit_code()
}
