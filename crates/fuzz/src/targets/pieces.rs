//! Data streams: greetings, headers of pieces, what has come of a file, paths.

use std::num::NonZeroU64;
use std::sync::Arc;

use howdah_wire::access_list::{ACCESS_LISTS, Who, entries, with_numbers};
use howdah_wire::limits::{
    MAX_HEADER_BYTES, MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_PIECE_BYTES, MAX_PIPED_BYTES,
    MAX_STREAMS, MAX_XATTRS_BYTES, MIN_BLOCK_BYTES,
};
use howdah_wire::{
    Account, AccountNames, Arrivals, Attributes, Connection, FileFlags, FilePiece,
    HEADER_LENGTH_BYTES, LinkTarget, Owner, Piece, PieceError, PipedPiece, Special, StreamHello,
    StreamTally, Totals, TreePath, Verdict, Xattr, Xattrs,
};

use crate::input::Input;
use crate::memory::within;

fn file(path: &[u8], size: u64, offset: u64, len: u64) -> FilePiece {
    FilePiece {
        file: 7,
        source: 0,
        path: TreePath::try_from(path.to_vec()).unwrap_or_default(),
        attributes: Attributes {
            mode: 0o644,
            mtime_ns: -1,
            owner: None,
            xattrs: None,
        },
        size,
        offset,
        len,
    }
}

/// Asserts that a path stays in its folder, as the standard library reads paths.
fn assert_inside(path: &TreePath) {
    use std::os::unix::ffi::OsStrExt;
    use std::path::Component;
    let bytes = path.as_bytes();
    let parts: Vec<_> = std::path::Path::new(std::ffi::OsStr::from_bytes(bytes))
        .components()
        .collect();
    assert!(
        parts
            .iter()
            .all(|part| matches!(part, Component::Normal(name) if name.len() <= MAX_NAME_BYTES))
    );
    let slashes = bytes.iter().filter(|byte| **byte == b'/').count();
    assert_eq!(parts.len(), if bytes.is_empty() { 0 } else { slashes + 1 });
    assert!(bytes.len() <= MAX_PATH_BYTES && !bytes.contains(&0));
}

pub mod headers {
    //! The headers of one stream, one after the other, without payload and without their checks.

    use super::*;

    pub fn run(data: &[u8]) {
        let mut tally = StreamTally::default();
        let mut counted = Totals::default();
        let mut over = false;
        let mut rest = data;
        while let Some((length, behind)) = rest.split_first_chunk::<HEADER_LENGTH_BYTES>() {
            let Ok(length) = Piece::header_len(*length) else {
                return;
            };
            assert!(length <= MAX_HEADER_BYTES);
            let Some((header, behind)) = behind.split_at_checked(length) else {
                return;
            };
            rest = behind;
            let header = [header, &Piece::check(header)].concat();
            let mut damaged = header.clone();
            damaged[length / 2] ^= 1;
            assert_eq!(Piece::decode(&damaged), Err(PieceError::Damaged));
            let Ok(piece) = within(4 << 20, || Piece::decode(&header)) else {
                return;
            };
            assert_sound(&piece);
            let mut again = Vec::new();
            if piece.encode(&mut again).is_err() {
                // Its check is beyond the longest header.
                assert!(header.len() > MAX_HEADER_BYTES);
                return;
            }
            let again = &again[HEADER_LENGTH_BYTES..];
            assert!(again.len() <= header.len());
            assert!(again == header || again.len() < header.len());
            assert_eq!(Piece::decode(again).as_ref(), Ok(&piece));
            let ends = matches!(&piece, Piece::End(totals) if *totals == counted);
            let fits = !over && (ends || !matches!(piece, Piece::End(_)));
            assert_eq!(tally.accept(&piece).is_ok(), fits);
            if !fits {
                return;
            }
            over |= ends;
            counted.count(&piece);
            assert_eq!((tally.totals(), tally.ended()), (counted, over));
        }
    }

