//! How much the memory of this process has grown since a transfer began.

use std::fs;

/// Resident memory at a transfer's start.
#[derive(Debug, Clone, Copy)]
pub struct MemoryMark {
    resident_bytes: Option<u64>,
}

impl MemoryMark {
    /// Notes the resident memory of now, and resets the kernel's record of the peak.
    pub fn now() -> Self {
        // Linux resets VmHWM to VmRSS (Documentation/filesystems/proc.rst, clear_refs); without
        // that an older peak of this process counts too.
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self {
            resident_bytes: status_bytes("VmRSS:"),
        }
    }

    /// The growth at the peak since then, in bytes; `None` if `/proc` cannot be read.
    pub fn peak_growth_bytes(&self) -> Option<u64> {
        Some(status_bytes("VmHWM:")?.saturating_sub(self.resident_bytes?))
    }
}

fn status_bytes(key: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    Some(
        line.trim()
            .strip_suffix(" kB")?
            .trim()
            .parse::<u64>()
            .ok()?
            * 1024,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of this process may reset the peak, or give memory back, between the mark and the look at it.
    #[test]
    fn a_touched_buffer_shows_at_the_peak() {
        let shows = || {
            let mark = MemoryMark::now();
            drop(std::hint::black_box(vec![1u8; 64 << 20]));
            mark.peak_growth_bytes().unwrap() >= 60 << 20
        };
        assert!((0..10).any(|_| shows()));
    }
}
