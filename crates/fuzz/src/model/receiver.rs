//! The receiving end of the model: takes pieces off connections and joins them to files.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use howdah_transfer::assembly::Assembly;
use howdah_transfer::connections::Connections;
use howdah_wire::limits::MAX_OPEN_FILES;
use howdah_wire::{
    Arrivals, FilePiece, HEADER_LENGTH_BYTES, Piece, StreamTally, Totals, TreePath, Verdict,
};

use super::pipe::Pipe;
use super::{Fault, ZEROS, checksum};

/// A file of which pieces have come.
struct Open {
    first: FilePiece,
    arrivals: Arrivals,
    assembly: Assembly,
    /// Where its pieces begin and end, counted apart from the two.
    pieces: BTreeSet<(u64, u64)>,
}

/// The receiving end.
pub struct Receiver {
    /// Which connection is the one of its stream, and how much of each was taken.
    pub connections: Connections,
    /// Files that are whole, with their digests.
    pub named: BTreeMap<TreePath, [u8; 32]>,
    /// What was taken, of all streams.
    pub tallies: Vec<StreamTally>,
    /// Pieces of files that were taken, by file and offset, and how often.
    pub taken: BTreeMap<(u64, u64), u32>,
    open: HashMap<u64, Open>,
}

/// The receiving end of one connection.
#[derive(Default)]
pub struct Line {
    step: Step,
}

/// What comes next.
#[derive(Default)]
enum Step {
    #[default]
    Length,
    Header(usize),
    Payload {
        piece: FilePiece,
        come: u64,
        content: Option<Option<u64>>,
    },
    Verdict {
        piece: FilePiece,
        content: Option<u64>,
        hole: bool,
    },
    Checksum {
        piece: FilePiece,
        content: Option<u64>,
        hole: bool,
    },
}

impl Receiver {
    /// Nothing has come of so many streams.
    pub fn new(streams: u16) -> Self {
        Self {
            connections: Connections::new(streams),
            named: BTreeMap::new(),
            tallies: vec![StreamTally::default(); streams.into()],
            taken: BTreeMap::new(),
            open: HashMap::new(),
        }
    }

    /// Takes what has arrived on a connection; whether its stream has ended.
    pub fn read(&mut self, stream: u16, line: &mut Line, pipe: &mut Pipe) -> Result<bool, Fault> {
        let index = usize::from(stream);
        while !self.tallies[index].ended() {
            match std::mem::take(&mut line.step) {
                Step::Length => {
                    let Some(bytes) = pipe.take(HEADER_LENGTH_BYTES) else {
                        return Ok(false);
                    };
                    let length = Piece::header_len([bytes[0], bytes[1]]);
                    line.step = Step::Header(length.map_err(|error| error.to_string())?);
                }
                Step::Header(length) => {
                    let Some(bytes) = pipe.take(length) else {
                        line.step = Step::Header(length);
                        return Ok(false);
                    };
                    let piece = Piece::decode(&bytes).map_err(|error| error.to_string())?;
                    // On a copy: what breaks off is not taken.
                    let mut tally = self.tallies[index];
                    tally.accept(&piece).map_err(|error| error.to_string())?;
                    match piece {
                        Piece::File(piece) => {
                            self.open(&piece)?;
                            line.step = Step::Payload {
                                piece,
                                come: 0,
                                content: None,
                            };
                        }
                        Piece::Hole(piece) => {
                            self.open(&piece)?;
                            line.step = Step::Verdict {
                                piece,
                                content: Some(ZEROS),
                                hole: true,
                            };
                        }
                        Piece::Memory { .. } => return Err("payload of no file".into()),
                        other => self.note_taken(stream, &other)?,
                    }
                }
                Step::Payload {
                    piece,
                    mut come,
                    mut content,
                } => {
                    while come < piece.len {
                        let Some((of, count)) = pipe.take_payload(piece.len - come) else {
                            line.step = Step::Payload {
                                piece,
                                come,
                                content,
                            };
                            return Ok(false);
                        };
                        come += count;
                        content =
                            Some(content.map_or(of, |before| before.filter(|_| before == of)));
                    }
                    let content = content.unwrap_or(Some(piece.file));
                    line.step = Step::Verdict {
                        piece,
                        content,
                        hole: false,
                    };
                }
                Step::Verdict {
                    piece,
                    content,
                    hole,
                } => {
                    let Some(bytes) = pipe.take(Verdict::BYTES) else {
                        line.step = Step::Verdict {
                            piece,
                            content,
                            hole,
                        };
                        return Ok(false);
                    };
                    let bytes = bytes.try_into().expect("so many were taken");
                    let verdict = Verdict::decode(bytes).map_err(|error| error.to_string())?;
                    if verdict.given_up.is_some() {
                        self.add(&piece, verdict, content, hole)?;
                        self.note_taken(stream, &as_it_came(piece, hole))?;
                    } else {
                        line.step = Step::Checksum {
                            piece,
                            content,
                            hole,
                        };
                    }
                }
                Step::Checksum {
                    piece,
                    content,
                    hole,
                } => {
                    let Some(bytes) = pipe.take(32) else {
                        line.step = Step::Checksum {
                            piece,
                            content,
                            hole,
                        };
                        return Ok(false);
                    };
                    if bytes != checksum(content, piece.offset, piece.len) {
                        return Err("a checksum does not match".into());
                    }
                    self.add(&piece, Verdict::default(), content, hole)?;
                    self.note_taken(stream, &as_it_came(piece, hole))?;
                }
            }
        }
        Ok(true)
    }

