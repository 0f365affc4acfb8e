//! A machine that is started again after a power cut, and what the cut leaves on its disk.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::recorder::Event;
use super::{make_ext4, run};

pub const DISK_BYTES: u64 = 64 << 20;

/// The disk after a power cut: what was stable, and what `kept` says of the sectors that were not.
pub fn left_by(stable: &[u8], unflushed: &[Event], mut kept: impl FnMut() -> bool) -> Vec<u8> {
    let mut image = stable.to_vec();
    for event in unflushed {
        if let Event::Write(offset, sector) = event
            && kept()
        {
            image[*offset..offset + sector.len()].copy_from_slice(sector);
        }
    }
    image
}

/// A machine that is started again after power cuts. Its disk is in memory, because each start writes much of it.
pub struct Machine {
    memory: PathBuf,
    disk: File,
}

impl Machine {
    pub fn new(base: &Path) -> Self {
        let memory = base.join("memory");
        fs::create_dir(&memory).unwrap();
        run("mount", &["-t", "tmpfs", "tmpfs", memory.to_str().unwrap()]);
        let image = memory.join("image");
        make_ext4(&image, DISK_BYTES);
        let disk = File::options().write(true).open(&image).unwrap();
        let machine = Self { memory, disk };
        fs::create_dir(machine.root()).unwrap();
        machine
    }

    pub fn image(&self) -> PathBuf {
        self.memory.join("image")
    }

    fn root(&self) -> PathBuf {
        self.memory.join("disk")
    }

    /// Starts it with what a cut has left, and lets `look` see its file system.
    pub fn started<T>(&self, left: &[u8], look: impl FnOnce(&Path) -> T) -> T {
        let (image, root) = (self.image(), self.root());
        self.disk.write_all_at(left, 0).unwrap();
        let paths = [image.to_str().unwrap(), root.to_str().unwrap()];
        run("mount", &["-o", "loop", paths[0], paths[1]]);
        let seen = look(&root);
        run("umount", &[paths[1]]);
        seen
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.memory).output();
    }
}
