//! The pieces of one data stream that were sent and not yet confirmed by the receiver. When a connection breaks, a
//! new one sends them again.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use howdah_wire::{Checksum, FilePiece, Piece, PieceError, Totals};

use crate::end::abort::lock;
use crate::tree::block::BigFile;
use crate::tree::inlet::PipedBlock;

/// Pieces kept of all streams together; of one at least [`LEAST`].
const MOST: usize = 16 * 1024;
/// What their names take, of all streams together and of one at least, but for the last ones, in bytes: in a deep tree
/// paths are long.
const MOST_NAME_BYTES: usize = 4 << 20;
const LEAST_NAME_BYTES: usize = 128 << 10;
/// What extended attributes of the pieces kept take, of all streams together and of one at least, but for the last
/// ones, in bytes.
const MOST_XATTR_BYTES: usize = 64 << 20;
const LEAST_XATTR_BYTES: usize = 1 << 20;
/// Pieces that a stream may have on the way however many streams there are.
const LEAST: usize = 1024;

/// A piece that was sent.
#[derive(Debug, Clone)]
pub enum Sent {
    /// What its header says all of: a folder, a link, the end, payload from memory.
    Header(Piece),
    /// Part of a file, or all of it.
    File(SentFile),
    /// Part of what a pipe gave.
    Piped(Arc<PipedBlock>),
}

/// A part of a file that was sent, or all of it.
#[derive(Debug, Clone)]
pub struct SentFile {
    /// Its header.
    pub piece: FilePiece,
    /// The file, if it is not sent as a small one.
    pub big: Option<Arc<BigFile>>,
    /// What was read.
    pub read: Read,
    /// How it travels.
    pub form: Form,
}

/// How a part of a file travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Its bytes are sent.
    Payload,
    /// It is a hole, and that is told.
    Hole,
    /// It is only compared with what the receiver has.
    There,
}

impl Sent {
    /// What its names take, in bytes.
    fn name_bytes(&self) -> usize {
        match self {
            Self::File(file) => file.piece.path.as_bytes().len(),
            Self::Header(piece) => piece.name_bytes(),
            Self::Piped(_) => 0,
        }
    }

    /// What its extended attributes take, in bytes.
    fn xattr_bytes(&self) -> usize {
        let attributes = match self {
            Self::File(file) => &file.piece.attributes,
            Self::Header(
                Piece::Folder { attributes, .. } | Piece::Attributes { attributes, .. },
            ) => attributes,
            Self::Header(_) | Self::Piped(_) => return 0,
        };
        attributes
            .xattrs
            .as_ref()
            .map_or(0, |xattrs| xattrs.bytes())
    }
}

impl SentFile {
    /// The piece's header, with its kind.
    pub fn header(&self) -> Piece {
        let piece = self.piece.clone();
        match self.form {
            Form::Payload => Piece::File(piece),
            Form::Hole => Piece::Hole(piece),
            Form::There => Piece::There(piece),
        }
    }

    /// What it counts.
    pub fn totals(&self) -> Totals {
        match self.form {
            Form::Payload => self.piece.totals(),
            Form::Hole => self.piece.hole_totals(),
            Form::There => Totals::default(),
        }
    }
}

/// What came of reading a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// It has not been read to its end.
    NotYet,
    /// It has this checksum.
    Whole(Checksum),
    /// Its file is given up.
    GivenUp,
}

/// The kept pieces of one stream.
#[derive(Debug)]
pub struct Kept {
    state: Mutex<State>,
    changed: Condvar,
    most: usize,
    most_name_bytes: usize,
    most_xattr_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Pieces that the receiver has taken; the next one has this number.
    taken: u64,
    pieces: VecDeque<Sent>,
    /// What their names take, in bytes.
    name_bytes: usize,
    /// What their extended attributes take, in bytes.
    xattr_bytes: usize,
    /// What all pieces so far count.
    totals: Totals,
    ended: bool,
}

