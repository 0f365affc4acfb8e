//! Denies, by seccomp (seccomp(2)), the system calls that a data mover never makes.
//!
//! The list is of denied calls and not of allowed ones. The process runs an interpreter, a C library and a
//! cryptographic library of the host, which make new calls with each release, and a call missing from the list would
//! end copies. A denied call fails with EPERM, and the process continues.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};

use crate::{Error, Reaches, Standing};

/// Calls that are denied whatever their arguments are.
const DENIED: &[c_long] = &[
    // Other programs, and the memory of other processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Other views of the file system, and ways to a file without its path.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_by_handle_at,
    libc::SYS_unshare,
    libc::SYS_setns,
    // Attributes by path, which landlock does not control, in the forms that no data mover needs.
    libc::SYS_lsetxattr,
    SETXATTRAT,
    libc::SYS_lremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // What all programs of the host share.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_personality,
];

/// Owners, modes and attributes by path, which landlock does not control either, and files that are no data. Who reaches all files
/// of its user makes these calls for symbolic links and special files, which cannot be opened.
const DENIED_IN_A_FOLDER: &[c_long] = &[
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_mknodat,
    libc::SYS_setxattr,
    libc::SYS_removexattr,
];

/// The older forms of these that this architecture has as well.
#[cfg(target_arch = "x86_64")]
const DENIED_OLDER: &[c_long] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_mknod,
    libc::SYS_uselib,
    libc::SYS__sysctl,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_modify_ldt,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_OLDER: &[c_long] = &[];

// Numbers above 424 are the same on all architectures (include/uapi/asm-generic/unistd.h).
const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const OPEN_TREE_ATTR: c_long = 467;
const FILE_SETATTR: c_long = 469;

/// Denies these calls to all threads of this process; [`Standing::NotOffered`] if the kernel or the architecture does
/// not support that.
pub fn deny(reaches: Reaches) -> Result<Standing, Error> {
    let Ok(architecture) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(Standing::NotOffered);
    };
    for program in programs(architecture, reaches)? {
        match apply_filter_all_threads(&program) {
            // The kernel was built without filters, or a sandbox around this process takes none.
            Err(seccompiler::Error::Seccomp(_)) => return Ok(Standing::NotOffered),
            other => other?,
        }
    }
    Ok(Standing::Enforced)
}

/// The filters. The kernel asks all of them and takes the strictest answer.
fn programs(architecture: TargetArch, reaches: Reaches) -> Result<Vec<BpfProgram>, Error> {
    let in_a_folder = match reaches {
        Reaches::AllFiles => &[],
        Reaches::OneFolder => DENIED_IN_A_FOLDER,
    };
    let mut denied: BTreeMap<i64, Vec<SeccompRule>> = DENIED
        .iter()
        .chain(DENIED_OLDER)
        .chain(in_a_folder)
        .map(|&call| (call, Vec::new()))
        .collect();
    // New threads are needed, new processes and namespaces are not. A new thread cannot have a new user
    // namespace (clone(2)), without which an ordinary user gets no other.
    denied.insert(libc::SYS_clone, vec![starts_no_thread()?]);
    // The flags of clone3 lie in memory, which a filter cannot read. Without it, C libraries take clone.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let mut programs = vec![
        program(denied, libc::EPERM, architecture)?,
        program(unknown, libc::ENOSYS, architecture)?,
    ];
    if cfg!(target_arch = "x86_64") {
        programs.push(without_x32());
    }
    Ok(programs)
}

fn starts_no_thread() -> Result<SeccompRule, Error> {
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    let operator = SeccompCmpOp::MaskedEq(thread);
    SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, 0)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| seccompiler::Error::from(error).into())
}

fn program(
    calls: BTreeMap<i64, Vec<SeccompRule>>,
    errno: i32,
    architecture: TargetArch,
) -> Result<BpfProgram, Error> {
    let answer = SeccompAction::Errno(errno.cast_unsigned());
    SeccompFilter::new(calls, SeccompAction::Allow, answer, architecture)
        .and_then(BpfProgram::try_from)
        .map_err(|error| seccompiler::Error::from(error).into())
}

/// Denies the calls of the x32 ABI, which have numbers of their own under the same architecture, so that a list
/// of numbers alone would not hold them (seccomp(2), on `AUDIT_ARCH_X86_64`).
fn without_x32() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let line = |code: u32, jt, jf, k| seccompiler::sock_filter {
        code: u16::try_from(code).expect("codes of BPF have 16 bits"),
        jt,
        jf,
        k,
    };
    // The number of the call is the first word of seccomp_data.
    vec![
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        line(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        line(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned(),
        ),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
