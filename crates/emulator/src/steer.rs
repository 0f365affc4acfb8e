//! Leaves the hosts' part of the work to other cores than the one that moves packets, while a link is busy.
//!
//! A packet written to a TUN device goes through the whole TCP of its host before the write returns: what it
//! acknowledges, what that allows to be sent, and after a burst of losses the search for what to repair, which
//! alone can take a core. Receive packet steering has other cores do that, as the interrupts of a network card
//! would. A core asleep must be woken for it, so a quiet link does without.
//!
//! Source: Documentation/networking/scaling.rst of Linux, "RPS: Receive Packet Steering".

use std::fs::File;
use std::io::Write as _;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::idle::Idle;

/// Packets that a busy link releases in a span of [`Idle`].
const BUSY_RELEASES: u64 = 100;
/// A link quiet for so long is no longer busy.
const QUIET_NS: u64 = 1_000_000_000;

/// See the module. Where the kernel refuses any of it, packets are moved all the same, and lateness is measured.
#[derive(Debug)]
pub(crate) struct Steering {
    /// Where this thread may run; absent with fewer than two cores.
    allowed: Option<CpuSet>,
    on: bool,
    busy_ns: u64,
}

impl Steering {
    /// For the thread that calls.
    pub fn new() -> Self {
        let allowed = sched_getaffinity(None).ok();
        Steering {
            allowed: allowed.filter(|cores| cores.count() > 1),
            on: false,
            busy_ns: 0,
        }
    }

    /// After packets have left: `settings` are those of the devices they are written to.
    pub fn follow<'a>(&mut self, idle: &Idle, settings: impl Iterator<Item = &'a File>) {
        let (now_ns, releases) = idle.span();
        if releases >= BUSY_RELEASES {
            self.busy_ns = now_ns;
        }
        let busy = self.busy_ns > 0 && now_ns - self.busy_ns < QUIET_NS;
        if busy != self.on {
            self.on = busy;
            self.turn(settings);
        }
    }

    fn turn<'a>(&self, settings: impl Iterator<Item = &'a File>) {
        let Some(allowed) = &self.allowed else {
            return;
        };
        let here = sched_getcpu();
        let (mine, others) = match self.on {
            true => split(allowed, here),
            false => (*allowed, CpuSet::new()),
        };
        let _ = sched_setaffinity(None, &mine);
        for mut setting in settings {
            let _: Result<(), _> = setting.write_all(mask(&others).as_bytes());
        }
    }
}

/// The core itself, and the rest.
fn split(cores: &CpuSet, here: usize) -> (CpuSet, CpuSet) {
    let (mut mine, mut others) = (CpuSet::new(), *cores);
    mine.set(here);
    others.unset(here);
    (mine, others)
}

/// As `rps_cpus` takes it: groups of 32 bits, the highest first.
fn mask(cores: &CpuSet) -> String {
    let group = |first: usize| {
        (0..32)
            .filter(|bit| cores.is_set(first + bit))
            .fold(0u32, |mask, bit| mask | 1 << bit)
    };
    let last = (0..CpuSet::MAX_CPU).rev().find(|&core| cores.is_set(core));
    let groups: Vec<_> = (0..=last.unwrap_or(0) / 32)
        .rev()
        .map(|index| format!("{:08x}", group(32 * index)))
        .collect();
    groups.join(",")
}

/// The setting of a device in the network namespace of this thread, whose view of the file system becomes its own.
pub(crate) fn setting(device: &str) -> std::io::Result<File> {
    crate::process::own_sysfs()?;
    File::options()
        .write(true)
        .open(format!("/sys/class/net/{device}/queues/rx-0/rps_cpus"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cores: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cores.iter().for_each(|&core| set.set(core));
        set
    }

    #[test]
    fn a_mask_is_written_in_groups() {
        assert_eq!(mask(&of(&[])), "00000000");
        assert_eq!(mask(&of(&[0, 1, 31])), "80000003");
        assert_eq!(mask(&of(&[0, 32, 70])), "00000040,00000001,00000001");
    }

    #[test]
    fn the_own_core_is_none_of_the_others() {
        let (mine, others) = split(&of(&[0, 3, 5]), 3);
        assert_eq!((mine, others), (of(&[3]), of(&[0, 5])));
    }
}
