//! The sending end of the model: what it sends on a stream, and sends again on the next connection.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;

use howdah_transfer::assembly::Assembly;
use howdah_transfer::kept::{Form, Kept, Read, Sent, SentFile};
use howdah_wire::{Attributes, FilePiece, Piece, TAKEN_BYTES, Totals, TreePath, Verdict};

use super::pipe::Pipe;
use super::{ATTRIBUTES, Fault, ZEROS, checksum};

/// A file at the source.
#[derive(Debug)]
pub struct Source {
    /// Its path.
    pub path: TreePath,
    /// Its size in bytes.
    pub size: u64,
    begun: u64,
    given_up: Option<NonZeroU64>,
    digests: Assembly,
}

/// What is still to be sent.
#[derive(Debug)]
enum Block {
    Header(Piece),
    File {
        file: u64,
        offset: u64,
        len: u64,
        form: Form,
    },
}

/// The sending end.
pub struct Sender {
    /// All files; their place is their number.
    pub files: Vec<Source>,
    /// Digests of files that the other end has taken whole.
    pub digests: BTreeMap<TreePath, [u8; 32]>,
    /// Whether nothing is added to what is to be sent.
    pub complete: bool,
    /// What is kept of each stream.
    pub kept: Vec<Kept>,
    blocks: VecDeque<Block>,
    block_bytes: u64,
}

/// The sending end of one connection.
#[derive(Debug, Default)]
pub struct Line {
    /// What goes again, once the receiver has said what it has.
    again: Option<VecDeque<(u64, Sent)>>,
}

impl Line {
    /// One that replaces another has to be told first what was taken.
    pub fn new(incarnation: u16) -> Self {
        let again = (incarnation == 0).then(VecDeque::new);
        Self { again }
    }
}

impl Sender {
    /// Files of these sizes.
    pub fn new(sizes: &[u64], block_bytes: u64, streams: u16) -> Self {
        let source = |(number, size): (usize, &u64)| Source {
            path: TreePath::try_from(format!("d/{number}").into_bytes()).expect("it is a path"),
            size: *size,
            begun: 0,
            given_up: None,
            digests: Assembly::new(*size),
        };
        let folder = Piece::Folder {
            source: 0,
            path: TreePath::try_from(b"d".to_vec()).expect("it is a path"),
            attributes: ATTRIBUTES,
        };
        Self {
            files: sizes.iter().enumerate().map(source).collect(),
            digests: BTreeMap::new(),
            complete: false,
            kept: (0..streams).map(|_| Kept::new(streams)).collect(),
            blocks: VecDeque::from([Block::Header(folder)]),
            block_bytes,
        }
    }

    /// Puts a file in line.
    pub fn queue(&mut self, file: usize) {
        let size = self.files[file].size;
        let mut offset = 0;
        loop {
            let len = self.block_bytes.min(size - offset);
            // Of each file, every third part is a hole, of the first file the first.
            let part = file as u64 + offset / self.block_bytes;
            let form = match len > 0 && part.is_multiple_of(3) {
                true => Form::Hole,
                false => Form::Payload,
            };
            self.blocks.push_back(Block::File {
                file: file as u64,
                offset,
                len,
                form,
            });
            offset += len;
            if offset >= size {
                return;
            }
        }
    }

    /// Sends the next piece on a connection; whether there was one. `fails`: it cannot be read.
    pub fn send(
        &mut self,
        stream: u16,
        line: &mut Line,
        pipe: &mut Pipe,
        fails: bool,
    ) -> Result<bool, Fault> {
        let Some(again) = &mut line.again else {
            return Ok(false);
        };
        let (number, sent) = if let Some(next) = again.pop_front() {
            next
        } else {
            let kept = &self.kept[usize::from(stream)];
            if kept.ended() || !kept.has_room() {
                return Ok(false);
            }
            let sent = match self.blocks.pop_front() {
                Some(Block::Header(piece)) => Sent::Header(piece),
                Some(Block::File {
                    file,
                    offset,
                    len,
                    form,
                }) => self.first_time(file, offset, len, form),
                None if self.complete => Sent::Header(Piece::End(kept.totals())),
                None => return Ok(false),
            };
            (self.kept[usize::from(stream)].keep(sent.clone()), sent)
        };
        match sent {
            Sent::Header(piece) => pipe.put(&encoded(&piece)?),
            Sent::File(file) => self.put_file(stream, number, &file, pipe, fails)?,
            Sent::Piped(_) => unreachable!("this sender has no pipe"),
        }
        Ok(true)
    }

