use super::*;
use crate::tree::reach::Reach;
use howdah_filter::Filters;
use howdah_wire::Keep;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

/// What a scan finds of these names, in its order.
fn found(root: &Path, rules: &[&str], names: &[(&str, bool)]) -> Vec<String> {
    let rules = rules.iter().map(|rule| rule.as_bytes().to_vec());
    let filters = Filters::try_from(rules.collect::<Vec<_>>()).unwrap();
    let source = [root.join(".").as_os_str().as_bytes().to_vec()];
    let sources = Sources::open(&source, filters, Keep::default(), &Reach::default()).unwrap();
    let named = |&(path, content): &(&str, bool)| Named {
        path: TreePath::try_from(path.as_bytes().to_vec()).unwrap(),
        content,
    };
    let mut messages = names.chunks(2).map(|some| some.iter().map(named).collect());
    let mut found = Vec::new();
    let mut take = |here| {
        found.push(match here {
            Found::Entry(entry) => String::from_utf8(entry.path.as_bytes().to_vec()).unwrap(),
            Found::Special(line) | Found::Unreadable(line) => {
                line.replace(&root.display().to_string(), "")
            }
            Found::Content(_) => unreachable!("it was not asked for"),
        });
        Ok(())
    };
    sources
        .scan_names(&mut || Ok(messages.next()), &mut take)
        .unwrap();
    found
}

fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    for name in ["m", "a/f", "a/b/g", "a/b/c/h"] {
        fs::write(root.join(name), b"").unwrap();
    }
    symlink("a", root.join("link")).unwrap();
    folder
}

#[test]
fn names_come_with_the_folders_that_they_are_in_and_each_once() {
    let tree = tree();
    let names = [
        ("a/b/g", false),
        ("m", false),
        ("a/f", false),
        ("m", false),
        ("a/b", false),
        ("link", false),
    ];
    assert_eq!(
        found(tree.path(), &[], &names),
        ["a", "a/b", "a/b/g", "m", "a/f", "link"]
    );
}

#[test]
fn a_folder_is_sent_without_what_is_in_it_unless_that_is_meant() {
    let tree = tree();
    assert_eq!(found(tree.path(), &[], &[("a/b", false)]), ["a", "a/b"]);
    let mut inside = found(tree.path(), &["- g"], &[("a/b", true), ("a/b/c", false)]);
    inside.sort();
    assert_eq!(inside, ["a", "a/b", "a/b/c"]);
    let mut all = found(tree.path(), &[], &[("", true)]);
    all.sort();
    assert_eq!(all, ["", "a", "link", "m"]);
    assert_eq!(found(tree.path(), &[], &[("m", true)]), ["m"]);
    assert_eq!(
        found(tree.path(), &[], &[("m", false), ("", false)]),
        ["m", ""]
    );
}

#[test]
fn filters_are_of_the_name_itself_and_not_of_the_folders_it_is_in() {
    let tree = tree();
    let names = [("a/b/g", false), ("a/b", false), ("m", false)];
    assert_eq!(
        found(tree.path(), &["- /a/b", "- m"], &names),
        ["a", "a/b", "a/b/g"]
    );
    assert!(found(tree.path(), &["- *"], &names).is_empty());
}

#[test]
fn what_is_not_there_or_behind_a_link_is_named() {
    let tree = tree();
    assert_eq!(
        found(
            tree.path(),
            &[],
            &[("none", false), ("no/g", false), ("m", false)]
        ),
        [
            "cannot read /./none: no such file or folder",
            "cannot read folder /./no: no such file or folder",
            "m"
        ]
    );
    let behind = found(tree.path(), &[], &[("link/f", false), ("a/f/x", false)]);
    assert_eq!(behind.len(), 2, "{behind:?}");
    assert!(
        behind[0].contains("/./link") && behind[1].contains("/./a/f"),
        "{behind:?}"
    );
}
