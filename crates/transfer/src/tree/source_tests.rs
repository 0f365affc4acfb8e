use super::*;
use crate::tree::content::name_hash;
use crate::tree::entry::Kind;
use rustix::fs::{CWD, Mode};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn named(path: &str) -> BaseName {
    base_name(path.as_bytes()).unwrap()
}

#[test]
fn base_names_are_those_of_cp() {
    assert_eq!(named("a/b"), BaseName::Named(b"b".to_vec()));
    assert_eq!(named("/a/b//"), BaseName::Named(b"b".to_vec()));
    assert_eq!(named("a/."), BaseName::Contents);
    assert_eq!(named("."), BaseName::Contents);
    assert_eq!(named("/"), BaseName::Contents);
    assert!(
        base_name(b"a/..")
            .unwrap_err()
            .to_string()
            .contains("a/../.")
    );
}

#[test]
fn a_scan_finds_everything_and_follows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("sub/empty")).unwrap();
    fs::write(root.join("sub/file"), b"12345").unwrap();
    fs::write(root.join(OsStr::from_bytes(b"\xff\n")), b"").unwrap();
    std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
    rustix::fs::mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let sources = Sources::open(
        &[root.as_os_str().as_bytes().to_vec()],
        Filters::default(),
        Keep::default(),
        &Reach::default(),
    )
    .unwrap();
    let mut found = BTreeMap::new();
    let mut warnings = Vec::new();
    sources
        .scan(&mut |here| {
            match here {
                Found::Entry(entry) => {
                    found.insert(entry.path.as_bytes().to_vec(), entry.kind);
                }
                Found::Special(line) => warnings.push(line),
                Found::Unreadable(why) => panic!("{why}"),
                Found::Content(_) => unreachable!("it was not asked for"),
            }
            Ok(())
        })
        .unwrap();
    let names: Vec<&[u8]> = found.keys().map(Vec::as_slice).collect();
    assert_eq!(
        names,
        [
            b"".as_slice(),
            b"link",
            b"sub",
            b"sub/empty",
            b"sub/file",
            b"\xff\n"
        ]
    );
    assert!(matches!(
        found[b"sub/file".as_slice()],
        Kind::File { size: 5, .. }
    ));
    assert!(
        matches!(&found[b"link".as_slice()], Kind::Link { target, .. } if target.as_bytes() == b"/etc")
    );
    assert!(
        warnings.len() == 1 && warnings[0].ends_with("fifo: it is a FIFO"),
        "{warnings:?}"
    );
}

#[test]
fn a_missing_source_is_named() {
    let error = Sources::open(
        &[b"/no/such\n".to_vec()],
        Filters::default(),
        Keep::default(),
        &Reach::default(),
    )
    .unwrap_err()
    .to_string();
    assert_eq!(error, "cannot read /no/such\\n: no such file or folder");
}

/// The paths that a scan of a tree finds, given these rules.
fn scanned(rules: &[&str], root: &Path) -> Result<Vec<String>, TransferError> {
    let rules: Vec<Vec<u8>> = rules.iter().map(|rule| rule.as_bytes().to_vec()).collect();
    let filters = Filters::try_from(rules).unwrap();
    let sources = [root.as_os_str().as_bytes().to_vec()];
    let sources = Sources::open(&sources, filters, Keep::default(), &Reach::default())?;
    let mut found = Vec::new();
    sources.scan(&mut |here| {
        found.push(match here {
            Found::Entry(entry) => String::from_utf8(entry.path.as_bytes().to_vec()).unwrap(),
            Found::Special(line) | Found::Unreadable(line) => line,
            Found::Content(_) => unreachable!("it was not asked for"),
        });
        Ok(())
    })?;
    found.sort();
    Ok(found)
}

#[test]
fn what_the_filters_leave_out_is_neither_found_nor_entered() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("out/deep")).unwrap();
    fs::create_dir_all(root.join("in")).unwrap();
    fs::write(root.join("in/a.o"), b"").unwrap();
    fs::write(root.join("in/a.c"), b"").unwrap();
    // It would end the scan, were it read.
    fs::write(root.join("out/deep/.rules"), b"no rule").unwrap();
    rustix::fs::mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let rules = ["- /root/out/", "- *.o", "-! */", "- fifo", ": .rules"];
    assert_eq!(scanned(&rules[..2], &root).unwrap().len(), 4);
    assert_eq!(scanned(&rules, &root).unwrap(), ["", "in"]);
    let contents = root.join(".");
    assert_eq!(
        scanned(&["- /out", "- fifo"], &contents).unwrap(),
        ["", "in", "in/a.c", "in/a.o"]
    );
    assert_eq!(scanned(&["- /root"], &root).unwrap(), [""; 0]);
    let refused = scanned(&[": .rules", "- fifo"], &root)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("out/deep/.rules: filter rule 'no rule'"),
        "{refused}"
    );
}

#[test]
fn a_filter_file_counts_below_its_folder_and_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join(".");
    fs::create_dir_all(root.join("a/b")).unwrap();
    for name in ["x", "a/x", "a/b/x", "a/y", "a/b/y"] {
        fs::write(root.join(name), b"").unwrap();
    }
    fs::write(root.join("a/.rules"), b"# here\n- x\n- /y\n").unwrap();
    let found = scanned(&["- .rules", ": .rules"], &root).unwrap();
    assert_eq!(found, ["", "a", "a/b", "a/b/y", "x"]);
    std::os::unix::fs::symlink("../.rules", root.join("a/b/.rules")).unwrap();
    let refused = scanned(&[": .rules"], &root).unwrap_err().to_string();
    assert!(
        refused.contains("a/b/.rules: it is a symbolic link"),
        "{refused}"
    );
}

#[test]
fn names_in_folders_are_noted_but_for_those_that_the_filters_leave_out() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("src");
    fs::create_dir_all(root.join("sub/empty")).unwrap();
    for name in ["a", "b.o", "sub/c"] {
        fs::write(root.join(name), b"x").unwrap();
    }
    rustix::fs::mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let filters = Filters::try_from(vec![b"- *.o".to_vec()]).unwrap();
    let sources = [root.as_os_str().as_bytes().to_vec()];
    let sources = Sources::open(&sources, filters, Keep::default(), &Reach::default()).unwrap();
    let mut noted = BTreeMap::new();
    let scanned = sources.noting_content(true).scan(&mut |here| {
        if let Found::Content(content) = here {
            assert!(content.complete);
            let mut names = content.names;
            names.sort_unstable();
            noted.insert(content.folder.as_bytes().to_vec(), names);
        }
        Ok(())
    });
    scanned.unwrap();
    let hashes = |names: &[&str]| {
        let mut hashes: Vec<_> = names
            .iter()
            .map(|name| name_hash(name.as_bytes()))
            .collect();
        hashes.sort_unstable();
        hashes
    };
    let expected = [
        ("", hashes(&["a", "fifo", "sub"])),
        ("sub", hashes(&["c", "empty"])),
        ("sub/empty", hashes(&[])),
    ];
    let expected = expected.map(|(folder, names)| (folder.as_bytes().to_vec(), names));
    assert_eq!(noted, BTreeMap::from(expected));
}
