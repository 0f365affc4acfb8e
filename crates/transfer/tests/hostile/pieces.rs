//! Pieces that lie: of where they belong, of what they are, and of how many there are.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;

use howdah_wire::{
    HEADER_LENGTH_BYTES, Job, LinkTarget, Memory, Piece, PipedPiece, TAKEN_BYTES, Totals, Verdict,
};

use super::liar::{Liar, dial, file, greeting_again, header, piece, tree_path};

/// The same piece with a path that the types refuse to hold, and a check that fits it.
fn disguised(bytes: Vec<u8>, path: &str, lie: &str) -> Vec<u8> {
    assert_eq!(path.len(), lie.len());
    let at = bytes
        .windows(path.len())
        .position(|part| part == path.as_bytes())
        .unwrap();
    let mut bytes = bytes;
    bytes[at..at + lie.len()].copy_from_slice(lie.as_bytes());
    let header = HEADER_LENGTH_BYTES..HEADER_LENGTH_BYTES + header_bytes(&bytes);
    let (body, check) = bytes[header].split_last_chunk_mut().unwrap();
    *check = Piece::check(body);
    bytes
}

fn header_bytes(piece: &[u8]) -> usize {
    Piece::header_len(*piece.first_chunk().unwrap()).unwrap()
}

#[test]
fn a_header_that_was_changed_on_the_way_is_refused() {
    let whole = file("aa/victim", b"good");
    let header = HEADER_LENGTH_BYTES..HEADER_LENGTH_BYTES + header_bytes(&whole);
    for at in header.step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        let reason = Liar::begin().lie(&bytes);
        assert!(
            reason.contains("bytes were damaged on the way"),
            "{at}: {reason}"
        );
    }
}

#[test]
fn paths_that_lead_outside_are_refused() {
    for lie in [
        "../victim",
        "/x/victim",
        "a/../../v",
        "a/./victi",
        "a//victim",
        "a/victi\0m",
    ] {
        let bytes = disguised(file("aa/victim", b"evil"), "aa/victim", lie);
        let reason = Liar::begin().lie(&bytes);
        assert!(reason.contains("header is malformed"), "{lie}: {reason}");
    }
}

#[test]
fn payload_of_no_file_is_refused_where_files_move() {
    let mut bytes = header(Piece::Memory { len: 4 });
    bytes.extend_from_slice(b"void");
    let reason = Liar::begin().lie(&bytes);
    assert!(reason.contains("header is malformed"), "{reason}");
}

#[test]
fn what_ends_early_is_asked_for_again_by_what_was_taken() {
    for sent in [0, 1, 3] {
        let mut liar = Liar::begin_job(None, |job| {
            job.sources.clear();
            job.memory = Some(Memory::Bytes(10));
        });
        let whole = |len: u64| [header(Piece::Memory { len }), vec![7; len as usize]].concat();
        let mut first = whole(6);
        first.extend_from_slice(&whole(4)[..header(Piece::Memory { len: 4 }).len() + sent]);
        let mut stream = liar.stream(liar.hello.token);
        stream.write_all(&first).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
        // A connection that was there before is nobody's, and changes nothing.
        let mut again = liar.stream(liar.hello.token);
        assert!(matches!(again.read(&mut [0; 1]), Ok(0) | Err(_)));

        let mut stream = dial(liar.hello.port);
        stream
            .write_all(&greeting_again(&liar.hello.token, 7))
            .unwrap();
        let mut taken = [0; TAKEN_BYTES];
        stream.read_exact(&mut taken).unwrap();
        assert_eq!(u64::from_le_bytes(taken), 1, "{sent}");
        stream.write_all(&whole(4)).unwrap();
        let totals = Totals {
            bytes: 10,
            ..Totals::default()
        };
        stream.write_all(&header(Piece::End(totals))).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        liar.finished();
        liar.far.join().unwrap().unwrap();
    }
}

#[test]
fn a_link_does_not_lead_the_next_file_outside() {
    let liar = Liar::begin();
    let target = LinkTarget::try_from(liar.base.path().as_os_str().as_bytes().to_vec()).unwrap();
    let link = Piece::Link {
        source: 0,
        path: tree_path("way"),
        target,
        mtime_ns: 0,
        owner: None,
        xattrs: None,
    };
    // A folder takes the place of the link; what is to be in it is damaged, so that the copy ends.
    let mut bytes = [header(link), file("way/victim", b"evil")].concat();
    let last = bytes.len() - 32 - Verdict::BYTES - 1;
    bytes[last] ^= 1;
    let reason = liar.lie(&bytes);
    assert!(reason.contains("checksum does not match"), "{reason}");
}

#[test]
fn a_source_that_was_not_named_has_no_place() {
    let mut other = piece("file", 4, 0, 4);
    other.source = 1;
    let reason = Liar::begin().lie(&[header(Piece::File(other)), b"evil".to_vec()].concat());
    assert!(reason.contains("no such source"), "{reason}");
}

#[test]
fn damaged_payload_is_noticed() {
    let mut bytes = file("file", b"content");
    let last = bytes.len() - 32 - Verdict::BYTES - 1;
    bytes[last] ^= 1;
    let reason = Liar::begin().lie(&bytes);
    assert!(reason.contains("checksum does not match"), "{reason}");
}

#[test]
fn comparisons_with_what_is_not_there_have_an_end() {
    let there = |offset| {
        let mut bytes = header(Piece::There(piece("file", 2 << 20, offset, 1 << 20)));
        bytes.extend(Verdict::default().encode());
        bytes.extend([7; 32]);
        bytes
    };
    let end = header(Piece::End(Totals::default()));
    let once = [there(0), there(1 << 20), end].concat();
    let reason = Liar::begin().lie(&once);
    assert!(reason.contains("src/file is incomplete"), "{reason}");
    let again = [there(0), there(1 << 20), there(0)].concat();
    let reason = Liar::begin().lie(&again);
    assert!(reason.contains("does not tally"), "{reason}");
}