    fn note_taken(&mut self, stream: u16, piece: &Piece) -> Result<(), Fault> {
        let tally = &mut self.tallies[usize::from(stream)];
        tally.accept(piece).map_err(|error| error.to_string())?;
        let taken = self.connections.taken(stream) + 1;
        self.connections.note_taken(stream, taken);
        if let Piece::File(piece) | Piece::Hole(piece) = piece {
            *self.taken.entry((piece.file, piece.offset)).or_insert(0) += 1;
        }
        if tally.ended() {
            self.connections.note_done(stream);
        }
        Ok(())
    }

    fn open(&mut self, piece: &FilePiece) -> Result<(), Fault> {
        if piece.is_whole() {
            return Ok(());
        }
        if let Some(open) = self.open.get(&piece.file) {
            let same = FilePiece {
                offset: open.first.offset,
                len: open.first.len,
                ..piece.clone()
            };
            return if same == open.first {
                Ok(())
            } else {
                Err("pieces of one file differ".into())
            };
        }
        if self.open.len() >= MAX_OPEN_FILES {
            return Err("too many files at once".into());
        }
        let open = Open {
            first: piece.clone(),
            arrivals: Arrivals::new(piece.size),
            assembly: Assembly::new(piece.size),
            pieces: BTreeSet::new(),
        };
        self.open.insert(piece.file, open);
        Ok(())
    }

    fn add(
        &mut self,
        piece: &FilePiece,
        verdict: Verdict,
        content: Option<u64>,
        hole: bool,
    ) -> Result<(), Fault> {
        let arrived = match hole {
            true => Arrivals::add_hole,
            false => Arrivals::add,
        };
        let value = checksum(content, piece.offset, piece.len);
        if piece.is_whole() {
            let mut arrivals = Arrivals::new(piece.size);
            arrived(&mut arrivals, piece, verdict).map_err(|error| error.to_string())?;
            if !arrivals.given_up() {
                assert!(arrivals.ended());
                self.named.insert(piece.path.clone(), value);
            }
            return Ok(());
        }
        // Another stream may have brought the last of it meanwhile, if the sender lies.
        let open = self
            .open
            .get_mut(&piece.file)
            .ok_or("a piece of a file that is whole")?;
        arrived(&mut open.arrivals, piece, verdict).map_err(|error| error.to_string())?;
        if open.arrivals.given_up() {
            if open.arrivals.ended() {
                self.open.remove(&piece.file);
            }
            return Ok(());
        }
        let added = open.assembly.add(piece.offset, piece.len, value);
        let digest = added.map_err(|error| error.to_string())?;
        open.pieces.insert((piece.offset, piece.offset + piece.len));
        let Some(digest) = digest else {
            return Ok(());
        };
        let mut end = 0;
        for (from, to) in &open.pieces {
            assert_eq!(*from, end, "a whole file has each byte once");
            end = *to;
        }
        assert!(end == piece.size && open.arrivals.ended());
        self.open.remove(&piece.file);
        self.named.insert(piece.path.clone(), *digest.as_bytes());
        Ok(())
    }

    /// Whether all has come.
    pub fn done(&self) -> Result<bool, Fault> {
        if self.connections.left() > 0 {
            return Ok(false);
        }
        if self.open.is_empty() {
            Ok(true)
        } else {
            Err("a file is incomplete".into())
        }
    }

    /// What all streams have brought.
    pub fn totals(&self) -> Totals {
        let each: Vec<_> = self.tallies.iter().map(StreamTally::totals).collect();
        each.iter().sum()
    }

    /// Asserts what holds whatever the other end does.
    pub fn check(&self) {
        assert!(self.open.len() <= MAX_OPEN_FILES);
        for open in self.open.values() {
            let come = open.arrivals.come();
            assert!(come.bytes + come.hole_bytes <= open.first.size);
        }
    }
}

fn as_it_came(piece: FilePiece, hole: bool) -> Piece {
    match hole {
        true => Piece::Hole(piece),
        false => Piece::File(piece),
    }
}
