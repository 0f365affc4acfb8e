//! Holes of sources: they are told, their zeros do not travel, and the target is as if they had.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, pipe};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;

use howdah_wire::limits::MAX_PIECE_BYTES;
use howdah_wire::{FilePiece, Job, Piece, Totals, Verdict};
use rustix::fs::FallocateFlags;
use serde_json::{Value, json};

use crate::ends::{self, Ends, content, job, listing};
use crate::hostile::liar::{Liar, file, header, piece};
use crate::piped;
use crate::session::MIB;

/// A file of `size` bytes with something at these places, and holes between.
fn write_holed(path: &Path, size: usize, data: &[(usize, usize)]) {
    let file = File::create(path).unwrap();
    file.set_len(size as u64).unwrap();
    for &(offset, len) in data {
        file.write_all_at(&content(len), offset as u64).unwrap();
    }
}

/// Something of each kind: a big file with some data, one that is all hole, alone in its piece or not, one whose space
/// is reserved, so that it is read, one with many small holes, one with none, and small files.
pub fn holed_tree(source: &Path) {
    fs::create_dir_all(source.join("sub")).unwrap();
    let at = |name: &str| source.join(name);
    write_holed(
        &at("big"),
        40 * MIB + 4321,
        &[(5 * MIB - 7, MIB), (33 * MIB, 100)],
    );
    write_holed(&at("sub/hole"), 7 * MIB + 1, &[]);
    write_holed(&at("sub/one piece"), 700_001, &[]);
    write_holed(&at("ends with data"), 3 * MIB, &[(3 * MIB - 1, 1)]);
    let many: Vec<_> = (0..24).map(|number| (number * 160_000, 9000)).collect();
    write_holed(&at("many holes"), 4 * MIB, &many);
    let reserved = File::create(at("reserved")).unwrap();
    rustix::fs::fallocate(&reserved, FallocateFlags::empty(), 0, 6 * MIB as u64).unwrap();
    fs::write(at("full"), content(2 * MIB)).unwrap();
    write_holed(&at("small"), 100_000, &[(50_000, 3)]);
    fs::write(at("zeros"), vec![0; 2 * MIB]).unwrap();
}

/// What files have together, in bytes.
fn apparent_bytes(source: &Path) -> u64 {
    let files = listing(source).into_iter();
    files.map(|file| file.4.len() as u64).sum()
}

fn number(outcome: &Value, key: &str) -> u64 {
    outcome[key].as_u64().unwrap()
}

/// The space that a file takes, in bytes.
fn stored(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

fn holed_job(direction: &str, base: &Path, sparse: bool) -> Value {
    let mut job = job(direction, &[&base.join("src").join(".")], &base.join("dst"));
    job["destination_is_folder"] = json!(true);
    job["keep"] = json!({"sparse": sparse});
    job
}

#[test]
fn holes_are_not_sent_and_the_target_is_as_if_they_were() {
    for (direction, sparse, encrypt) in [
        ("push", true, true),
        ("pull", true, false),
        ("push", false, false),
        ("pull", false, true),
    ] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        holed_tree(&source);
        let mut job = holed_job(direction, base.path(), sparse);
        job["encrypt"] = json!(encrypt);
        let kept = base.path().join("digests");
        ends::keep_digests(&mut job, &kept);
        let outcome = Ends::run(&job).unwrap();

        assert!(
            listing(&target) == listing(&source),
            "{direction}, {sparse}"
        );
        assert_eq!(
            (&outcome["files"], &outcome["left_out"]),
            (&json!(9), &json!([]))
        );
        let (bytes, holes) = (number(&outcome, "bytes"), number(&outcome, "hole_bytes"));
        assert_eq!(bytes + holes, apparent_bytes(&source));
        // The data, each with what is of its smallest blocks beside it, zeros that take space, and what is small.
        assert!(bytes < 14 * MIB as u64, "{bytes}");
        let by_streams = outcome["streams"].as_array().unwrap().iter();
        assert_eq!(
            by_streams.map(|one| number(one, "bytes")).sum::<u64>(),
            bytes
        );
        // What the kernels have acknowledged, headers and all.
        let mut acked = [0; 4];
        for sample in outcome["samples"].as_array().unwrap() {
            acked[number(sample, "stream") as usize] = number(sample, "bytes_acked");
        }
        let acked = acked.iter().sum::<u64>();
        assert!(acked < bytes + MIB as u64, "{acked} of {bytes}");

        for (name, hex) in ends::digests(&kept) {
            let expected = blake3::hash(&fs::read(source.join(&name)).unwrap()).to_hex();
            assert_eq!(hex, expected.as_str(), "{}", name.display());
        }
        // The journal of a part begins in the last block of its file.
        let journal = 4096;
        let sizes = listing(&source)
            .into_iter()
            .filter(|file| !file.4.is_empty());
        for (name, .., found) in sizes {
            let (there, size) = (stored(&target.join(&name)), found.len() as u64);
            let name = name.to_str().unwrap();
            match (sparse, name) {
                (true, "zeros" | "sub/hole" | "sub/one piece" | "reserved") => {
                    assert!(there <= journal, "{name}: {there}");
                }
                (true, _) => {
                    let at_source = stored(&source.join(name));
                    assert!(
                        there <= at_source + journal,
                        "{name}: {there} of {at_source}"
                    );
                }
                (false, _) => assert!(there >= size, "{name}: {there} of {size}"),
            }
        }
        let again = Ends::run(&job).unwrap();
        assert_eq!(
            (number(&again, "bytes"), number(&again, "hole_bytes")),
            (0, 0)
        );
        assert_eq!(again["files_skipped"], 9);
        job["skip"] = json!({"missing": false, "there": false, "newer": false, "same": "content"});
        let compared = Ends::run(&job).unwrap();
        assert_eq!(compared["files_skipped"], 9);
    }
}

