use super::*;
use crate::tree::reach::Reach;
use howdah_filter::Filters;
use howdah_wire::Keep;
use std::fs;
use std::path::Path;

/// What a scan of several sources sends: the source of each, and its path below that source.
fn sent(base: &Path, sources: &[&str]) -> Vec<String> {
    let paths: Vec<_> = sources
        .iter()
        .map(|source| format!("{}/{source}", base.display()).into_bytes())
        .collect();
    let opened = Sources::open(
        &paths,
        Filters::default(),
        Keep::default(),
        &Reach::default(),
    );
    let mut sent = Vec::new();
    let scanned = opened.unwrap().scan(&mut |found| {
        if let Found::Entry(entry) = found {
            let path = String::from_utf8(entry.path.as_bytes().to_vec()).unwrap();
            sent.push(format!("{}:{path}", sources[usize::from(entry.source)]));
        }
        Ok(())
    });
    scanned.unwrap();
    sent.sort();
    sent
}

#[test]
fn each_path_is_sent_once_from_the_first_source_that_has_it() {
    let base = tempfile::tempdir().unwrap();
    for name in [
        "a/f", "a/sub/f", "a/sub/a", "b/f", "b/sub/f", "b/sub/b", "c/sub/c", "c/c",
    ] {
        let path = base.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"").unwrap();
    }
    for (sources, expected) in [
        (
            vec!["a/.", "b/."],
            vec![
                "a/.:",
                "a/.:f",
                "a/.:sub",
                "a/.:sub/a",
                "a/.:sub/f",
                "b/.:sub/b",
            ],
        ),
        (
            vec!["b/f", "a/sub", "b/.", "c"],
            vec![
                "a/sub:",
                "a/sub:a",
                "a/sub:f",
                "b/.:",
                "b/.:sub/b",
                "b/f:",
                "c:",
                "c:c",
                "c:sub",
                "c:sub/c",
            ],
        ),
        (
            vec!["c/.", "a/sub", "b/sub/f"],
            vec![
                "a/sub:a",
                "a/sub:f",
                "b/sub/f:",
                "c/.:",
                "c/.:c",
                "c/.:sub",
                "c/.:sub/c",
            ],
        ),
        (
            vec!["a", "b/."],
            vec![
                "a:",
                "a:f",
                "a:sub",
                "a:sub/a",
                "a:sub/f",
                "b/.:",
                "b/.:f",
                "b/.:sub",
                "b/.:sub/b",
                "b/.:sub/f",
            ],
        ),
    ] {
        assert_eq!(sent(base.path(), &sources), expected, "{sources:?}");
    }
}

#[test]
fn only_sources_that_land_in_the_same_place_are_looked_at_again() {
    let overlapping = |names: &[&str]| -> Vec<bool> {
        let landings = Landings::of(names.iter().map(|name| name.as_bytes()));
        (0u16..)
            .take(names.len())
            .map(|source| landings.overlaps(source))
            .collect()
    };
    assert_eq!(overlapping(&[""]), [false]);
    assert_eq!(overlapping(&["a", "b", "c"]), [false, false, false]);
    assert_eq!(overlapping(&["a", "", "b", ""]), [false, true, true, true]);
    assert_eq!(overlapping(&["", "a"]), [false, true]);
}
