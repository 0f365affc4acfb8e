//! How often programs have run.

use std::{
    fs::File,
    io, mem,
    os::fd::{AsRawFd, FromRawFd},
};

/// Counts runs of programs while it lives.
pub struct Counting(#[expect(dead_code, reason = "held open")] File);

impl Counting {
    pub fn begin() -> Self {
        // SAFETY: the call takes a number and returns a new descriptor or a negative error.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: the descriptor is new and nobody else's.
        Self(unsafe { File::from_raw_fd(fd) })
    }
}

/// How often a program has run since.
pub fn runs(program: u32) -> u64 {
    let info_bytes = mem::size_of::<libbpf_sys::bpf_prog_info>();
    let mut length = info_bytes as u32;
    // SAFETY: the descriptor is new; the kernel fills at most `length` bytes of a zeroed struct.
    unsafe {
        let fd = File::from_raw_fd(libbpf_sys::bpf_prog_get_fd_by_id(program));
        let mut info: libbpf_sys::bpf_prog_info = mem::zeroed();
        let failed =
            libbpf_sys::bpf_prog_get_info_by_fd(fd.as_raw_fd(), &raw mut info, &raw mut length);
        assert_eq!(failed, 0);
        info.run_cnt
    }
}