#[test]
fn a_file_with_a_part_missing_is_not_complete() {
    let content = vec![7; 1 << 20];
    let mut bytes = header(Piece::File(piece("file", 2 << 20, 0, 1 << 20)));
    bytes.extend_from_slice(&content);
    bytes.extend(Verdict::default().encode());
    let mut hasher = blake3::Hasher::new();
    hasher.update(&content);
    bytes.extend_from_slice(&blake3::hazmat::HasherExt::finalize_non_root(&hasher));
    let once = bytes.clone();
    let totals = Totals {
        bytes: 1 << 20,
        files: 1,
        ..Totals::default()
    };
    bytes.extend(header(Piece::End(totals)));
    let reason = Liar::begin().lie(&bytes);
    assert!(reason.contains("src/file is incomplete"), "{reason}");
    let twice = [once.clone(), once].concat();
    assert!(Liar::begin().lie(&twice).contains("malformed"));
}

#[test]
fn a_file_given_up_must_tally_and_leaves_nothing() {
    let given_up = |begun_bytes: u64| {
        let mut bytes = header(Piece::File(piece("file", 2 << 20, 0, 1 << 20)));
        bytes.resize(bytes.len() + (1 << 20), 7);
        let given_up = begun_bytes.try_into().ok();
        bytes.extend(Verdict { given_up }.encode());
        bytes
    };
    let end = header(Piece::End(Totals {
        bytes: 1 << 20,
        files: 1,
        ..Totals::default()
    }));
    for wrong in [1, (1 << 20) - 1, (2 << 20) + 1, u64::MAX] {
        let reason = Liar::begin().lie(&[given_up(wrong), end.clone()].concat());
        assert!(reason.contains("does not tally"), "{wrong}: {reason}");
    }
    // More is announced than comes.
    let reason = Liar::begin().lie(&[given_up(2 << 20), end].concat());
    assert!(reason.contains("src/file is incomplete"), "{reason}");
}

/// A part of what a pipe gave.
fn piped(offset: u64, content: &[u8], last: bool) -> Vec<u8> {
    let len = content.len() as u64;
    let mut bytes = header(Piece::Piped(PipedPiece { offset, len, last }));
    bytes.extend_from_slice(content);
    let mut hasher = blake3::Hasher::new();
    blake3::hazmat::HasherExt::set_input_offset(&mut hasher, offset);
    hasher.update(content);
    if last && offset == 0 {
        bytes.extend_from_slice(hasher.finalize().as_bytes());
    } else {
        bytes.extend(blake3::hazmat::HasherExt::finalize_non_root(&hasher));
    }
    bytes
}

fn sealed(size: u64, blake3: [u8; 32]) -> Vec<u8> {
    header(Piece::Sealed {
        size,
        blake3,
        attributes: piece("", 0, 0, 0).attributes,
    })
}

fn end_of(bytes: u64) -> Vec<u8> {
    header(Piece::End(Totals {
        bytes,
        files: 1,
        ..Totals::default()
    }))
}

#[test]
fn a_pipe_that_is_not_sealed_or_lies_of_what_it_gave_leaves_nothing() {
    let of_a_pipe = |job: &mut Job| {
        job.pipe = true;
        job.destination_is_folder = false;
        job.destination.extend(b"/dump");
    };
    let lie = |bytes: &[u8]| Liar::begin_job(None, of_a_pipe).lie(bytes);
    let (block, rest) = (vec![7; 1 << 18], b"rest".to_vec());
    let all = [block.clone(), rest.clone()].concat();
    let digest = *blake3::hash(&all).as_bytes();
    let parts = [piped(0, &block, false), piped(1 << 18, &rest, true)].concat();
    let size = all.len() as u64;
    // Killed before it could say that its pipe has ended.
    let cut = [piped(0, &block, false), end_of(1 << 18)].concat();
    assert!(lie(&cut).contains("the end of its pipe has not come"));
    assert!(lie(&[parts.clone(), end_of(size)].concat()).contains("has not come"));
    let early = [
        piped(0, &block, false),
        sealed(size, digest),
        end_of(1 << 18),
    ]
    .concat();
    assert!(lie(&early).contains("has not come"));
    for wrong in [sealed(size, [7; 32]), sealed(size - 1, digest)] {
        let reason = lie(&[parts.clone(), wrong, end_of(size)].concat());
        assert!(
            reason.contains("the digests of the two ends differ"),
            "{reason}"
        );
    }
    for wrong in [
        [parts.clone(), piped(1 << 18, &rest, true)].concat(),
        [piped(1 << 18, &rest, true), piped(1 << 19, &block, false)].concat(),
        [piped(0, &block, false), piped(0, &rest, true)].concat(),
        file("", &rest),
        header(Piece::Memory { len: 4 }),
    ] {
        let reason = lie(&wrong);
        assert!(reason.contains("header is malformed"), "{reason}");
    }
    let mut damaged = parts.clone();
    let in_payload = damaged.len() - 33;
    damaged[in_payload] ^= 1;
    assert!(lie(&damaged).contains("checksum does not match"));
    // The parts of another kind of job.
    for piped in [parts, sealed(size, digest)] {
        assert!(Liar::begin().lie(&piped).contains("header is malformed"));
    }
}

#[test]
fn an_end_that_does_not_tally_is_refused() {
    let reason = Liar::begin().lie(&header(Piece::End(Totals {
        bytes: 1,
        ..Totals::default()
    })));
    assert!(reason.contains("does not tally"), "{reason}");
}