    fn assert_sound(piece: &Piece) {
        match piece {
            Piece::File(file) | Piece::There(file) | Piece::Hole(file) => {
                let end = u128::from(file.offset) + u128::from(file.len);
                assert!(end <= file.size.into() && file.len <= MAX_PIECE_BYTES);
                assert!(file.attributes.mode <= 0o7777);
                assert_eq!(file.offset % MIN_BLOCK_BYTES, 0);
                let whole = file.len == file.size;
                assert!(!whole || !matches!(piece, Piece::There(_)));
                assert!(file.len > 0 || whole && matches!(piece, Piece::File(_)));
                // A subtree of the BLAKE3 tree: full, or the last of the file.
                let full = file.len.is_power_of_two() && file.len >= MIN_BLOCK_BYTES;
                assert!(whole || full || end == file.size.into());
                assert_inside(&file.path);
            }
            Piece::Folder {
                path, attributes, ..
            } => {
                assert!(attributes.mode <= 0o7777);
                assert_inside(path);
            }
            Piece::Link { path, target, .. } => {
                let target = target.as_bytes();
                assert!((1..MAX_PATH_BYTES).contains(&target.len()) && !target.contains(&0));
                assert_inside(path);
            }
            Piece::Special {
                path, attributes, ..
            }
            | Piece::Attributes {
                path, attributes, ..
            } => {
                if let Some(xattrs) = &attributes.xattrs {
                    assert!(xattrs.bytes() <= MAX_XATTRS_BYTES);
                    assert_eq!(xattrs.name_of(Who::User(0)), None);
                    assert_eq!(xattrs.name_of(Who::Group(u32::MAX)), None);
                    // S, d, A, D (linux/fs.h).
                    let flags = xattrs.flags.map_or(0, FileFlags::bits);
                    assert_eq!(flags & !0x1_00c8, 0);
                }
                assert!(attributes.mode <= 0o7777);
                assert_inside(path);
            }
            Piece::HardLink { path, first, .. } => {
                assert_inside(path);
                assert_inside(first);
            }
            Piece::Piped(PipedPiece { offset, len, last }) => {
                assert!(offset.checked_add(*len).is_some() && *len <= MAX_PIPED_BYTES);
                assert_eq!(offset % MIN_BLOCK_BYTES, 0);
                assert!(*len > 0 || *last && *offset == 0);
                // Of a pipe that never ends, each piece is worth what is kept of it.
                assert!(*last || len.is_power_of_two() && *len >= MIN_BLOCK_BYTES);
            }
            Piece::Sealed { attributes, .. } => assert!(attributes.mode <= 0o7777),
            Piece::Memory { len } => assert!((1..=MAX_PIECE_BYTES).contains(len)),
            Piece::End(_) => {}
        }
    }

    fn owner(name: &str) -> Arc<Owner> {
        let account = || Account {
            number: 1000,
            name: Some(name.to_owned()),
        };
        Arc::new(Owner {
            user: account(),
            group: account(),
        })
    }

