//! When a packet came to a sleeping emulator, told by the kernel: a BPF program on the TUN device notes
//! the instant of the first packet that passes after it was asked to.
//!
//! A core takes some 0.1 ms to wake, and TUN hands packets over without a time. The program is written
//! as instructions (RFC 9669), not in C, because libbpf's loader of objects prints where it is refused.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_sys as bpf;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const NAME: &CStr = c"howdah_arrival";
const LICENSE: &CStr = c"Apache-2.0";
const NOTE_BYTES: usize = size_of::<AtomicU64>();

/// The note of one device. Zero asks the program for an instant, which it writes over the zero.
#[derive(Debug)]
pub(crate) struct FirstArrival(NonNull<AtomicU64>);

// SAFETY: a mapping that lives as long as this, used by atomic operations alone.
unsafe impl Send for FirstArrival {}
// SAFETY: as above.
unsafe impl Sync for FirstArrival {}

impl FirstArrival {
    /// Needs Linux 5.8 and CAP_BPF with CAP_NET_ADMIN in the first user namespace.
    pub fn attach(tun: &OwnedFd) -> io::Result<Self> {
        let map = map()?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping of the map's only value.
        let note = unsafe {
            mmap(
                ptr::null_mut(),
                NOTE_BYTES,
                protection,
                MapFlags::SHARED,
                &map,
                0,
            )
        }?;
        let note = FirstArrival(NonNull::new(note.cast()).expect("a mapping is not null"));
        let program = load(&program(&map))?;
        let descriptor = program.as_raw_fd();
        // SAFETY: TUNSETFILTEREBPF reads one int.
        match unsafe {
            libc::ioctl(
                tun.as_raw_fd(),
                libc::TUNSETFILTEREBPF,
                &raw const descriptor,
            )
        } {
            0.. => Ok(note),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Asks for the instant of the next packet, and forgets the one before.
    pub fn ask(&self) {
        self.note().store(0, Ordering::Release);
    }

    /// When the first packet since [`Self::ask`] came, ns of CLOCK_MONOTONIC; None: none has.
    pub fn noted_ns(&self) -> Option<u64> {
        match self.note().load(Ordering::Acquire) {
            0 => None,
            ns => Some(ns),
        }
    }

    fn note(&self) -> &AtomicU64 {
        // SAFETY: mapped and aligned to a page until this is dropped; the kernel writes whole words.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for FirstArrival {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the program has its own reference to the map.
        let unmapped = unsafe { munmap(self.0.as_ptr().cast(), NOTE_BYTES) };
        debug_assert!(unmapped.is_ok());
    }
}

fn map() -> io::Result<OwnedFd> {
    let options = bpf::bpf_map_create_opts {
        sz: size_of::<bpf::bpf_map_create_opts>() as u64,
        map_flags: bpf::BPF_F_MMAPABLE,
        ..Default::default()
    };
    let value_bytes = NOTE_BYTES as u32;
    let kind = bpf::BPF_MAP_TYPE_ARRAY;
    // SAFETY: the name ends with a zero; the options tell their own size.
    owned(unsafe {
        bpf::bpf_map_create(kind, NAME.as_ptr(), 4, value_bytes, 1, &raw const options)
    })
}

fn load(program: &[bpf::bpf_insn]) -> io::Result<OwnedFd> {
    // SAFETY: name and licence end with a zero; there are as many instructions as said.
    owned(unsafe {
        bpf::bpf_prog_load(
            bpf::BPF_PROG_TYPE_SOCKET_FILTER,
            NAME.as_ptr(),
            LICENSE.as_ptr(),
            program.as_ptr(),
            program.len() as u64,
            ptr::null_mut(),
        )
    })
}

/// Passes every packet whole; where the value of `map` is zero, it becomes the time.
fn program(map: &OwnedFd) -> [bpf::bpf_insn; 9] {
    use bpf::{
        BPF_ALU64, BPF_CALL, BPF_DW, BPF_EXIT, BPF_FUNC_ktime_get_ns as NOW, BPF_IMM, BPF_JMP,
        BPF_JNE, BPF_K, BPF_LD, BPF_LDX, BPF_MEM, BPF_MOV, BPF_PSEUDO_MAP_VALUE, BPF_REG_0 as R0,
        BPF_REG_1 as R1, BPF_REG_6 as R6, BPF_REG_7 as R7, BPF_STX, BPF_W, BPF_X,
    };
    [
        // r6 = skb; r7 = the note
        instruction(BPF_ALU64 | BPF_MOV | BPF_X, R6, R1, 0, 0),
        instruction(
            BPF_LD | BPF_IMM | BPF_DW,
            R7,
            BPF_PSEUDO_MAP_VALUE,
            0,
            map.as_raw_fd(),
        ),
        instruction(0, R0, R0, 0, 0),
        // if (*r7 == 0) *r7 = ktime_get_ns()
        instruction(BPF_LDX | BPF_MEM | BPF_DW, R1, R7, 0, 0),
        instruction(BPF_JMP | BPF_JNE | BPF_K, R1, R0, 2, 0),
        instruction(BPF_JMP | BPF_CALL, R0, R0, 0, NOW as i32),
        instruction(BPF_STX | BPF_MEM | BPF_DW, R7, R0, 0, 0),
        // return skb->len
        instruction(BPF_LDX | BPF_MEM | BPF_W, R0, R6, 0, 0),
        instruction(BPF_JMP | BPF_EXIT, R0, R0, 0, 0),
    ]
}

fn instruction(code: u32, to: u32, from: u32, offset: i16, value: i32) -> bpf::bpf_insn {
    bpf::bpf_insn {
        code: code as u8,
        _bitfield_align_1: [],
        _bitfield_1: bpf::bpf_insn::new_bitfield_1(to as u8, from as u8),
        off: offset,
        imm: value,
    }
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    match fd {
        // SAFETY: just made, and nobody else has it.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::from_raw_os_error(-fd)),
    }
}
