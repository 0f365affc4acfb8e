//! Payload from memory: a number of bytes, or as much as can be sent in a time.

use std::time::{Duration, Instant};

use howdah_wire::Memory;

/// What a stream takes at a time while time is the limit: as much as goes in this time at the mean
/// rate so far, so that one with a small window is not long beyond the end, nor less than the bytes.
const TIMED_BLOCK: Duration = Duration::from_millis(20);
const TIMED_BLOCK_MIN_BYTES: u64 = 64 << 10;

/// What is still to come from memory.
#[derive(Debug)]
pub struct Supply {
    left: Left,
    taken: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// So much.
    Bytes(u64),
    /// As much as goes in this time, once the first block is taken.
    Time(Duration),
    /// As much as goes between these two.
    Between(Instant, Instant),
}

/// The next block from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supplied {
    /// Its length in bytes.
    Block(u64),
    /// There is none, because the time is over that was to be filled. So many bytes went in it.
    Over(u64),
    /// There is none.
    Nothing,
}

impl Default for Supply {
    /// Nothing, as of a job that moves files.
    fn default() -> Self {
        Self::of(Memory::Bytes(0))
    }
}

impl Supply {
    /// What a job moves.
    pub fn of(memory: Memory) -> Self {
        let left = match memory {
            Memory::Bytes(bytes) => Left::Bytes(bytes),
            Memory::Time(ns) => Left::Time(Duration::from_nanos(ns)),
        };
        Self { left, taken: 0 }
    }

    /// The rest, in bytes; 0 if time is the limit.
    pub fn bytes(&self) -> u64 {
        match self.left {
            Left::Bytes(bytes) => bytes,
            _ => 0,
        }
    }

    /// Whether nothing more comes.
    pub fn is_over(&self) -> bool {
        self.left == Left::Bytes(0)
    }

    /// The next block of at most `limit` bytes, for one of `streams` streams.
    pub fn next(&mut self, limit: u64, streams: u16) -> Supplied {
        let now = Instant::now();
        if let Left::Time(time) = self.left {
            self.left = Left::Between(now, now + time);
        }
        let len = match &mut self.left {
            Left::Bytes(0) => return Supplied::Nothing,
            Left::Bytes(left) => {
                let len = limit.min(*left);
                *left -= len;
                len
            }
            Left::Between(begun, end) if now < *end => {
                let rate = self.taken as f64 / now.duration_since(*begun).as_secs_f64();
                let each = rate / f64::from(streams) * TIMED_BLOCK.as_secs_f64();
                1 << (each as u64).clamp(TIMED_BLOCK_MIN_BYTES, limit).ilog2()
            }
            _ => {
                self.left = Left::Bytes(0);
                return Supplied::Over(self.taken);
            }
        };
        self.taken += len;
        Supplied::Block(len)
    }
}
