//! Where packets wait: chunks of memory, touched before a packet needs them.
//!
//! A page fault in the data path costs as much as moving the page's bytes several times over, and in
//! a virtual machine the first touch ever of a page ten times that (6 ms for a chunk). So a thread
//! touches what the link will need ahead; used chunks are reused last in, first out, while warm.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{io, ptr, thread};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::process::nice;

/// One huge page.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;
/// The largest packet a device can give, with its virtio header, and a little more.
pub(crate) const LARGEST_PACKET_BYTES: usize = 66 << 10;
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

/// Hands out chunks until `left` have been.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Vec<Chunk>,
    touched: Receiver<Chunk>,
    left: usize,
}

/// How much memory a pool may take, and when. Bytes, rounded up to chunks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolSize {
    /// In all.
    pub most_bytes: u64,
    /// Touched by a thread of its own from the beginning on.
    pub ahead_bytes: u64,
    /// Of that, touched before there is a pool.
    pub first_bytes: u64,
}

impl Pool {
    pub fn new(size: PoolSize) -> io::Result<Self> {
        let chunks = |bytes: u64| bytes.div_ceil(CHUNK_BYTES as u64) as usize;
        let left = chunks(size.most_bytes);
        let ahead = chunks(size.ahead_bytes).min(left);
        let free = (0..chunks(size.first_bytes).min(ahead)).map(|_| Chunk::map());
        let free = free.collect::<io::Result<Vec<_>>>()?;
        let (give, touched) = channel();
        let later = ahead - free.len();
        thread::Builder::new()
            .name("howdah-memory".into())
            .spawn(move || touch_ahead(&give, later))?;
        Ok(Pool {
            left: left - free.len(),
            free,
            touched,
        })
    }

    fn take(&mut self) -> Option<Chunk> {
        if let Some(chunk) = self.free.pop() {
            return Some(chunk);
        }
        if self.left == 0 {
            return None;
        }
        // With none ahead the data path waits for the kernel, which is late but loses nothing.
        let chunk = self.touched.try_recv().or_else(|_| Chunk::map()).ok()?;
        self.left -= 1;
        Some(chunk)
    }
}

/// Ends early when the pool has gone; what cannot be mapped now is tried again when it is needed.
fn touch_ahead(give: &Sender<Chunk>, chunks: usize) {
    // The link will want it soon; where this is refused it comes later.
    let _ = nice(-15);
    for _ in 0..chunks {
        let Ok(chunk) = Chunk::map() else { return };
        if give.send(chunk).is_err() {
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

    fn pool(chunks: u64) -> Pool {
        let bytes = chunks * CHUNK_BYTES as u64;
        Pool::new(PoolSize {
            most_bytes: bytes,
            ahead_bytes: bytes - 1,
            first_bytes: 1,
        })
        .unwrap()
    }

    #[test]
    fn packets_stay_whole_and_chunks_come_back() {
        let mut pool = pool(3);
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
        let mut pool = pool(4);
        let mut store = Store::default();
        let mut kept = 0;
        while store.room(&mut pool).is_some() {
            store.keep(LARGEST_PACKET_BYTES, 1);
            kept += 1;
        }
        assert_eq!(kept, 4 * (CHUNK_BYTES / LARGEST_PACKET_BYTES));
    }
}
