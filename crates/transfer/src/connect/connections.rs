//! The connections of each data stream, one after the other, and how many of its pieces were taken.
//!
//! A stream is a sequence of pieces. The receiver takes them in order, and counts them over all connections. So a new
//! connection continues after the last piece that was taken on the broken one.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use howdah_wire::Connection;

use crate::end::abort::lock;

/// The data streams of one end.
#[derive(Debug)]
pub struct Connections(Vec<Line>);

#[derive(Debug, Default)]
struct Line {
    /// Incarnations that have shown that they belong here: the highest one and 1.
    newest: AtomicU32,
    /// Held by the thread that works for the stream.
    at_work: Mutex<()>,
    taken: AtomicU64,
    done: AtomicBool,
    /// A connection has failed in a way that no other one mends.
    failed: AtomicBool,
}

impl Connections {
    /// This many streams, none of them connected.
    pub fn new(streams: u16) -> Self {
        Self((0..streams).map(|_| Line::default()).collect())
    }

    /// Makes a connection the present one of its stream. Returns false if it may not be that: its stream must be in
    /// the plan, it must be newer than all connections of the stream before, and none of those may have failed for
    /// good.
    pub fn claim(&self, connection: Connection) -> bool {
        let number = u32::from(connection.incarnation) + 1;
        !self.has_failed(connection.stream)
            && self
                .line(connection.stream)
                .is_some_and(|line| line.newest.fetch_max(number, Ordering::AcqRel) < number)
    }

    /// Notes that a stream has failed, so that no other connection goes on with it.
    pub fn note_failed(&self, stream: u16) {
        if let Some(line) = self.line(stream) {
            line.failed.store(true, Ordering::Release);
        }
    }

    /// Whether a stream has failed.
    pub fn has_failed(&self, stream: u16) -> bool {
        self.line(stream)
            .is_some_and(|line| line.failed.load(Ordering::Acquire))
    }

    /// Whether a newer connection has taken the place of this one.
    pub fn replaced(&self, connection: Connection) -> bool {
        let number = u32::from(connection.incarnation) + 1;
        self.line(connection.stream)
            .is_none_or(|line| line.newest.load(Ordering::Acquire) != number)
    }

    /// Waits until no other thread works for a stream; `None` if the plan has no such stream.
    pub fn work(&self, stream: u16) -> Option<MutexGuard<'_, ()>> {
        self.line(stream).map(|line| lock(&line.at_work))
    }

    /// Notes that the receiver has taken so many pieces of a stream.
    pub fn note_taken(&self, stream: u16, pieces: u64) {
        if let Some(line) = self.line(stream) {
            line.taken.fetch_max(pieces, Ordering::AcqRel);
        }
    }

    /// Pieces of a stream that the receiver has taken.
    pub fn taken(&self, stream: u16) -> u64 {
        self.line(stream)
            .map_or(0, |line| line.taken.load(Ordering::Acquire))
    }

    /// The same of all streams.
    pub fn all_taken(&self) -> Vec<u64> {
        let taken = |line: &Line| line.taken.load(Ordering::Acquire);
        self.0.iter().map(taken).collect()
    }

    /// Notes that the whole stream, with its end, was taken.
    pub fn note_done(&self, stream: u16) {
        if let Some(line) = self.line(stream) {
            line.done.store(true, Ordering::Release);
        }
    }

    /// The number of streams that are not taken completely.
    pub fn left(&self) -> usize {
        let left = |line: &&Line| !line.done.load(Ordering::Acquire);
        self.0.iter().filter(left).count()
    }

    fn line(&self, stream: u16) -> Option<&Line> {
        self.0.get(usize::from(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(stream: u16, incarnation: u16) -> Connection {
        Connection {
            stream,
            incarnation,
        }
    }

    #[test]
    fn a_connection_is_replaced_by_newer_ones_alone() {
        let connections = Connections::new(2);
        assert!(!connections.claim(connection(2, 0)));
        assert!(connections.claim(connection(1, 0)));
        assert!(!connections.replaced(connection(1, 0)));
        assert!(!connections.claim(connection(1, 0)));
        // One of which nothing was seen here may lie between.
        assert!(connections.claim(connection(1, 2)));
        assert!(!connections.claim(connection(1, 1)));
        assert!(connections.replaced(connection(1, 0)));
        assert!(!connections.replaced(connection(1, 2)));
        assert!(connections.claim(connection(0, u16::MAX)));
    }

    #[test]
    fn a_stream_that_has_failed_goes_on_with_no_other_connection() {
        let connections = Connections::new(2);
        assert!(connections.claim(connection(1, 0)));
        connections.note_failed(1);
        assert!(connections.has_failed(1) && !connections.claim(connection(1, 1)));
        assert!(!connections.has_failed(0) && connections.claim(connection(0, 0)));
    }

    #[test]
    fn what_was_taken_stays_taken() {
        let connections = Connections::new(2);
        connections.note_taken(1, 7);
        connections.note_taken(1, 5);
        assert_eq!(connections.all_taken(), [0, 7]);
        assert_eq!(connections.left(), 2);
        connections.note_done(1);
        connections.note_done(1);
        assert_eq!(connections.left(), 1);
    }
}
