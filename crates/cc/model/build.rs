//! Lists `../controls`: each folder with a `model.rs` becomes a module and an entry of `ALL`.

use std::{env, fmt::Write as _, fs, path::Path};

const CONTROLS: &str = "../controls";

fn main() {
    println!("cargo::rerun-if-changed={CONTROLS}");
    let folder = fs::canonicalize(CONTROLS).expect("the controls are beside the crate");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .expect("a folder that can be read")
        .map(|entry| entry.expect("a folder that can be read"))
        .filter(|entry| entry.path().join("model.rs").exists())
        .map(|entry| entry.file_name().into_string().expect("a plain name"))
        .collect();
    names.sort();

    let mut code = String::new();
    let mut entries = String::new();
    for name in &names {
        let model = folder.join(name).join("model.rs");
        writeln!(code, "#[path = {model:?}]\npub mod {name};").expect("memory");
        writeln!(
            entries,
            "Algorithm {{ name: {name:?}, about: &{name}::ABOUT }},"
        )
        .expect("memory");
    }
    writeln!(
        code,
        "/// Every algorithm, in the order of the names.\n\
         pub static ALL: [Algorithm; {}] = [{entries}];",
        names.len()
    )
    .expect("memory");
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("controls.rs"), code).expect("OUT_DIR can be written");
}
