//! What a confined process cannot do, tried by one: each case is this program again, in a process of its own
//! that confines itself, tries, and prints what came of it.
//!
//! Cases of landlock need a kernel that has it. Without it the tests are ignored; in CI they fail.

#[path = "../../../cc/tests/privilege/mod.rs"]
mod privilege;

use std::collections::BTreeMap;
use std::env;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::mpsc;
use std::thread;

use howdah_confine::{Reaches, Rights, Standing, harden, only_beneath};
use privilege::tests;

/// Says which case a process is to try.
const CASE: &str = "HOWDAH_CONFINED_CASE";
const FOLDER: &str = "HOWDAH_CONFINED_FOLDER";
const SECRET: &[u8] = b"secret";

/// Folders `inside` and `outside`, with a file in each, and links from the one to the other.
struct World {
    base: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let world = Self { base };
        for name in ["inside", "outside"] {
            fs::create_dir(world.path(name)).unwrap();
            fs::write(world.path(name).join("file"), SECRET).unwrap();
        }
        symlink("../outside", world.path("inside/relative")).unwrap();
        symlink(world.path("outside"), world.path("inside/absolute")).unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// Has a process try a case; what came of each thing it tried, by name.
    fn tried(&self, case: &str) -> BTreeMap<String, String> {
        let done = self.run(case);
        let said = String::from_utf8(done.stdout).unwrap();
        let failure = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{:?} {said}{failure}", done.status);
        let lines = said.lines().map(|line| line.split_once(": ").unwrap());
        lines
            .map(|(what, came)| (what.to_owned(), came.to_owned()))
            .collect()
    }

    fn run(&self, case: &str) -> Output {
        let mut command = Command::new(env::current_exe().unwrap());
        command.env(CASE, case).env(FOLDER, self.base.path());
        command.output().unwrap()
    }
}

fn all(names: &[&str], came: &str) -> BTreeMap<String, String> {
    let each = names.iter();
    each.map(|name| ((*name).to_owned(), came.to_owned()))
        .collect()
}

/// Prints what came of something that was tried.
fn say<T>(what: &str, came: io::Result<T>) {
    match came {
        Ok(_) => println!("{what}: done"),
        Err(error) => println!("{what}: {}", errno(&error)),
    }
}

fn errno(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => "EPERM".to_owned(),
        Some(libc::EACCES) => "EACCES".to_owned(),
        Some(libc::EXDEV) => "EXDEV".to_owned(),
        Some(libc::ENOSYS) => "ENOSYS".to_owned(),
        _ => error.to_string(),
    }
}

