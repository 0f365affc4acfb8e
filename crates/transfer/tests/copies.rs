//! The tests of copies with both ends in one process, and of ends made by hand: one program, because each test program is
//! compiled and linked. Tests that change, or measure, the process that they are in have programs of their own.

mod ahead;
mod between;
mod broken;
mod by_far;
mod ends;
mod holes;
mod hostile;
mod kinds;
mod listing;
mod moved;
mod piped;
mod resume;
mod rooted;
mod session;
mod site;
mod steer;

/// Cargo looks for no test here by itself (`autotests`), so a file that nobody names would be no test.
#[test]
fn every_file_here_is_part_of_a_program() {
    let crate_folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(crate_folder.join("Cargo.toml")).unwrap();
    let program = include_str!("copies.rs");
    for entry in std::fs::read_dir(crate_folder.join("tests")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_module = program.lines().any(|line| line == format!("mod {name};"));
        let is_program = manifest
            .lines()
            .any(|line| line == format!("name = \"{name}\""));
        assert!(is_module || is_program, "{name} is in no test program");
    }
}
