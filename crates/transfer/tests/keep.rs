//! What is kept of files beside names, contents, times and modes, both ways.

#[allow(dead_code, reason = "other tests need the rest of it")]
mod ends;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use ends::{Ends, content, job};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

fn keeping(direction: &str, source: &Path, target: &Path, keep: Value) -> Value {
    let mut job = job(direction, &[&source.join(".")], target);
    job["destination_is_folder"] = json!(true);
    job["keep"] = keep;
    job
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn names_of_one_file_stay_names_of_one_file() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir_all(source.join("sub")).unwrap();
        fs::write(source.join("one"), content(3 * MIB)).unwrap();
        for name in ["two", "sub/three"] {
            fs::hard_link(source.join("one"), source.join(name)).unwrap();
        }
        fs::write(source.join("small"), b"small").unwrap();
        fs::hard_link(source.join("small"), source.join("sub/small")).unwrap();
        fs::hard_link(source.join("small"), base.path().join("elsewhere")).unwrap();
        fs::write(source.join("alone"), b"small").unwrap();

        let job = keeping(direction, &source, &target, json!({"hard_links": true}));
        let outcome = Ends::run(&job).unwrap();
        let counts = (&outcome["files"], &outcome["links"], &outcome["bytes"]);
        assert_eq!(counts, (&json!(3), &json!(3), &json!(3 * MIB + 10)));
        let linked = || {
            let at = |name: &str| inode(&target.join(name));
            assert_eq!((at("one"), at("one")), (at("two"), at("sub/three")));
            assert_eq!(at("small"), at("sub/small"));
            assert_eq!(ends::listing(&target), ends::listing(&source));
            assert_eq!(fs::metadata(target.join("one")).unwrap().nlink(), 3);
        };
        linked();

        let before = inode(&target.join("one"));
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["files_skipped"], 3);
        assert_eq!(inode(&target.join("one")), before);
        // A name that is a file of its own becomes a name of the other again.
        fs::remove_file(target.join("two")).unwrap();
        fs::copy(source.join("two"), target.join("two")).unwrap();
        fs::remove_file(target.join("sub/small")).unwrap();
        Ends::run(&job).unwrap();
        linked();

        let apart = base.path().join("apart");
        Ends::run(&keeping(direction, &source, &apart, json!({}))).unwrap();
        assert_ne!(inode(&apart.join("one")), inode(&apart.join("two")));
    }
}

#[test]
fn runs_of_zeros_become_holes() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir(&source).unwrap();
        let holed = File::create(source.join("holed")).unwrap();
        holed.write_all_at(b"begin", 0).unwrap();
        holed.write_all_at(&content(MIB), 9 * MIB as u64).unwrap();
        holed.set_len(33 * MIB as u64 + 17).unwrap();
        fs::write(source.join("zeros"), vec![0; 200_000]).unwrap();
        fs::write(source.join("data"), content(300_000)).unwrap();

        Ends::run(&keeping(
            direction,
            &source,
            &target,
            json!({"sparse": true}),
        ))
        .unwrap();
        assert_eq!(ends::listing(&target), ends::listing(&source));
        let kept_bytes = |name: &str| fs::metadata(target.join(name)).unwrap().blocks() * 512;
        assert!(
            kept_bytes("holed") < 2 * MIB as u64,
            "{}",
            kept_bytes("holed")
        );
        assert_eq!(kept_bytes("zeros"), 0);
        assert!(kept_bytes("data") >= 300_000);
    }
}