    fn first_time(&mut self, file: u64, offset: u64, len: u64, form: Form) -> Sent {
        let source = &mut self.files[file as usize];
        source.begun += len;
        Sent::File(SentFile {
            piece: FilePiece {
                file,
                source: 0,
                path: source.path.clone(),
                attributes: Attributes {
                    mode: 0o600,
                    mtime_ns: file.cast_signed(),
                    owner: None,
                    xattrs: None,
                },
                size: source.size,
                offset,
                len,
            },
            big: None,
            form,
            read: Read::NotYet,
        })
    }

    fn put_file(
        &mut self,
        stream: u16,
        number: u64,
        sent: &SentFile,
        pipe: &mut Pipe,
        fails: bool,
    ) -> Result<(), Fault> {
        let piece = &sent.piece;
        pipe.put(&encoded(&sent.header())?);
        let content = match sent.form {
            Form::Hole => ZEROS,
            _ => {
                pipe.put_payload(piece.file, piece.len);
                piece.file
            }
        };
        let source = &mut self.files[piece.file as usize];
        if fails && piece.len > 0 && source.given_up.is_none() {
            source.given_up = NonZeroU64::new(source.begun);
            self.blocks
                .retain(|block| !matches!(block, Block::File { file, .. } if *file == piece.file));
        }
        let given_up = self.files[piece.file as usize].given_up;
        pipe.put(&Verdict { given_up }.encode());
        let kept = &self.kept[usize::from(stream)];
        if given_up.is_some() {
            kept.note_read(number, Read::GivenUp);
        } else {
            let checksum = checksum(Some(content), piece.offset, piece.len);
            kept.note_read(number, Read::Whole(checksum));
            pipe.put(&checksum);
        }
        Ok(())
    }

    /// Reads what the receiver says first on a connection that replaces another one.
    pub fn read(&mut self, stream: u16, line: &mut Line, pipe: &mut Pipe) -> Result<(), Fault> {
        if line.again.is_some() {
            return Ok(());
        }
        let Some(bytes) = pipe.take(TAKEN_BYTES) else {
            return Ok(());
        };
        let taken = bytes
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        if taken < self.kept[usize::from(stream)].all().0 {
            return Err("it has taken less than it said before".into());
        }
        self.let_go(stream, taken)?;
        let (first, pieces) = self.kept[usize::from(stream)].all();
        line.again = Some((first..).zip(pieces).collect());
        Ok(())
    }

    /// Lets go of what was taken of a stream.
    pub fn let_go(&mut self, stream: u16, taken: u64) -> Result<(), Fault> {
        let kept = &self.kept[usize::from(stream)];
        let sent = kept.sent();
        for gone in kept.let_go(taken).map_err(|error| error.to_string())? {
            let Sent::File(SentFile {
                piece,
                read: Read::Whole(checksum),
                ..
            }) = gone
            else {
                continue;
            };
            let source = &mut self.files[piece.file as usize];
            let digest = if piece.is_whole() {
                Some(checksum)
            } else {
                let added = source.digests.add(piece.offset, piece.len, checksum);
                added
                    .expect("each piece is let go once")
                    .map(|hash| *hash.as_bytes())
            };
            if let Some(digest) = digest {
                assert!(
                    source.given_up.is_none(),
                    "a file that is given up has no digest"
                );
                let before = self.digests.insert(piece.path, digest);
                assert_eq!(before, None, "a file has one digest");
            }
        }
        assert!(taken <= sent && kept.sent() == sent);
        Ok(())
    }

    /// Files that were given up.
    pub fn given_up(&self) -> impl Iterator<Item = &TreePath> {
        self.files
            .iter()
            .filter(|file| file.given_up.is_some())
            .map(|file| &file.path)
    }

    /// What all streams have carried, each piece once.
    pub fn totals(&self) -> Totals {
        let each: Vec<_> = self.kept.iter().map(Kept::totals).collect();
        each.iter().sum()
    }
}

fn encoded(piece: &Piece) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    piece
        .encode(&mut bytes)
        .map_err(|error| error.to_string())?;
    Ok(bytes)
}
