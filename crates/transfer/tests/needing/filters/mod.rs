//! Random trees under random filter rules, copied by howdah and by rsync into two folders that must be the same.
//!
//! `HOWDAH_FILTER_CASES` trees, some by default; `make bench-filters` asks for thousands and reads the last line.
//! Each case is made of its number alone. So that the comparison is known to see a mistake, each tenth case is
//! copied once more under rules with one made on purpose, and such copies must differ.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use howdah_filter::{Filters, Given, expand};
use serde_json::{Value, json};

mod cases;

use crate::ends::{Ends, push};
use cases::{Case, MISTAKES};

const CASES: u64 = 150;
/// One case of so many is copied with removals too.
const REMOVAL_CASES_OF: u64 = 3;

/// What is below a folder: the paths and what each is. Nothing where there is no folder.
fn tree(root: &Path) -> BTreeMap<String, char> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let letter = match (kind.is_dir(), kind.is_symlink()) {
                (true, _) => 'd',
                (_, true) => 'l',
                _ => 'f',
            };
            if kind.is_dir() {
                folders.push(path);
            }
            found.insert(name, letter);
        }
    }
    found
}

/// What rsync makes of a case with these options, or its refusal.
fn by_rsync(case: &Case, base: &Path, options: &[&str]) -> Result<BTreeMap<String, char>, String> {
    let target = base.join("rsync");
    let mut command = Command::new("rsync");
    command.arg("-a").args(options).current_dir(base);
    for (by, text) in &case.rules {
        command.arg(OsStr::from_bytes(&[by.flag(), text.as_bytes()].concat()));
    }
    command.args(
        case.sources
            .iter()
            .map(|source| base.join(source).as_os_str().to_owned()),
    );
    let done = command
        .arg(format!("{}/", target.display()))
        .output()
        .expect("rsync is installed");
    match done.status.success() {
        true => Ok(tree(&target)),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

/// The rules of a case as they are sent to the end that reads its tree.
fn rules(case: &Case, base: &Path) -> Result<Filters, String> {
    let given: Vec<Given<'_>> = case
        .rules
        .iter()
        .map(|(by, text)| (by.option(), text.as_bytes()))
        .collect();
    let mut open = |name: &[u8]| {
        fs::read(base.join(OsStr::from_bytes(name))).map_err(|error| error.to_string())
    };
    expand(&given, false, &mut open).map_err(|error| error.to_string())
}

/// What howdah makes of a case under these rules, or its refusal.
fn by_howdah(
    case: &Case,
    filters: Filters,
    base: &Path,
    target: &str,
    change: &dyn Fn(&mut Value),
) -> Result<BTreeMap<String, char>, String> {
    let target = base.join(target);
    let sources: Vec<_> = case
        .sources
        .iter()
        .map(|source| base.join(source))
        .collect();
    let sources: Vec<&Path> = sources.iter().map(|source| source.as_path()).collect();
    let mut job = push(&sources, &target);
    // What rsync calls the content of a folder is `folder/.` here.
    let words = case.sources.iter().map(|source| {
        let dot = if source.ends_with('/') { "." } else { "" };
        STANDARD.encode(format!("{}/{source}{dot}", base.display()))
    });
    job["sources"] = words.collect();
    job["destination_is_folder"] = json!(true);
    job["encrypt"] = json!(false);
    job["sync"] = json!(false);
    let texts = Vec::<Vec<u8>>::from(filters);
    job["filters"] = texts
        .iter()
        .map(|text| json!(STANDARD.encode(text)))
        .collect();
    change(&mut job);
    Ends::run_with(&job, &json!({"streams": 1}))?;
    Ok(tree(&target))
}

/// How many cases there are.
fn cases() -> u64 {
    env::var("HOWDAH_FILTER_CASES").map_or(CASES, |text| text.parse().unwrap())
}

pub fn howdah_leaves_out_what_rsync_leaves_out() {
    let cases = cases();
    let (mut left_out, mut taken_back, mut local, mut refused) = (0, 0, 0, 0);
    let (mut mistakes, mut found) = ([0_u64; MISTAKES.len()], [0_u64; MISTAKES.len()]);
    let mut wrong: Vec<String> = Vec::new();
    for number in 0..cases {
        let case = Case::new(number);
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        case.make(base);
        let expected = by_rsync(&case, base, &[]);
        let made = rules(&case, base)
            .and_then(|filters| by_howdah(&case, filters, base, "howdah", &|_| {}));
        match (&expected, &made) {
            (Ok(expected), Ok(made)) if expected == made => {}
            (Err(_), Err(_)) => refused += 1,
            _ => wrong.push(format!(
                "case {number}: {case:?}\nrsync {expected:?}\nhowdah {made:?}\n"
            )),
        }
        let everything = case.content().len();
        let here = made.as_ref().map_or(everything, BTreeMap::len);
        left_out += u64::from(here < everything);
        local += u64::from(case.has_filter_files());
        taken_back += u64::from(here < everything && case.includes());
        if number % 10 == 0
            && let Ok(expected) = &expected
        {
            for (at, mistake) in MISTAKES.iter().enumerate() {
                let Some(changed) = case.mistaken(mistake) else {
                    continue;
                };
                mistakes[at] += 1;
                let Ok(filters) = rules(&changed, base) else {
                    continue;
                };
                let target = format!("mistake-{at}");
                let made = by_howdah(&changed, filters, base, &target, &|_| {});
                found[at] += u64::from(made.as_ref() != Ok(expected));
            }
        }
    }
    let counted = json!({
        "cases": cases,
        "wrong": wrong.len(),
        "left_out": left_out,
        "taken_back": taken_back,
        "filter_files": local,
        "refused_by_both": refused,
        "mistakes": MISTAKES.iter().zip(mistakes).zip(found)
            .map(|((mistake, made), found)| json!({"what": mistake.what, "made": made, "found": found}))
            .collect::<Vec<_>>(),
    });
    for each in wrong.iter().take(5) {
        eprintln!("{each}");
    }
    println!("filters: {counted}");
    assert!(wrong.is_empty(), "{} of {cases} cases differ", wrong.len());
    assert!(
        left_out * 2 > cases,
        "the rules meet too few trees: {counted}"
    );
    let found: u64 = found.iter().sum();
    assert!(found > 0, "no mistake made on purpose shows: {counted}");
}

pub fn howdah_removes_what_rsync_removes() {
    let cases = cases() / REMOVAL_CASES_OF;
    let (mut removed, mut protected, mut found) = (0, 0, 0);
    let mut wrong: Vec<String> = Vec::new();
    for number in 0..cases {
        let case = Case::new(number);
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        case.make(base);
        for target in ["rsync", "howdah", "mistake"] {
            case.clutter(&Case::new(number + cases), &base.join(target));
        }
        let there = tree(&base.join("howdah"));
        let excluded = number % 2 == 0;
        // Filter files of the source are at the target before anything is removed, as they are for howdah.
        let mut options = vec!["--delete-after"];
        options.extend(excluded.then_some("--delete-excluded"));
        let expected = by_rsync(&case, base, &options);
        let run = |target: &str, excluded: bool| {
            let filters = rules(&case, base)?;
            by_howdah(&case, filters, base, target, &|job| {
                job["delete"] = json!(true);
                job["delete_excluded"] = json!(excluded);
            })
        };
        let made = run("howdah", excluded);
        match (&expected, &made) {
            (Ok(expected), Ok(made)) if expected == made => {}
            (Err(_), Err(_)) => {}
            _ => wrong.push(format!(
                "case {number}, excluded {excluded}: {case:?}\nthere {there:?}\nrsync {expected:?}\nhowdah {made:?}\n"
            )),
        }
        let Ok(made) = made else { continue };
        removed += u64::from(there.keys().any(|path| !made.contains_key(path)));
        let copied = tree(&base.join("root"));
        protected += u64::from(
            there
                .keys()
                .any(|path| made.contains_key(path) && !copied.contains_key(path)),
        );
        // What is left out is removed where it should not be, or the other way round.
        found += u64::from(number % 10 == 0 && run("mistake", !excluded) != Ok(made));
    }
    for each in wrong.iter().take(5) {
        eprintln!("{each}");
    }
    let counted = json!({
        "cases": cases,
        "wrong": wrong.len(),
        "removed": removed,
        "protected": protected,
        "mistakes_found": found,
    });
    println!("removals: {counted}");
    assert!(wrong.is_empty(), "{} of {cases} cases differ", wrong.len());
    assert!(
        removed * 3 > cases && protected * 3 > cases && found > 0,
        "{counted}"
    );
}