impl Kept {
    /// Nothing sent yet, on one of `streams` streams.
    pub fn new(streams: u16) -> Self {
        let share = |of_all: usize, least| (of_all / usize::from(streams.max(1))).max(least);
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            most: share(MOST, LEAST),
            most_name_bytes: share(MOST_NAME_BYTES, LEAST_NAME_BYTES),
            most_xattr_bytes: share(MOST_XATTR_BYTES, LEAST_XATTR_BYTES),
        }
    }

    /// Keeps a piece that is about to be sent for the first time. Returns its number.
    pub fn keep(&self, sent: Sent) -> u64 {
        let mut state = lock(&self.state);
        match &sent {
            Sent::Header(piece) => state.totals.count(piece),
            Sent::Piped(block) => state.totals.add(&block.piece().totals()),
            Sent::File(file) => state.totals.add(&file.totals()),
        }
        state.ended |= matches!(sent, Sent::Header(Piece::End(_)));
        state.name_bytes += sent.name_bytes();
        state.xattr_bytes += sent.xattr_bytes();
        state.pieces.push_back(sent);
        state.taken + state.pieces.len() as u64 - 1
    }

    /// Notes how much of a piece was read, before its checksum is sent.
    pub fn note_read(&self, number: u64, read: Read) {
        let mut state = lock(&self.state);
        let index = number.checked_sub(state.taken);
        let index = index.and_then(|index| usize::try_from(index).ok());
        if let Some(Sent::File(file)) = index.and_then(|index| state.pieces.get_mut(index)) {
            file.read = read;
        }
    }

    /// Drops the pieces that the receiver has confirmed, `taken` in all.
    ///
    /// # Errors
    /// [`PieceError::Tally`] when it confirms more than was sent.
    pub fn let_go(&self, taken: u64) -> Result<Vec<Sent>, PieceError> {
        let mut state = lock(&self.state);
        let gone = taken.saturating_sub(state.taken);
        let gone = usize::try_from(gone).map_err(|_| PieceError::Tally)?;
        if gone > state.pieces.len() {
            return Err(PieceError::Tally);
        }
        let gone = state.pieces.drain(..gone).collect::<Vec<_>>();
        state.name_bytes -= gone.iter().map(Sent::name_bytes).sum::<usize>();
        state.xattr_bytes -= gone.iter().map(Sent::xattr_bytes).sum::<usize>();
        state.taken += gone.len() as u64;
        drop(state);
        self.changed.notify_all();
        Ok(gone)
    }

    /// The number of the first piece kept, and all of them.
    pub fn all(&self) -> (u64, Vec<Sent>) {
        let state = lock(&self.state);
        (state.taken, state.pieces.iter().cloned().collect())
    }

    /// Whether there is room for one more.
    pub fn has_room(&self) -> bool {
        let state = lock(&self.state);
        state.pieces.len() < self.most
            && state.name_bytes < self.most_name_bytes
            && state.xattr_bytes < self.most_xattr_bytes
    }

    /// Whether the end was sent.
    pub fn ended(&self) -> bool {
        lock(&self.state).ended
    }

    /// Whether the end was sent, and all pieces are confirmed.
    pub fn all_taken(&self) -> bool {
        let state = lock(&self.state);
        state.ended && state.pieces.is_empty()
    }

    /// Pieces sent so far, each counted once.
    pub fn sent(&self) -> u64 {
        let state = lock(&self.state);
        state.taken + state.pieces.len() as u64
    }

    /// The counts of all pieces sent so far, each counted once.
    pub fn totals(&self) -> Totals {
        lock(&self.state).totals
    }

    /// Waits until a piece is dropped, for a moment at most.
    pub fn wait(&self, moment: Duration) {
        let state = lock(&self.state);
        let waited = self.changed.wait_timeout(state, moment);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_wire::{LinkTarget, TreePath};

    fn memory(len: u64) -> Sent {
        Sent::Header(Piece::Memory { len })
    }

    #[test]
    fn what_is_taken_is_let_go_once_and_in_order() {
        let kept = Kept::new(4);
        for len in 1..=5 {
            assert_eq!(kept.keep(memory(len)), len - 1);
        }
        assert_eq!(kept.let_go(2).unwrap().len(), 2);
        assert!(kept.let_go(1).unwrap().is_empty());
        let (first, left) = kept.all();
        assert_eq!((first, left.len()), (2, 3));
        assert!(matches!(left[0], Sent::Header(Piece::Memory { len: 3 })));
        assert_eq!(kept.let_go(6).unwrap_err(), PieceError::Tally);
        assert_eq!(kept.totals().bytes, 15);
        assert_eq!(kept.sent(), 5);
        assert!(!kept.all_taken());
        kept.keep(Sent::Header(Piece::End(kept.totals())));
        assert!(kept.ended() && !kept.all_taken());
        assert_eq!(kept.let_go(6).unwrap().len(), 4);
        assert!(kept.all_taken());
    }

    #[test]
    fn long_names_take_the_room_of_others_until_they_are_let_go() {
        let kept = Kept::new(1);
        let path = TreePath::try_from([b'x'; 255].to_vec()).unwrap();
        let path = (0..14).fold(path.clone(), |long, _| long.join(path.as_bytes()).unwrap());
        let long = path.as_bytes().len();
        let mut sent = 0;
        while kept.has_room() {
            kept.keep(Sent::Header(Piece::Link {
                source: 0,
                path: path.clone(),
                target: LinkTarget::try_from(b"target".to_vec()).unwrap(),
                mtime_ns: 0,
                owner: None,
                xattrs: None,
            }));
            sent += 1;
        }
        assert_eq!(sent, MOST_NAME_BYTES.div_ceil(long + 6));
        kept.let_go(1).unwrap();
        assert!(kept.has_room());
        kept.let_go(sent as u64).unwrap();
        assert_eq!(lock(&kept.state).name_bytes, 0);
    }

    #[test]
    fn the_room_has_a_bound_and_each_of_many_streams_has_some() {
        let kept = Kept::new(u16::MAX);
        for _ in 0..LEAST {
            assert!(kept.has_room());
            kept.keep(memory(1));
        }
        assert!(!kept.has_room());
    }
}
