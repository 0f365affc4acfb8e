//! Where packets wait: chunks of memory, touched before a packet needs them.
//!
//! A page fault in the data path costs as much as moving the page's bytes several times over, so a
//! thread keeps a few touched chunks in reserve; used ones are reused last in, first out, while
//! they are warm.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::{io, ptr, thread};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// One huge page.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;
/// The largest packet a device can give, with its virtio header, and a little more.
pub(crate) const LARGEST_PACKET_BYTES: usize = 66 << 10;
/// Chunks kept touched in reserve; at 10 Gb/s they fill in 27 ms.
const RESERVE: usize = 16;
const ALIGNMENT: usize = 16;

/// One mapped and touched chunk.
#[derive(Debug)]
struct Chunk(NonNull<[u8; CHUNK_BYTES]>);

// SAFETY: a chunk is plain memory owned by whoever holds it.
unsafe impl Send for Chunk {}

impl Chunk {
    fn map() -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh anonymous mapping, of which the unaligned ends are given back at once.
        unsafe {
            let base = mmap_anonymous(
                ptr::null_mut(),
                2 * CHUNK_BYTES,
                protection,
                MapFlags::PRIVATE,
            )?;
            let before = base.align_offset(CHUNK_BYTES);
            let chunk = base.byte_add(before);
            if before > 0 {
                munmap(base, before)?;
            }
            munmap(chunk.byte_add(CHUNK_BYTES), CHUNK_BYTES - before)?;
            let mapped = Chunk(NonNull::new(chunk.cast()).expect("a mapping is not null"));
            // Kernels without huge pages refuse the first, older ones the second: slower, not wrong.
            let _ = madvise(chunk, CHUNK_BYTES, Advice::LinuxHugepage);
            let _ = madvise(chunk, CHUNK_BYTES, Advice::LinuxPopulateWrite);
            Ok(mapped)
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped, zeroed by the kernel, and borrowed with the chunk.
        unsafe { self.0.as_ref() }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably with the chunk.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        let unmapped = unsafe { munmap(self.0.as_ptr().cast(), CHUNK_BYTES) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Hands out chunks until `most` are in use.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Vec<Chunk>,
    fresh: Receiver<Chunk>,
    left: usize,
}

impl Pool {
    /// A pool of at most `most_bytes`, whose reserve is filled before this returns.
    pub fn new(most_bytes: u64) -> io::Result<Self> {
        let left = (most_bytes.div_ceil(CHUNK_BYTES as u64) as usize).max(4);
        let (reserve, fresh) = sync_channel(RESERVE);
        let mut to_map = left;
        while to_map > 0 && left - to_map < RESERVE {
            reserve.send(Chunk::map()?).expect("the receiver is here");
            to_map -= 1;
        }
        thread::Builder::new()
            .name("howdah-memory".into())
            .spawn(move || keep_reserve(&reserve, to_map))?;
        Ok(Pool {
            free: Vec::new(),
            fresh,
            left,
        })
    }

    fn take(&mut self) -> Option<Chunk> {
        if let Some(chunk) = self.free.pop() {
            return Some(chunk);
        }
        if self.left == 0 {
            return None;
        }
        let chunk = self.fresh.try_recv().ok()?;
        self.left -= 1;
        Some(chunk)
    }
}

/// Ends when the pool has gone, or when it may have no more.
fn keep_reserve(reserve: &SyncSender<Chunk>, chunks: usize) {
    for _ in 0..chunks {
        let Ok(chunk) = Chunk::map() else { return };
        if reserve.send(chunk).is_err() {
            return;
        }
    }
}

/// Packets in order of arrival, each kept as long as one of its pieces is held.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// Each with the number of pieces held in it.
    chunks: VecDeque<(Chunk, u32)>,
    /// Chunks given back so far: the number of the first one here.
    gone: u64,
    fill: usize,
}

/// Where a packet lies; good until its last piece is given back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    chunk: u64,
    start: u32,
    bytes: u32,
}

impl Store {
    /// Room for the largest packet, or None when the pool has no more.
    pub fn room(&mut self, pool: &mut Pool) -> Option<&mut [u8]> {
        if self.chunks.is_empty() || CHUNK_BYTES - self.fill < LARGEST_PACKET_BYTES {
            self.chunks.push_back((pool.take()?, 0));
            self.fill = 0;
        }
        let (chunk, _) = self.chunks.back_mut()?;
        Some(&mut chunk.bytes_mut()[self.fill..self.fill + LARGEST_PACKET_BYTES])
    }

    /// Keeps the first `bytes` of the room given last, for `pieces` pieces (at least one).
    pub fn keep(&mut self, bytes: usize, pieces: u32) -> Stored {
        self.chunks.back_mut().expect("room was given").1 += pieces;
        let chunk = self.gone + self.chunks.len() as u64 - 1;
        let start = self.fill as u32;
        self.fill += bytes.next_multiple_of(ALIGNMENT);
        Stored {
            chunk,
            start,
            bytes: bytes as u32,
        }
    }

    /// The packet's bytes.
    pub fn bytes(&self, stored: Stored) -> &[u8] {
        let (chunk, _) = &self.chunks[(stored.chunk - self.gone) as usize];
        &chunk.bytes()[stored.start as usize..][..stored.bytes as usize]
    }

    /// Gives the oldest held piece back.
    pub fn give_back(&mut self, pool: &mut Pool) {
        self.chunks.front_mut().expect("a piece is held").1 -= 1;
        while self.chunks.len() > 1 && self.chunks[0].1 == 0 {
            pool.free
                .extend(self.chunks.pop_front().map(|(chunk, _)| chunk));
            self.gone += 1;
        }
        if self.chunks[0].1 == 0 {
            self.fill = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_stay_whole_and_chunks_come_back() {
        let mut pool = Pool::new(3 * CHUNK_BYTES as u64).unwrap();
        let mut store = Store::default();
        let mut held = VecDeque::new();
        for round in 0..400u32 {
            let bytes = 1000 + round as usize * 150;
            let room = store
                .room(&mut pool)
                .expect("at most three chunks are needed");
            room[..bytes].fill(round as u8);
            held.push_back((store.keep(bytes, 2), round as u8, bytes));
            if held.len() > 20 {
                let (stored, value, bytes) = held.pop_front().unwrap();
                let kept = store.bytes(stored);
                assert!(kept.len() == bytes && kept.iter().all(|byte| *byte == value));
                store.give_back(&mut pool);
                store.give_back(&mut pool);
            }
        }
    }

    #[test]
    fn a_full_pool_says_so() {
        let mut pool = Pool::new(4 * CHUNK_BYTES as u64).unwrap();
        let mut store = Store::default();
        let mut kept = 0;
        while store.room(&mut pool).is_some() {
            store.keep(LARGEST_PACKET_BYTES, 1);
            kept += 1;
        }
        assert_eq!(kept, 4 * (CHUNK_BYTES / LARGEST_PACKET_BYTES));
    }
}
