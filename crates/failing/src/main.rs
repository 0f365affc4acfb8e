//! `howdah-failing FOLDER MOUNT`: FOLDER as a disk that fails shows it, on MOUNT, until it is unmounted or the standard
//! input ends.
//!
//! It says `mounted`. Then each line of its input tells it what fails: `writes once`, `writes 1500` (for so many
//! milliseconds), `well`. It answers each with how much has failed so far.

use std::env;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::{self, ExitCode};
use std::thread;
use std::time::Duration;

use howdah_failing::{Told, session};
use rustix::fs::Mode;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [folder, mount] = &arguments[..] else {
        return failed("howdah-failing takes FOLDER MOUNT");
    };
    // The kernel has taken a program's own from the modes that it sends.
    rustix::process::umask(Mode::empty());
    let (mut session, told) = match session(Path::new(folder), Path::new(mount)) {
        Ok(mounted) => mounted,
        Err(error) => return failed(&format!("cannot mount on {}: {error}", mount.display())),
    };
    let mut unmounter = session.unmount_callable();
    thread::spawn(move || {
        let obeyed = obey(&told);
        let unmounted = unmounter.unmount();
        if let Err(error) = obeyed.and(unmounted) {
            failed(&error.to_string());
            process::exit(1);
        }
    });
    match session.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}

/// Does what the input says until it ends.
fn obey(told: &Told) -> io::Result<()> {
    let mut output = io::stdout();
    writeln!(output, "mounted")?;
    for line in io::stdin().lock().lines() {
        tell(told, &line?).map_err(io::Error::other)?;
        writeln!(output, "{}", told.failed())?;
    }
    Ok(())
}

fn tell(told: &Told, line: &str) -> Result<(), String> {
    match line.split_once(' ') {
        None if line == "well" => told.be_well(),
        None => return Err(format!("not understood: {line}")),
        Some((what, "once")) => told.fail_once(what.parse()?),
        Some((what, milliseconds)) => {
            let a_while = milliseconds
                .parse()
                .map_err(|error| format!("{milliseconds}: {error}"))?;
            told.fail_for(what.parse()?, Duration::from_millis(a_while));
        }
    }
    Ok(())
}
