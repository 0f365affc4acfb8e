//! Compiles with clang, against libbpf's headers, `src/bpf/NAME.bpf.c` and each control's
//! `controls/NAME/program.bpf.c` to `NAME.bpf.o`, and makes the table of the controls.

use std::{
    env,
    ffi::OsStr,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Programs that are no controls, and the headers of all.
const SHARED: &str = "src/bpf";
/// One folder each; those without a program are models alone.
const CONTROLS: &str = "controls";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let headers = env::var_os("DEP_BPF_INCLUDE").expect("libbpf-sys tells where its headers are");
    println!("cargo::rerun-if-changed={SHARED}");
    println!("cargo::rerun-if-changed={CONTROLS}");
    println!("cargo::rerun-if-env-changed=CLANG");
    for name in names_in(SHARED) {
        if let Some(stem) = name.strip_suffix(".bpf.c") {
            compile(&Path::new(SHARED).join(&name), &out, stem, &headers);
        }
    }
    let mut rows = String::new();
    for name in names_in(CONTROLS) {
        let source = Path::new(CONTROLS).join(&name).join("program.bpf.c");
        if source.exists() {
            compile(&source, &out, &name, &headers);
            writeln!(
                rows,
                "program({name:?}, &howdah_cc_model::controls::{name}::ABOUT, object!({name:?})),"
            )
            .expect("memory");
        }
    }
    fs::write(out.join("programs.rs"), format!("&[{rows}]")).expect("OUT_DIR can be written");
}

fn names_in(folder: &str) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .expect("the programs are beside the crate")
        .map(|entry| entry.expect("a folder that can be read"))
        .map(|entry| entry.file_name().into_string().expect("a plain name"))
        .collect();
    names.sort();
    names
}

fn compile(source: &Path, out: &Path, name: &str, headers: &OsStr) {
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let status = Command::new(&clang)
        .args([
            "-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror",
        ])
        .args(["-Wno-unused-parameter", "-Wno-unused-function", "-c"])
        .arg(target_arch())
        .arg("-I")
        .arg(headers)
        .arg("-I")
        .arg(SHARED)
        .arg(source)
        .arg("-o")
        .arg(out.join(format!("{name}.bpf.o")))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{} does not compile: {status}", source.display()),
        Err(error) => panic!("cannot run {}: {error}; install clang", clang.display()),
    }
}

/// Which registers hold a program's arguments, as libbpf's headers name the machine.
fn target_arch() -> String {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let name = match arch.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        "riscv64" => "riscv",
        "powerpc64" => "powerpc",
        "s390x" => "s390",
        other => other,
    };
    format!("-D__TARGET_ARCH_{name}")
}