#[test]
fn a_hole_of_a_terabyte_is_some_thousand_pieces() {
    let base = tempfile::tempdir().unwrap();
    let source = base.path().join("src");
    fs::create_dir(&source).unwrap();
    // Of a size that a test can hash.
    let size = 4 * MAX_PIECE_BYTES as usize + 5;
    write_holed(&source.join("big"), size, &[(MIB, MIB)]);
    let outcome = Ends::run(&holed_job("push", base.path(), true)).unwrap();
    assert_eq!(
        number(&outcome, "hole_bytes") + number(&outcome, "bytes"),
        size as u64
    );
    assert!(number(&outcome, "bytes") <= 2 * MIB as u64, "{outcome}");
    let samples = outcome["samples"].as_array().unwrap();
    let acked = samples
        .iter()
        .map(|one| number(one, "bytes_acked"))
        .max()
        .unwrap();
    assert!(acked < 3 * MIB as u64, "{acked}");
}

/// A file of the same size and time with other content.
fn replace(path: &Path, size: usize, data: &[(usize, usize)]) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    fs::remove_file(path).unwrap();
    write_holed(path, size, data);
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

#[test]
fn nothing_that_a_cut_copy_has_left_shows_through_a_hole() {
    let size = 24 * MIB + 77;
    for (direction, sparse) in [
        ("push", true),
        ("pull", true),
        ("push", false),
        ("pull", false),
    ] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir(&source).unwrap();
        fs::write(source.join("file"), content(size)).unwrap();
        let job = holed_job(direction, base.path(), sparse);
        let ends = Ends::start(&job, &json!({"pacing_bps": 100_000_000, "streams": 2}));
        ends.wait_for_bytes(12 * MIB as u64);
        ends.session.cancel();
        ends.result().unwrap_err();
        assert!(stored(&target.join(".file.howdah-part")) >= 8 * MIB as u64);

        replace(&source.join("file"), size, &[(MIB + 3, MIB), (20 * MIB, 5)]);
        let outcome = Ends::run(&job).unwrap();
        assert!(
            listing(&target) == listing(&source),
            "{direction}, {sparse}"
        );
        let holes = number(&outcome, "hole_bytes");
        let told = holes + number(&outcome, "bytes") + number(&outcome, "bytes_resumed");
        assert_eq!(told, size as u64);
        assert!(holes > 18 * MIB as u64, "{outcome}");
        let there = stored(&target.join("file"));
        assert_eq!(there < size as u64, sparse, "{there}");
    }
}

#[test]
fn a_copy_with_holes_goes_on_where_it_was_cut() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir(&source).unwrap();
        let size = 60 * MIB + 9;
        let data: Vec<_> = (0..6).map(|part| (part * 10 * MIB + 5, 4 * MIB)).collect();
        write_holed(&source.join("file"), size, &data);
        let job = holed_job(direction, base.path(), true);
        let ends = Ends::start(&job, &json!({"pacing_bps": 100_000_000, "streams": 2}));
        ends.wait_for_bytes(12 * MIB as u64);
        ends.session.cancel();
        ends.result().unwrap_err();
        let outcome = Ends::run(&job).unwrap();
        assert!(listing(&target) == listing(&source), "{direction}");
        let [bytes, holes, resumed] =
            ["bytes", "hole_bytes", "bytes_resumed"].map(|key| number(&outcome, key));
        assert_eq!(bytes + holes + resumed, size as u64);
        assert!(
            resumed >= 8 * MIB as u64 && bytes <= 17 * MIB as u64,
            "{outcome}"
        );
        let [there, at_source] = [&target, &source].map(|folder| stored(&folder.join("file")));
        // Where its blocks came in another order, the file system needs more to note where they are.
        assert!(there <= at_source + (64 << 10), "{there} of {at_source}");
    }
}