/// A system call that changes nothing here even where it is allowed.
fn call(number: libc::c_long, arguments: [usize; 3]) -> io::Result<()> {
    let [one, two, three] = arguments;
    // SAFETY: the arguments are numbers that the kernel refuses, or null pointers, for all calls here.
    match unsafe { libc::syscall(number, one, two, three, 0usize, 0usize) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn a_hardened_process_starts_no_program_and_still_starts_threads() {
    let came = World::new().tried("programs");
    let denied = all(
        &["program", "program, thread of before", "fork", "vfork"],
        "EPERM",
    );
    let done = all(&["thread"], "done");
    assert_eq!(came, denied.into_iter().chain(done).collect());
}

fn try_programs() {
    let (go, gone) = mpsc::channel::<()>();
    let before = thread::spawn(move || {
        gone.recv().unwrap();
        Command::new("/bin/true").status()
    });
    assert_eq!(harden(Reaches::OneFolder).unwrap(), Standing::Enforced);
    say("program", Command::new("/bin/true").status());
    go.send(()).unwrap();
    say("program, thread of before", before.join().unwrap());
    let thread = thread::Builder::new().spawn(|| ());
    say(
        "thread",
        thread.and_then(|thread| thread.join().map_err(|_| io::Error::other("panic"))),
    );
    // SAFETY: where the calls are not denied, the child ends at once and touches nothing.
    let fork = unsafe { libc::fork() };
    if fork == 0 {
        // SAFETY: it runs no destructor and no handler.
        unsafe { libc::_exit(0) };
    }
    say("fork", checked(fork.into()));
    #[cfg(target_arch = "x86_64")]
    say("vfork", call(libc::SYS_fork, [0; 3]));
    #[cfg(not(target_arch = "x86_64"))]
    say("vfork", call(libc::SYS_clone, [0; 3]));
}

fn checked(returned: i64) -> io::Result<()> {
    match returned {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

const CALLS: [(&str, libc::c_long, [usize; 3]); 18] = [
    ("ptrace", libc::SYS_ptrace, [usize::MAX, 0, 0]),
    ("process_vm_readv", libc::SYS_process_vm_readv, [0; 3]),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, [usize::MAX, 0, 0]),
    ("mount", libc::SYS_mount, [0; 3]),
    ("fsopen", libc::SYS_fsopen, [0; 3]),
    ("chroot", libc::SYS_chroot, [0; 3]),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, [0; 3]),
    // CLONE_NEWNS, CLONE_NEWUSER.
    ("unshare", libc::SYS_unshare, [0x1000_0000, 0, 0]),
    ("setns", libc::SYS_setns, [usize::MAX, 0, 0]),
    ("bpf", libc::SYS_bpf, [usize::MAX, 0, 0]),
    ("io_uring_setup", libc::SYS_io_uring_setup, [0; 3]),
    ("init_module", libc::SYS_init_module, [0; 3]),
    ("kexec_load", libc::SYS_kexec_load, [0, 0, 0]),
    ("keyctl", libc::SYS_keyctl, [usize::MAX, 0, 0]),
    ("perf_event_open", libc::SYS_perf_event_open, [0; 3]),
    ("mknodat", libc::SYS_mknodat, [usize::MAX, 0, 0]),
    ("setxattr", libc::SYS_setxattr, [0; 3]),
    ("removexattr", libc::SYS_removexattr, [0; 3]),
];

fn a_hardened_process_makes_no_call_that_a_data_mover_never_makes() {
    let came = World::new().tried("calls");
    let names: Vec<_> = CALLS.iter().map(|(name, ..)| *name).collect();
    let mut expected = all(&names, "EPERM");
    expected.insert("clone3".to_owned(), "ENOSYS".to_owned());
    if cfg!(target_arch = "x86_64") {
        expected.insert("execve of x32".to_owned(), "EPERM".to_owned());
    }
    assert_eq!(came, expected);
}

fn try_calls() {
    harden(Reaches::OneFolder).unwrap();
    for (name, number, arguments) in CALLS {
        say(name, call(number, arguments));
    }
    say("clone3", call(libc::SYS_clone3, [0; 3]));
    if cfg!(target_arch = "x86_64") {
        // Its number in arch/x86/entry/syscalls/syscall_64.tbl.
        say("execve of x32", call(0x4000_0000 | 520, [0; 3]));
    }
}

fn modes_change_by_open_files_alone() {
    let world = World::new();
    let came = world.tried("modes");
    let mut expected = all(&["path", "path, followed"], "EPERM");
    expected.insert("open file".to_owned(), "done".to_owned());
    assert_eq!(came, expected);
    let mode = fs::metadata(world.path("inside/file"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
}

fn try_modes(base: &Path) {
    let file = File::open(base.join("inside/file")).unwrap();
    harden(Reaches::OneFolder).unwrap();
    let mode = |bits| fs::Permissions::from_mode(bits);
    say("open file", file.set_permissions(mode(0o640)));
    say(
        "path",
        fs::set_permissions(base.join("inside/file"), mode(0o666)),
    );
    let path = CString::new(
        base.join("inside/file")
            .into_os_string()
            .into_encoded_bytes(),
    );
    let path = path.unwrap();
    // SAFETY: the path ends with a null byte and outlives the call.
    let changed = unsafe { libc::fchmodat(libc::AT_FDCWD, path.as_ptr(), 0o666, 0) };
    say("path, followed", checked(changed.into()));
}

fn who_reaches_all_files_changes_them_by_name_and_makes_special_files() {
    let came = World::new().tried("names");
    let mut expected = all(
        &["mode", "owner", "FIFO", "attribute", "no attribute"],
        "done",
    );
    expected.insert("attribute, not followed".to_owned(), "EPERM".to_owned());
    assert_eq!(came, expected);
}

fn try_names(base: &Path) {
    harden(Reaches::AllFiles).unwrap();
    let name =
        |name: &str| CString::new(base.join(name).into_os_string().into_encoded_bytes()).unwrap();
    let (file, fifo) = (name("inside/file"), name("inside/fifo"));
    // SAFETY: the paths end with a null byte and outlive the calls.
    unsafe {
        let (here, own) = (libc::AT_FDCWD, libc::geteuid());
        let mode = libc::fchmodat(here, file.as_ptr(), 0o600, 0);
        say("mode", checked(mode.into()));
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        let owner = libc::fchownat(here, file.as_ptr(), own, libc::getegid(), flags);
        say("owner", checked(owner.into()));
        let made = libc::mknodat(here, fifo.as_ptr(), libc::S_IFIFO | 0o600, 0);
        say("FIFO", checked(made.into()));
        let value = [1_u8];
        let (attribute, value) = (c"user.x".as_ptr(), value.as_ptr().cast());
        let set = libc::setxattr(file.as_ptr(), attribute, value, 1, 0);
        say("attribute", checked(set.into()));
        let set = libc::lsetxattr(file.as_ptr(), attribute, value, 1, 0);
        say("attribute, not followed", checked(set.into()));
        let removed = libc::removexattr(file.as_ptr(), attribute);
        say("no attribute", checked(removed.into()));
    }
}

fn a_hardened_process_leaves_no_core_and_shows_its_memory_to_nobody() {
    let world = World::new();
    let died = world.run("abort");
    assert_eq!(died.status.signal(), Some(libc::SIGABRT));
    assert!(!died.status.core_dumped());
    assert_eq!(
        String::from_utf8(died.stdout).unwrap(),
        "core limit: Some(0) Some(0)\ndumpable: 0\nNoNewPrivs: 1\nSeccomp: 2\nown descriptors: done\n"
    );
}

fn try_abort() {
    harden(Reaches::OneFolder).unwrap();
    let core = rustix::process::getrlimit(rustix::process::Resource::Core);
    println!("core limit: {:?} {:?}", core.current, core.maximum);
    // SAFETY: it takes no pointer.
    println!("dumpable: {}", unsafe {
        libc::prctl(libc::PR_GET_DUMPABLE)
    });
    let status = fs::read_to_string("/proc/self/status").unwrap();
    for key in ["NoNewPrivs", "Seccomp"] {
        let line = status
            .lines()
            .find(|line| line.starts_with(&format!("{key}:")));
        println!(
            "{key}: {}",
            line.unwrap().split_whitespace().nth(1).unwrap()
        );
    }
    say("own descriptors", fs::read_link("/proc/self/fd/0"));
    io::stdout().flush().unwrap();
    std::process::abort();
}

fn nothing_outside_the_folder_is_reached() {
    let world = World::new();
    let came = world.tried("reading");
    let mut expected = all(
        &[
            "file outside",
            "through ..",
            "through a relative link",
            "through an absolute link",
            "link planted later",
            "folder outside",
            "write inside",
            "name inside",
            "folder inside",
            "removal inside",
            "name outside",
            "file of another process",
            "own memory",
            "connection",
            "port",
        ],
        "EACCES",
    );
    expected.extend(all(
        &[
            "file inside",
            "list inside",
            "own status",
            "names of controls",
            "accept",
        ],
        "done",
    ));
    assert_eq!(came, expected);
    assert_eq!(fs::read(world.path("outside/file")).unwrap(), SECRET);
}

fn try_reading(base: &Path) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let waiting = TcpStream::connect(address).unwrap();
    symlink("../outside/file", base.join("inside/later")).unwrap();
    let inside: OwnedFd = File::open(base.join("inside")).unwrap().into();
    let landlock = only_beneath(&inside, Rights::Read).unwrap();
    assert!(landlock.whole, "{landlock:?}");
    let read = |path: &str| fs::read(base.join(path));
    say("file inside", read("inside/file"));
    say("list inside", fs::read_dir(base.join("inside")));
    say("file outside", read("outside/file"));
    say("through ..", read("inside/../outside/file"));
    say("through a relative link", read("inside/relative/file"));
    say("through an absolute link", read("inside/absolute/file"));
    say("link planted later", read("inside/later"));
    say("folder outside", fs::read_dir(base.join("outside")));
    let open = File::options().write(true).open(base.join("inside/file"));
    say("write inside", open);
    say("name inside", fs::write(base.join("inside/new"), b""));
    say("folder inside", fs::create_dir(base.join("inside/new")));
    say("removal inside", fs::remove_file(base.join("inside/file")));
    say("name outside", fs::write(base.join("outside/new"), b""));
    say("file of another process", fs::read("/proc/1/status"));
    say("own memory", File::open("/proc/self/mem"));
    say("own status", fs::read("/proc/self/status"));
    let names = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    say("names of controls", fs::read(names));
    say("connection", TcpStream::connect(address));
    say("port", TcpListener::bind("127.0.0.1:0"));
    say("accept", listener.accept());
    drop(waiting);
}

fn a_receiver_does_its_work_in_the_folder_and_nothing_outside() {
    let world = World::new();
    let came = world.tried("writing");
    let mut expected = all(
        &[
            "write outside",
            "truncation outside",
            "name outside",
            "through a link",
            "removal outside",
            "move out",
            "hard link out",
            "program",
            "FIFO",
        ],
        "EACCES",
    );
    expected.extend(all(&["hard link in"], "EXDEV"));
    expected.extend(all(
        &[
            "unnamed file",
            "its name",
            "move",
            "folder",
            "link",
            "removal",
        ],
        "done",
    ));
    assert_eq!(came, expected);
    let outside: Vec<_> = fs::read_dir(world.path("outside")).unwrap().collect();
    assert_eq!(outside.len(), 1);
    assert_eq!(fs::read(world.path("outside/file")).unwrap(), SECRET);
}

fn try_writing(base: &Path) {
    use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

    fs::copy("/bin/true", base.join("inside/program")).unwrap();
    let inside: OwnedFd = File::open(base.join("inside")).unwrap().into();
    let landlock = only_beneath(&inside, Rights::ReadAndWrite).unwrap();
    assert!(landlock.whole, "{landlock:?}");
    let flags = OFlags::TMPFILE | OFlags::WRONLY;
    let file = rustix::fs::openat(&inside, ".", flags, Mode::RUSR);
    let unnamed = file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    let path = format!("/proc/self/fd/{unnamed}");
    let named = rustix::fs::linkat(CWD, path, &inside, "new", AtFlags::SYMLINK_FOLLOW);
    say("unnamed file", file.map_err(Into::into));
    say("its name", named.map_err(Into::into));
    say("folder", fs::create_dir(base.join("inside/folder")));
    let (new, moved) = (base.join("inside/new"), base.join("inside/folder/new"));
    say("move", fs::rename(new, &moved));
    say("link", symlink("x", base.join("inside/link")));
    say("removal", fs::remove_file(&moved));
    let (file, outside) = (base.join("inside/file"), base.join("outside/file"));
    say("write outside", File::options().write(true).open(&outside));
    say(
        "truncation outside",
        File::options().write(true).truncate(true).open(&outside),
    );
    say("name outside", fs::write(base.join("outside/new"), b""));
    say(
        "through a link",
        fs::write(base.join("inside/relative/new"), b""),
    );
    say("removal outside", fs::remove_file(&outside));
    say("move out", fs::rename(&file, base.join("outside/moved")));
    say(
        "hard link in",
        fs::hard_link(&outside, base.join("inside/hard")),
    );
    say(
        "hard link out",
        fs::hard_link(&file, base.join("outside/hard")),
    );
    say(
        "program",
        Command::new(base.join("inside/program")).status(),
    );
    let fifo = rustix::fs::mknodat(&inside, "fifo", FileType::Fifo, Mode::RUSR, 0);
    say("FIFO", fifo.map_err(Into::into));
}

fn a_process_with_threads_is_not_confined_by_half() {
    let came = World::new().tried("threads");
    let refused = came["refused"].as_str();
    assert!(refused.contains("2 threads run already"), "{refused}");
}

fn try_threads(base: &Path) {
    let (go, gone) = mpsc::channel::<()>();
    let other = thread::spawn(move || gone.recv());
    let inside = File::open(base.join("inside")).unwrap();
    let refused = only_beneath(&inside, Rights::Read).unwrap_err();
    println!("refused: {refused}");
    go.send(()).unwrap();
    other.join().unwrap().unwrap();
}

/// Why landlock cannot be tested here.
fn missing() -> Option<String> {
    const VERSION: usize = 1;
    let asked = call(libc::SYS_landlock_create_ruleset, [0, 0, VERSION]);
    asked
        .err()
        .map(|error| format!("the kernel has no landlock ({})", errno(&error)))
}

fn main() -> ExitCode {
    if let Ok(case) = env::var(CASE) {
        let base = PathBuf::from(env::var_os(FOLDER).unwrap());
        match case.as_str() {
            "programs" => try_programs(),
            "calls" => try_calls(),
            "modes" => try_modes(&base),
            "names" => try_names(&base),
            "abort" => try_abort(),
            "reading" => try_reading(&base),
            "writing" => try_writing(&base),
            _ => try_threads(&base),
        }
        return ExitCode::SUCCESS;
    }
    let needing = tests![
        nothing_outside_the_folder_is_reached,
        a_receiver_does_its_work_in_the_folder_and_nothing_outside,
    ];
    let others = tests![
        a_hardened_process_starts_no_program_and_still_starts_threads,
        a_hardened_process_makes_no_call_that_a_data_mover_never_makes,
        modes_change_by_open_files_alone,
        who_reaches_all_files_changes_them_by_name_and_makes_special_files,
        a_hardened_process_leaves_no_core_and_shows_its_memory_to_nobody,
        a_process_with_threads_is_not_confined_by_half,
    ];
    privilege::run([(missing(), needing), (None, others)])
}
