//! `corpus seeds|unpack|pack TARGET FOLDER`: the kept inputs of a target as files and back.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use howdah_fuzz::{TARGETS, corpus, find};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let named =
        |name: &str| find(name).ok_or_else(|| format!("{name} is no target; see `corpus list`"));
    match words[..] {
        ["list"] => TARGETS
            .iter()
            .for_each(|target| println!("{}", target.name)),
        ["seeds", name] => corpus::keep(named(name)?, Vec::new())?,
        ["unpack", name, folder] => {
            for (number, input) in corpus::kept(named(name)?.name)?.iter().enumerate() {
                fs::write(Path::new(folder).join(format!("kept-{number}")), input)?;
            }
        }
        ["pack", name, folder] => {
            let mut inputs = Vec::new();
            for entry in fs::read_dir(folder)? {
                inputs.push(fs::read(entry?.path())?);
            }
            corpus::keep(named(name)?, inputs)?;
        }
        _ => {
            return Err(
                "corpus list | seeds TARGET | unpack TARGET FOLDER | pack TARGET FOLDER".into(),
            );
        }
    }
    Ok(())
}