#[test]
fn a_hole_that_is_filled_while_its_file_is_read_is_a_change_of_the_file() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir(&source).unwrap();
        write_holed(&source.join("changes"), 400 * MIB, &[(0, 12 * MIB)]);
        write_holed(&source.join("stays"), 3 * MIB, &[(MIB, 5)]);
        let job = holed_job(direction, base.path(), true);
        let ends = Ends::start(&job, &json!({"pacing_bps": 100_000_000, "streams": 2}));
        ends.wait_for_bytes(4 * MIB as u64);
        let changes = OpenOptions::new()
            .write(true)
            .open(source.join("changes"))
            .unwrap();
        changes.write_all_at(b"!", 399 * MIB as u64).unwrap();
        let outcome = ends.result().unwrap();
        let left_out = outcome["left_out"].as_array().unwrap();
        assert_eq!(left_out.len(), 1, "{outcome}");
        assert!(
            left_out[0]
                .as_str()
                .unwrap()
                .contains("changed while it was read")
        );
        let left = listing(&target);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].0, Path::new("stays"));
        // What came of the other one counts for nothing.
        let told = number(&outcome, "bytes") + number(&outcome, "hole_bytes");
        assert_eq!((told, &outcome["files"]), (3 * MIB as u64, &json!(1)));
    }
}

#[test]
fn progress_tells_holes_apart_from_what_was_carried() {
    let base = tempfile::tempdir().unwrap();
    let source = base.path().join("src");
    fs::create_dir(&source).unwrap();
    write_holed(&source.join("file"), 100 * MIB, &[(80 * MIB, 20 * MIB)]);
    let job = holed_job("push", base.path(), true);
    let ends = Ends::start(&job, &json!({"pacing_bps": 100_000_000, "streams": 2}));
    ends.wait_until(|now| {
        let [done, holes] = ["bytes_done", "hole_bytes"].map(|key| number(now, key));
        assert!(done <= 20 * MIB as u64, "{now}");
        let to_move = 100 * MIB as u64 - holes;
        assert!(now["bytes_total"].is_null() || number(now, "bytes_total") == to_move);
        done > MIB as u64 && holes == 80 * MIB as u64
    });
    ends.result().unwrap();
}

#[test]
fn whoever_reads_a_pipe_gets_each_zero() {
    let base = tempfile::tempdir().unwrap();
    let source = base.path().join("holed");
    write_holed(&source, 9 * MIB + 5, &[(2 * MIB, 7)]);
    let (mut reader, writer) = pipe().unwrap();
    let ends = Ends::start(&piped::into(&writer, &source), &json!({}));
    drop(writer);
    let mut came = Vec::new();
    let outcome = thread::scope(|scope| {
        scope.spawn(|| reader.read_to_end(&mut came).unwrap());
        ends.result().unwrap()
    });
    assert!(came == fs::read(&source).unwrap());
    assert_eq!(number(&outcome, "hole_bytes"), 0);
}

/// The word that a part of a file is a hole, and what follows it.
fn hole(part: FilePiece) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    blake3::hazmat::HasherExt::set_input_offset(&mut hasher, part.offset);
    hasher.update(&vec![0; part.len as usize]);
    let checksum = match part.is_whole() {
        true => *hasher.finalize().as_bytes(),
        false => blake3::hazmat::HasherExt::finalize_non_root(&hasher),
    };
    let verdict = Verdict::default().encode();
    [
        header(Piece::Hole(part)),
        verdict.to_vec(),
        checksum.to_vec(),
    ]
    .concat()
}

#[test]
fn holes_that_cannot_be_are_refused() {
    let of = |offset, len| piece("file", 4 << 20, offset, len);
    for wrong in [
        of(4 << 20, 1 << 20),
        of(2 << 20, 4 << 20),
        of(1 << 20, 2 << 20),
        of(0, 0),
        of(0, 3 << 20),
        of(1000, 1 << 16),
        piece("file", 1 << 40, 0, 2 * MAX_PIECE_BYTES),
        piece("file", 0, 0, 0),
    ] {
        let said = format!("{wrong:?}");
        let reason = Liar::begin().lie(&header(Piece::Hole(wrong)));
        assert!(reason.contains("header is malformed"), "{said}: {reason}");
    }
    let first = || hole(of(0, 2 << 20));
    // The same again, a part of it, what it is a part of, and what was sent.
    for second in [of(0, 2 << 20), of(1 << 20, 1 << 20), of(0, 1 << 20)] {
        let reason = Liar::begin().lie(&[first(), hole(second)].concat());
        assert!(reason.contains("malformed"), "{reason}");
    }
    let other = FilePiece {
        size: 8 << 20,
        ..of(2 << 20, 2 << 20)
    };
    let reason = Liar::begin().lie(&[first(), hole(other)].concat());
    assert!(reason.contains("malformed"), "another size: {reason}");
    let mut wrong = first();
    *wrong.last_mut().unwrap() ^= 1;
    let reason = Liar::begin().lie(&wrong);
    assert!(reason.contains("checksum does not match"), "{reason}");
    let mut damaged = first();
    damaged[20] ^= 1;
    let reason = Liar::begin().lie(&damaged);
    assert!(reason.contains("bytes were damaged on the way"), "{reason}");
}

