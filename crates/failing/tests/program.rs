//! The program as a bench runs it: what it fails, and how it ends.
//!
//! Needs root. Without it the tests are ignored; in CI they fail.

#[path = "../../cc/tests/privilege/mod.rs"]
mod privilege;

use std::fs::{self, File, FileTimes, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use privilege::tests;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// A folder that the program shows, in a mount namespace of this thread and what it starts.
struct Shown {
    program: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    base: tempfile::TempDir,
}

impl Shown {
    fn new() -> Self {
        // SAFETY: no memory is shared in a new way; only this thread's view of mounts changes.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
        run("mount", &["--make-rprivate", "/"]);
        let base = tempfile::tempdir().unwrap();
        let (kept, mount) = (base.path().join("kept"), base.path().join("mount"));
        fs::create_dir(&kept).unwrap();
        fs::create_dir(&mount).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_howdah-failing"))
            .args([&kept, &mount])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = program.stdin.take();
        let output = BufReader::new(program.stdout.take().unwrap());
        let mut shown = Self {
            program,
            input,
            output,
            base,
        };
        assert_eq!(shown.said(), "mounted");
        shown
    }

    fn said(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Tells it something; how much has failed by then.
    fn tell(&mut self, line: &str) -> u64 {
        writeln!(self.input.as_ref().unwrap(), "{line}").unwrap();
        self.said().parse().unwrap()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        mounts.contains(self.at("mount").to_str().unwrap())
    }

    /// Waits until it has ended by itself; whether it says that all was well.
    fn ended(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = self.program.try_wait().unwrap() {
                return status.success();
            }
            assert!(Instant::now() < deadline, "it still runs");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
        let _ = Command::new("umount").arg(self.at("mount")).output();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {arguments:?}: {said}");
}

fn is_eio<T>(outcome: io::Result<T>) -> bool {
    outcome.is_err_and(|error| error.raw_os_error() == Some(libc::EIO))
}

/// Closes a file as close(2) does, with its error.
fn close(file: File) -> io::Result<()> {
    // SAFETY: nothing else has the descriptor.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Does what a word of the program is for.
fn act(what: &str, mount: &Path) -> io::Result<()> {
    let (one, other) = (mount.join("one"), mount.join("other"));
    let write = || File::options().write(true).open(&one);
    match what {
        "writes" => write()?.write_all(b"new"),
        "flushes" => write()?.sync_data(),
        "closes" => close(write()?),
        "names" => {
            fs::rename(&one, &other)?;
            fs::rename(&other, &one)
        }
        "folders" => {
            fs::create_dir(&other)?;
            fs::remove_dir(&other)
        }
        "attributes" => {
            fs::set_permissions(&one, Permissions::from_mode(0o640))?;
            let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
            File::open(&one)?.set_times(times)
        }
        "reads" => fs::read(&one).map(|_| ()),
        _ => panic!("{what}"),
    }
}

const ALL: [&str; 7] = [
    "writes",
    "flushes",
    "closes",
    "names",
    "folders",
    "attributes",
    "reads",
];

fn what_it_is_told_fails_so_often_or_so_long_and_nothing_else_does() {
    let mut shown = Shown::new();
    let mount = shown.at("mount");
    fs::write(mount.join("one"), b"old").unwrap();
    let mut failed = 0;
    for what in ALL {
        assert_eq!(shown.tell(&format!("{what} once")), failed);
        for other in ALL {
            // Two others close such a file, too.
            let closes = what == "closes" && ["writes", "flushes"].contains(&other);
            if other != what && !closes {
                act(other, &mount).unwrap_or_else(|error| panic!("{other}, not {what}: {error}"));
            }
        }
        assert!(is_eio(act(what, &mount)), "{what}");
        failed += 1;
        act(what, &mount).unwrap_or_else(|error| panic!("{what} failed twice: {error}"));
        let began = Instant::now();
        assert_eq!(shown.tell(&format!("{what} 300")), failed);
        while is_eio(act(what, &mount)) {
            failed += 1;
            thread::sleep(Duration::from_millis(20));
        }
        let lasted = began.elapsed();
        assert!(lasted >= Duration::from_millis(300), "{what}: {lasted:?}");
        assert_eq!(shown.tell(&format!("{what} 60000")), failed);
        assert!(is_eio(act(what, &mount)));
        failed += 1;
        assert_eq!(shown.tell("well"), failed);
        act(what, &mount).unwrap();
    }
    assert!(failed > 3 * ALL.len() as u64);
}

fn it_shows_the_folder_as_it_is() {
    let shown = Shown::new();
    let (kept, mount) = (shown.at("kept"), shown.at("mount"));
    fs::write(mount.join("one"), b"content").unwrap();
    fs::hard_link(mount.join("one"), mount.join("same")).unwrap();
    symlink("one", mount.join("link")).unwrap();
    fs::create_dir(mount.join("folder")).unwrap();
    let one = mount.join("one");
    setxattr(&one, "user.told", b"this", XattrFlags::CREATE).unwrap();
    let mut value = [0; 8];
    assert_eq!(getxattr(kept.join("one"), "user.told", &mut value), Ok(4));
    assert_eq!(&value[..4], b"this");
    fs::set_permissions(&one, Permissions::from_mode(0o4751)).unwrap();
    run("chown", &["7:8", one.to_str().unwrap()]);
    fs::set_permissions(&one, Permissions::from_mode(0o4751)).unwrap();
    run(
        "touch",
        &[
            "-hd",
            "1960-01-01T00:00:00Z",
            mount.join("link").to_str().unwrap(),
        ],
    );
    run(
        "mkfifo",
        &["-m", "622", mount.join("fifo").to_str().unwrap()],
    );
    let names = |root: &Path| -> Vec<_> {
        let entries = fs::read_dir(root).unwrap();
        let mut found: Vec<_> = entries
            .map(|entry| {
                let entry = entry.unwrap();
                let status = entry.metadata().unwrap();
                let owner = (status.uid(), status.gid());
                let time = (status.mtime(), status.mtime_nsec());
                let links = status.nlink();
                (entry.file_name(), status.mode(), owner, time, links)
            })
            .collect();
        found.sort();
        found
    };
    assert_eq!(names(&mount), names(&kept));
    assert_eq!(names(&kept).len(), 5);
    let status = fs::metadata(&one).unwrap();
    assert_eq!(status.mode() & 0o7777, 0o4751);
    assert_eq!((status.uid(), status.gid(), status.nlink()), (7, 8, 2));
    let same = fs::metadata(mount.join("same")).unwrap();
    assert_eq!(same.ino(), status.ino());
    let link = fs::symlink_metadata(mount.join("link")).unwrap();
    assert_eq!((link.mtime(), link.mtime_nsec()), (-315_619_200, 0));
    // A file that has lost its names is there while it is open.
    let open = File::open(&one).unwrap();
    fs::remove_file(&one).unwrap();
    fs::remove_file(mount.join("same")).unwrap();
    assert_eq!(io::read_to_string(&open).unwrap(), "content");
    assert_eq!(open.metadata().unwrap().nlink(), 0);
}

fn it_ends_when_it_is_unmounted() {
    let mut shown = Shown::new();
    run("umount", &[shown.at("mount").to_str().unwrap()]);
    assert!(shown.ended());
    assert!(!shown.is_mounted());
}

fn it_unmounts_and_ends_when_its_input_ends() {
    let mut shown = Shown::new();
    assert!(shown.is_mounted());
    drop(shown.input.take());
    assert!(shown.ended());
    assert!(!shown.is_mounted());
}

fn what_it_leaves_when_it_is_killed_can_be_unmounted() {
    let mut shown = Shown::new();
    shown.program.kill().unwrap();
    assert!(!shown.ended());
    let dead = fs::read_dir(shown.at("mount")).err().unwrap();
    assert_eq!(dead.raw_os_error(), Some(libc::ENOTCONN), "{dead}");
    run("umount", &[shown.at("mount").to_str().unwrap()]);
    assert!(!shown.is_mounted());
}

fn main() -> ExitCode {
    let needing = tests![
        what_it_is_told_fails_so_often_or_so_long_and_nothing_else_does,
        it_shows_the_folder_as_it_is,
        it_ends_when_it_is_unmounted,
        it_unmounts_and_ends_when_its_input_ends,
        what_it_leaves_when_it_is_killed_can_be_unmounted,
    ];
    privilege::run([(privilege::missing_root(), needing)])
}
