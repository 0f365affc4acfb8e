//! Compiles each `src/bpf/NAME.bpf.c` to `NAME.bpf.o` with clang, against libbpf's headers.

use std::{env, ffi::OsStr, fs, path::Path, process::Command};

const SOURCES: &str = "src/bpf";

fn main() {
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let headers = env::var_os("DEP_BPF_INCLUDE").expect("libbpf-sys tells where its headers are");
    println!("cargo::rerun-if-changed={SOURCES}");
    println!("cargo::rerun-if-env-changed=CLANG");
    for entry in fs::read_dir(SOURCES).expect("the programs are beside the crate") {
        let source = entry.expect("a folder that can be read").path();
        let name = source
            .file_name()
            .and_then(OsStr::to_str)
            .unwrap_or_default();
        if let Some(stem) = name.strip_suffix(".bpf.c") {
            compile(
                &source,
                &Path::new(&out).join(format!("{stem}.bpf.o")),
                &headers,
            );
        }
    }
}

fn compile(source: &Path, object: &Path, headers: &OsStr) {
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let status = Command::new(&clang)
        .args([
            "-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror",
        ])
        .args(["-Wno-unused-parameter", "-Wno-unused-function", "-c"])
        .arg(target_arch())
        .arg("-I")
        .arg(headers)
        .arg(source)
        .arg("-o")
        .arg(object)
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