fn end(totals: Totals) -> Vec<u8> {
    header(Piece::End(totals))
}

#[test]
fn a_file_of_holes_alone_must_have_come_whole_and_tally() {
    let part = |offset| piece("file", 4 << 20, offset, 1 << 20);
    let some = [hole(part(0)), hole(part(1 << 20))].concat();
    let two = Totals {
        hole_bytes: 2 << 20,
        files: 1,
        ..Totals::default()
    };
    let reason = Liar::begin().lie(&[some.clone(), end(two)].concat());
    assert!(reason.contains("src/file is incomplete"), "{reason}");
    for wrong in [
        Totals {
            bytes: 2 << 20,
            hole_bytes: 0,
            ..two
        },
        Totals {
            hole_bytes: 0,
            ..two
        },
        Totals { files: 0, ..two },
    ] {
        let reason = Liar::begin().lie(&[some.clone(), end(wrong)].concat());
        assert!(reason.contains("does not tally"), "{reason}");
    }
    // It is given up, and more had begun than there is, or than comes.
    let given_up = |begun_bytes: u64| {
        let given_up = begun_bytes.try_into().ok();
        let verdict = Verdict { given_up }.encode();
        [header(Piece::Hole(part(0))), verdict.to_vec()].concat()
    };
    for wrong in [1, (1 << 20) - 1, (4 << 20) + 1, u64::MAX] {
        let reason = Liar::begin().lie(&given_up(wrong));
        assert!(reason.contains("does not tally"), "{wrong}: {reason}");
    }
    let one = Totals {
        hole_bytes: 1 << 20,
        ..two
    };
    let reason = Liar::begin().lie(&[given_up(2 << 20), end(one)].concat());
    assert!(reason.contains("src/file is incomplete"), "{reason}");
}

#[test]
fn a_hole_leads_nowhere_and_is_none_of_a_pipe() {
    let mut other = piece("file", 1 << 20, 0, 1 << 20);
    other.source = 1;
    let reason = Liar::begin().lie(&hole(other));
    assert!(reason.contains("no such source"), "{reason}");
    let of_a_pipe = |job: &mut Job| {
        job.pipe = true;
        job.destination_is_folder = false;
        job.destination.extend(b"/dump");
    };
    let reason = Liar::begin_job(None, of_a_pipe).lie(&hole(piece("", 1 << 20, 0, 1 << 20)));
    assert!(reason.contains("header is malformed"), "{reason}");
    let memory = |job: &mut Job| {
        job.sources.clear();
        job.memory = Some(howdah_wire::Memory::Bytes(1 << 20));
    };
    let reason = Liar::begin_job(None, memory).lie(&hole(piece("f", 1 << 20, 0, 1 << 20)));
    assert!(!reason.is_empty());
}

#[test]
fn a_hole_and_payload_of_an_honest_sender_make_a_file() {
    let mut liar = Liar::begin();
    let (whole, parts) = (piece("whole", 1 << 20, 0, 1 << 20), |offset| FilePiece {
        file: 2,
        ..piece(
            "parts",
            (1 << 20) + 5,
            offset,
            ((1 << 20) + 5 - offset).min(1 << 20),
        )
    });
    let said = [
        hole(whole),
        hole(parts(1 << 20)),
        hole(parts(0)),
        file("x", b"x"),
    ]
    .concat();
    let totals = Totals {
        bytes: 1,
        hole_bytes: (2 << 20) + 5,
        files: 3,
        ..Totals::default()
    };
    let mut stream = liar.stream(liar.hello.token);
    std::io::Write::write_all(&mut stream, &[said, end(totals)].concat()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(liar.finished().totals, totals);
    let at = |name: &str| -> PathBuf { liar.target().join("src").join(name) };
    assert_eq!(fs::read(at("whole")).unwrap(), vec![0; 1 << 20]);
    assert_eq!(fs::read(at("parts")).unwrap(), vec![0; (1 << 20) + 5]);
}