    /// An attribute, and an access list that tells a user and a group by name.
    fn named_xattrs() -> Option<Arc<Xattrs>> {
        let account = |number, name: &str| Account {
            number,
            name: Some(name.to_owned()),
        };
        let named = |name: &[u8], value: &[u8]| Xattr {
            name: name.to_vec(),
            value: value.to_vec(),
        };
        let names = AccountNames {
            users: vec![account(7, "me"), account(8, "you")],
            groups: vec![account(7, "us")],
        };
        let each = vec![
            named(ACCESS_LISTS[0], &super::access_lists::LIST),
            named(b"user.x", b"y"),
        ];
        let mut all = Xattrs::with_names(each, names)?;
        all.flags = Some(FileFlags::of(0x40));
        Some(Arc::new(all))
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let attributes = Attributes {
            mode: 0o755,
            mtime_ns: 1,
            owner: None,
            xattrs: None,
        };
        let path = TreePath::try_from(b"a/b".to_vec()).unwrap_or_default();
        let target = LinkTarget::try_from(b"../x".to_vec()).expect("a target");
        let mut pieces = vec![
            Piece::Folder {
                source: 0,
                path: path.clone(),
                attributes: attributes.clone(),
            },
            Piece::Link {
                source: 1,
                path: path.clone(),
                target,
                mtime_ns: 5,
                owner: None,
                xattrs: named_xattrs(),
            },
            Piece::Attributes {
                source: 1,
                path: path.clone(),
                size: 10,
                attributes: Attributes {
                    owner: Some(owner("me")),
                    xattrs: named_xattrs(),
                    ..attributes.clone()
                },
            },
            Piece::Piped(PipedPiece {
                offset: MIN_BLOCK_BYTES,
                len: 7,
                last: true,
            }),
            Piece::Sealed {
                size: MIN_BLOCK_BYTES + 7,
                blake3: [7; 32],
                attributes: attributes.clone(),
            },
            Piece::Special {
                source: 1,
                path: path.clone(),
                attributes: attributes.clone(),
                kind: Special::BlockDevice,
                device: (8, 1),
            },
            Piece::HardLink {
                source: 1,
                path: path.clone(),
                first_source: 0,
                first: path,
                size: 10,
                mtime_ns: 5,
            },
            Piece::File(file(b"f", 10, 0, 10)),
            Piece::File(file(b"g/h", 9 << 20, 4 << 20, 4 << 20)),
            Piece::File(file(b"g/h", 9 << 20, 8 << 20, 1 << 20)),
            Piece::Hole(file(b"h", 1 << 40, 1 << 26, 1 << 26)),
            Piece::Hole(file(b"i", 9, 0, 9)),
            Piece::Memory { len: 4096 },
        ];
        let mut totals = Totals::default();
        pieces.iter().for_each(|piece| totals.count(piece));
        pieces.push(Piece::End(totals));
        let encoded = |pieces: &[Piece]| {
            let mut bytes = Vec::new();
            for piece in pieces {
                let mut one = Vec::new();
                piece.encode(&mut one).expect("it is short");
                let body = &one[HEADER_LENGTH_BYTES..one.len() - Piece::check(&[]).len()];
                bytes.extend((body.len() as u16).to_le_bytes());
                bytes.extend(body);
            }
            bytes
        };
        let mut seeds: Vec<_> = pieces
            .iter()
            .map(|piece| encoded(std::slice::from_ref(piece)))
            .collect();
        seeds.push(encoded(&pieces));
        seeds
    }
}

pub mod access_lists {
    //! An access list as the value of an attribute, with other numbers for its users and groups.

    use super::*;

    /// The owner, two users, the owner's group, a group, the mask and all others.
    pub const LIST: [u8; 60] = list([
        (0x01, 7, u32::MAX),
        (0x02, 6, 7),
        (0x02, 5, 8),
        (0x04, 4, u32::MAX),
        (0x08, 3, 7),
        (0x10, 7, u32::MAX),
        (0x20, 0, u32::MAX),
    ]);

    const fn list(each: [(u8, u8, u32); 7]) -> [u8; 60] {
        let mut bytes = [0; 60];
        bytes[0] = 2;
        let mut index = 0;
        while index < each.len() {
            let (tag, may, number) = each[index];
            let at = 4 + 8 * index;
            bytes[at] = tag;
            bytes[at + 2] = may;
            let number = number.to_le_bytes();
            let mut byte = 0;
            while byte < number.len() {
                bytes[at + 4 + byte] = number[byte];
                byte += 1;
            }
            index += 1;
        }
        bytes
    }

    pub fn run(data: &[u8]) {
        let Some((&number, value)) = data.split_first() else {
            return;
        };
        let Some(there) = entries(value) else {
            return;
        };
        // Some are known here by one number.
        let here = |who| match who {
            Who::User(other) | Who::Group(other) => (other % 2 == 0).then_some(number.into()),
            Who::Other => None,
        };
        let told: Vec<_> = there.iter().map(|entry| entry.who()).collect();
        let given = with_numbers(there, here);
        assert!(given.len() <= value.len());
        let given = entries(&given).expect("it is an access list");
        assert!(given.is_sorted());
        let numbered: Vec<_> = given.iter().map(|entry| entry.who()).collect();
        let meant = |who: Who| match (who, here(who)) {
            (Who::User(_), Some(number)) => Who::User(number),
            (Who::Group(_), Some(number)) => Who::Group(number),
            _ => who,
        };
        assert!(told.iter().all(|who| numbered.contains(&meant(*who))));
        let both = numbered.windows(2).filter(|both| both[0] != Who::Other);
        assert!(both.clone().all(|both| both[0] != both[1]));
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let with = |number: u8| [&[number][..], &LIST].concat();
        vec![with(7), with(200)]
    }
}

pub mod greetings {
    //! The first bytes of a connection of a data stream, from anybody.

