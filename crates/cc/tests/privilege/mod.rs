//! Tests that need a privilege. Without it they are shown as ignored, with the reason; in CI they fail.
//!
//! The harness that comes with Rust cannot ignore a test once it runs, so the files that use this have a
//! `main` of their own.

use std::env;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// A test by its name.
pub type Test = (String, Box<dyn FnOnce() + Send>);

/// The tests of these functions, by their names.
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        vec![$((stringify!($test).to_owned(), Box::new($test) as Box<dyn FnOnce() + Send>)),*]
    };
}
pub(crate) use tests;

/// Runs the tests that need a privilege, of which `missing` says why it is not there, and those that need
/// none.
pub fn run(missing: Option<String>, needing: Vec<Test>, others: Vec<Test>) -> ExitCode {
    let others = others.into_iter().map(|(name, test)| {
        Trial::test(name, || {
            test();
            Ok(())
        })
    });
    let needing = needing.into_iter().map(|(name, test)| {
        let missing = missing.clone();
        Trial::ignorable_test(name, || match missing {
            None => {
                test();
                Ok(Completion::Completed)
            }
            Some(why) if env::var_os("CI").is_some() => {
                Err(Failed::from(format!("cannot be tested here: {why}")))
            }
            Some(why) => Ok(Completion::ignored_with(why)),
        })
    });
    let trials = needing.chain(others).collect();
    let mut arguments = Arguments::from_args();
    // As Rust's own harness does.
    let threads = env::var("RUST_TEST_THREADS").ok();
    arguments.test_threads = arguments
        .test_threads
        .or(threads.and_then(|text| text.parse().ok()));
    libtest_mimic::run(&arguments, trials).exit_code()
}
