//! A target whose disk is full.

use std::fs::{self, File};
use std::io::Write;

use serde_json::json;

use super::ends::{Ends, content, job, listing};
use super::{Disk, run};

/// More than is noted of them in memory at a time.
const NAMES: usize = 6000;

pub fn what_the_source_has_not_goes_from_a_disk_that_is_full() {
    for direction in ["push", "pull"] {
        let disk = Disk::new();
        disk.mount(&["-t", "tmpfs", "-o", "size=4m,nr_inodes=20k", "tmpfs"]);
        let (source, target) = (disk.base.path().join("src"), disk.root().join("dst"));
        fs::create_dir_all(source.join("sub")).unwrap();
        for name in ["a", "sub/b"] {
            fs::write(source.join(name), content(1000)).unwrap();
        }
        run(
            "cp",
            &["-a", source.to_str().unwrap(), target.to_str().unwrap()],
        );
        let long = "x".repeat(200);
        for number in 0..NAMES {
            let folder = ["", "sub/"][number % 2];
            File::create(target.join(format!("{folder}{long} {number}"))).unwrap();
        }
        let mut filler = File::create(disk.root().join("filler")).unwrap();
        let full = std::iter::repeat_with(|| filler.write_all(&[1; 4096])).find_map(Result::err);
        let is_full = |error: std::io::Error| error.raw_os_error() == Some(libc::ENOSPC);
        assert!(is_full(full.unwrap()));

        let mut asked = job(direction, &[&source.join(".")], &target);
        asked["delete"] = json!(true);
        let outcome = Ends::run(&asked).unwrap();
        let gone = json!({"extraneous": NAMES, "removed": NAMES, "failed": 0, "held": null});
        assert_eq!(outcome["removal"], gone, "{direction}");
        assert_eq!(outcome["warnings"], json!([]), "{direction}");
        assert_eq!(listing(&target), listing(&source), "{direction}");
        // Nothing that went had made room.
        assert!(is_full(filler.write_all(&[1; 4096]).unwrap_err()));
    }
}