    use super::*;

    pub fn run(data: &[u8]) {
        let Some(bytes) = data.first_chunk() else {
            return;
        };
        if let Ok(hello) = StreamHello::decode(bytes) {
            assert!(usize::from(hello.connection.stream) < MAX_STREAMS);
            assert_eq!(hello.encode(), *bytes);
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let hello = StreamHello {
            proof: [7; 32],
            connection: Connection {
                stream: 3,
                incarnation: 515,
            },
        };
        vec![hello.encode().to_vec()]
    }
}

pub mod arrivals {
    //! Pieces of one file, with payload or holes, and what their sender says of it, in any order.

    use super::*;

    pub fn run(data: &[u8]) {
        let mut input = Input::new(data);
        let size = number(&mut input);
        let mut arrivals = Arrivals::new(size);
        let (mut come, mut given_up) = (0_u128, None);
        while !input.is_empty() {
            let piece = file(b"f", size, number(&mut input), number(&mut input));
            let verdict = Verdict {
                given_up: NonZeroU64::new(number(&mut input)),
            };
            assert_eq!(Verdict::decode(verdict.encode()), Ok(verdict));
            let begun = given_up.or(verdict.given_up);
            let most = begun.map_or(size, |begun| begun.get());
            let fits = most <= size
                && come + u128::from(piece.len) <= most.into()
                && (verdict.given_up.is_none() || verdict.given_up == begun);
            let before = arrivals.come();
            let is_hole = input.byte() & 1 != 0;
            let added = match is_hole {
                true => arrivals.add_hole(&piece, verdict),
                false => arrivals.add(&piece, verdict),
            };
            assert_eq!(added, if fits { Ok(()) } else { Err(PieceError::Tally) });
            if fits {
                come += u128::from(piece.len);
                given_up = begun;
            } else {
                assert_eq!(arrivals.come(), before, "a refused piece changes nothing");
            }
            let Totals {
                bytes, hole_bytes, ..
            } = arrivals.come();
            assert_eq!(u128::from(bytes) + u128::from(hole_bytes), come);
            assert_eq!(arrivals.given_up(), given_up.is_some());
            let all = given_up.map_or(size, |begun| begun.get());
            assert_eq!(arrivals.ended(), come == all.into());
        }
    }

    fn number(input: &mut Input<'_>) -> u64 {
        match input.byte() {
            255 => input.u64(),
            254 => u64::from(input.u16()),
            blocks @ 200.. => u64::from(blocks - 200) * MIN_BLOCK_BYTES,
            small => u64::from(small),
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        vec![
            vec![8, 0, 4, 0, 0, 4, 4, 0, 0],
            vec![202, 0, 201, 0, 1, 201, 201, 202, 0],
            vec![203, 201, 201, 202, 1, 0, 201, 0, 1],
            vec![0, 0, 0, 0, 0],
        ]
    }
}

pub mod paths {
    //! Paths below a source and targets of links: a name, then what it is joined to.

    use super::*;

    pub fn run(data: &[u8]) {
        let mut input = Input::new(data);
        let length = input.below(64);
        let name = input.bytes(length);
        let rest = input.rest().to_vec();
        if let Ok(target) = LinkTarget::try_from(rest.clone()) {
            assert_eq!(target.as_bytes(), rest);
        }
        let Ok(path) = TreePath::try_from(rest.clone()) else {
            return;
        };
        assert_inside(&path);
        assert_eq!(path.as_bytes(), rest);
        if let Ok(joined) = path.join(name) {
            assert_inside(&joined);
            let parent = joined
                .as_bytes()
                .strip_suffix(name)
                .expect("it ends in the name");
            assert_eq!(parent.strip_suffix(b"/").unwrap_or(parent), path.as_bytes());
            assert!(!name.contains(&b'/'));
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let mut seeds: Vec<Vec<u8>> = [
            &b"\x01na/b"[..],
            b"\x02../a/..",
            b"\x00a//b",
            b"\x03a/b/c",
            b"\x01.x",
        ]
        .iter()
        .map(|seed| seed.to_vec())
        .collect();
        seeds.push([b"\x01n".to_vec(), b"x".repeat(MAX_NAME_BYTES)].concat());
        seeds
    }
}
