//! A near end that lies, and strangers at the far end's door.

mod listing;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use howdah_filter::Filters;
use howdah_transfer::stream::Stream;
use howdah_transfer::tls::{Connector, Identity};
use howdah_transfer::{TransferError, serve};
use howdah_wire::{
    Attributes, Connection, Content, Delete, Direction, FarHello, FilePiece, FrameReader, Hello,
    Job, Keep, Limit, LinkTarget, Memory, Message, Piece, PipedPiece, Removal, Skip, Steering,
    StreamHello, StreamPlan, TAKEN_BYTES, Totals, TreePath, Verdict, encode, preamble,
};

use listing::names;

/// A near end made by hand, with one plaintext data stream.
struct Liar {
    control: UnixStream,
    frames: FrameReader,
    hello: FarHello,
    far: JoinHandle<Result<(), TransferError>>,
    base: tempfile::TempDir,
}

impl Liar {
    /// Pushes the source `src` to the folder `dst/`, which is there and empty.
    fn begin() -> Self {
        Self::begin_with(None)
    }

    /// The same, over encrypted data streams if there is an identity for them.
    fn begin_with(identity: Option<&Identity>) -> Self {
        Self::begin_job(identity, |_| {})
    }

    /// The same, with another job.
    fn begin_job(identity: Option<&Identity>, change: impl FnOnce(&mut Job)) -> Self {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("dst")).unwrap();
        fs::write(base.path().join("victim"), b"precious").unwrap();
        let (mut control, far) = UnixStream::pair().unwrap();
        let read = far.try_clone().unwrap();
        let far = thread::spawn(move || serve(read.into(), far.into()));
        control
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        control.write_all(&preamble()).unwrap();
        let hello = Hello {
            version: "liar".into(),
            key: identity.map_or(Vec::new(), |own| own.public_key().to_vec()),
        };
        control
            .write_all(&encode(&Message::Hello(hello)).unwrap())
            .unwrap();
        let mut frames = FrameReader::new();
        let Message::FarHello(hello) = hear(&mut control, &mut frames).unwrap() else {
            panic!("no greeting")
        };
        let mut liar = Self {
            control,
            frames,
            hello: *hello,
            far,
            base,
        };
        let destination = liar.target().as_os_str().as_bytes().to_vec();
        let mut job = Job {
            destination,
            encrypt: identity.is_some(),
            ..job()
        };
        change(&mut job);
        liar.say(&Message::Job(Box::new(job)));
        liar
    }

    fn target(&self) -> PathBuf {
        self.base.path().join("dst")
    }

    fn say(&mut self, message: &Message) {
        self.control.write_all(&encode(message).unwrap()).unwrap();
    }

    /// A data stream that greets with `token`.
    fn stream(&self, token: [u8; 32]) -> TcpStream {
        let mut stream = dial(self.hello.port);
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(&greeting(&token)).unwrap();
        stream
    }

    /// Sends bytes on the data stream; why the far end gives up, and that it left nothing behind but what
    /// was verified of `src/file`, under the name of a part.
    fn lie(mut self, bytes: &[u8]) -> String {
        let mut stream = self.stream(self.hello.token);
        stream.write_all(bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let reason = loop {
            match hear(&mut self.control, &mut self.frames) {
                Some(Message::Failed(reason)) => break reason,
                Some(Message::Finished(_)) | None => panic!("the far end believes it"),
                Some(_) => {}
            }
        };
        assert!(self.far.join().unwrap().is_err());
        assert_eq!(
            fs::read(self.base.path().join("victim")).unwrap(),
            b"precious"
        );
        assert_eq!(names(self.base.path()), ["dst", "victim"]);
        let target = self.base.path().join("dst");
        let mut left = files(&target);
        left.retain(|path| *path != target.join("src/.file.howdah-part"));
        assert_eq!(left, Vec::<PathBuf>::new());
        reason
    }
}

/// A connection to a far end, which opens its port only when it has read the greeting.
fn dial(port: u16) -> TcpStream {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < until =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            other => return other.unwrap(),
        }
    }
}

/// The greeting of the first connection of the only stream.
fn greeting(token: &[u8; 32]) -> [u8; StreamHello::BYTES] {
    greeting_again(token, 0)
}

/// The greeting of one of its connections.
fn greeting_again(token: &[u8; 32], incarnation: u16) -> [u8; StreamHello::BYTES] {
    let connection = Connection {
        stream: 0,
        incarnation,
    };
    let proof = *blake3::keyed_hash(token, &connection.to_le_bytes()).as_bytes();
    StreamHello { proof, connection }.encode()
}

fn hear(control: &mut UnixStream, frames: &mut FrameReader) -> Option<Message> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(message) = frames.next_message().unwrap() {
            return Some(message);
        }
        match control.read(&mut buffer).unwrap() {
            0 => return None,
            count => frames.push(&buffer[..count]),
        }
    }
}

/// Regular files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files(&entry.path())),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

fn tree_path(path: &str) -> TreePath {
    TreePath::try_from(path.as_bytes().to_vec()).unwrap()
}

fn piece(path: &str, size: u64, offset: u64, len: u64) -> FilePiece {
    FilePiece {
        file: 1,
        source: 0,
        path: tree_path(path),
        attributes: Attributes {
            mode: 0o644,
            mtime_ns: 0,
            owner: None,
            xattrs: None,
        },
        size,
        offset,
        len,
    }
}

fn header(piece: Piece) -> Vec<u8> {
    let mut bytes = Vec::new();
    piece.encode(&mut bytes).unwrap();
    bytes
}

/// A whole file with its digest.
fn file(path: &str, content: &[u8]) -> Vec<u8> {
    let len = content.len() as u64;
    let mut bytes = header(Piece::File(piece(path, len, 0, len)));
    bytes.extend_from_slice(content);
    bytes.extend(Verdict::default().encode());
    bytes.extend_from_slice(blake3::hash(content).as_bytes());
    bytes
}

/// The same bytes with a path that the types refuse to hold.
fn disguised(bytes: Vec<u8>, path: &str, lie: &str) -> Vec<u8> {
    assert_eq!(path.len(), lie.len());
    let at = bytes
        .windows(path.len())
        .position(|part| part == path.as_bytes())
        .unwrap();
    let mut bytes = bytes;
    bytes[at..at + lie.len()].copy_from_slice(lie.as_bytes());
    bytes
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
        while !matches!(
            hear(&mut liar.control, &mut liar.frames),
            Some(Message::Finished(_))
        ) {}
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
    };
    let reason = liar.lie(&[header(link), file("way/victim", b"evil")].concat());
    assert!(reason.contains("src/way"), "{reason}");
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
        folders: 0,
        links: 0,
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

#[test]
fn strangers_are_turned_away_and_change_nothing() {
    let mut liar = Liar::begin();
    let mut token = liar.hello.token;
    token[31] ^= 1;
    let mut strangers = vec![liar.stream(token)];
    let mut noise = dial(liar.hello.port);
    noise
        .write_all(b"GET / HTTP/1.0\r\nHost: elsewhere.example\r\nAccept: */*\r\n\r\n")
        .unwrap();
    noise
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    strangers.push(noise);
    for mut stranger in strangers {
        // Closed with nothing sent, perhaps by a reset because there was more to read.
        assert!(matches!(stranger.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
    let content = b"honest";
    let mut stream = liar.stream(liar.hello.token);
    stream.write_all(&file("file", content)).unwrap();
    let totals = Totals {
        bytes: 6,
        files: 1,
        folders: 0,
        links: 0,
    };
    stream.write_all(&header(Piece::End(totals))).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    while !matches!(
        hear(&mut liar.control, &mut liar.frames),
        Some(Message::Finished(_))
    ) {}
    assert_eq!(fs::read(liar.target().join("src/file")).unwrap(), content);
    liar.far.join().unwrap().unwrap();
}

/// Silent connections and noise without a pause, until `over`.
fn flood(port: u16, over: &AtomicBool) -> usize {
    let mut kept = VecDeque::new();
    let mut made = 0;
    while !over.load(Ordering::Relaxed) {
        if let Ok(mut stranger) = TcpStream::connect(("127.0.0.1", port)) {
            made += 1;
            if made % 3 == 0 {
                // It may have been closed already.
                let _ = stranger.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc");
            }
            kept.push_back(stranger);
        }
        if kept.len() > 2_000 {
            kept.pop_front();
        }
    }
    made
}

#[test]
fn a_flood_of_strangers_from_the_same_address_keeps_no_stream_out() {
    let liar = Liar::begin();
    let port = liar.hello.port;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let flooding: Vec<_> = (0..2).map(|_| scope.spawn(|| flood(port, &over))).collect();
        thread::sleep(Duration::from_secs(2));
        let mut liar = liar;
        let mut stream = liar.stream(liar.hello.token);
        stream.write_all(&file("file", b"honest")).unwrap();
        let totals = Totals {
            bytes: 6,
            files: 1,
            ..Totals::default()
        };
        stream.write_all(&header(Piece::End(totals))).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        while !matches!(
            hear(&mut liar.control, &mut liar.frames),
            Some(Message::Finished(_))
        ) {}
        over.store(true, Ordering::Relaxed);
        let made: usize = flooding.into_iter().map(|one| one.join().unwrap()).sum();
        assert!(made > 1_000, "{made}");
        assert_eq!(fs::read(liar.target().join("src/file")).unwrap(), b"honest");
        liar.far.join().unwrap().unwrap();
    });
}

#[test]
fn nobody_can_connect_before_a_near_end_is_there() {
    let (mut control, far) = UnixStream::pair().unwrap();
    let read = far.try_clone().unwrap();
    let far = thread::spawn(move || serve(read.into(), far.into()));
    let mut frames = FrameReader::new();
    let Message::FarHello(hello) = hear(&mut control, &mut frames).unwrap() else {
        panic!("no greeting")
    };
    let refused = TcpStream::connect(("127.0.0.1", hello.port)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    drop(control);
    assert!(far.join().unwrap().is_err(), "it has not been greeted");
}

#[test]
fn who_says_nothing_is_hung_up_on_when_nobody_is_missing() {
    let identity = Identity::generate().unwrap();
    let mut liar = Liar::begin_with(Some(&identity));
    let connector = Connector::new(&identity, &liar.hello.key).unwrap();
    let connect = || dial(liar.hello.port);
    let patience = Duration::from_secs(20);
    let known = || {
        let mut socket = connect();
        socket.write_all(&greeting(&liar.hello.token)).unwrap();
        socket
    };
    let (plain, proven) = (connect(), known());
    let mut stream = connector.connect(known(), patience).unwrap();
    stream.put(&header(Piece::End(Totals::default()))).unwrap();
    stream.finish().unwrap();
    for silent in [plain.as_fd(), proven.as_fd()] {
        let mut silent = TcpStream::from(silent.try_clone_to_owned().unwrap());
        silent.set_read_timeout(Some(patience)).unwrap();
        let heard = silent.read(&mut [0; 1]).map_err(|error| error.kind());
        assert!(
            matches!(heard, Ok(0) | Err(ErrorKind::ConnectionReset)),
            "{heard:?}"
        );
    }
    while !matches!(
        hear(&mut liar.control, &mut liar.frames),
        Some(Message::Finished(_))
    ) {}
    liar.far.join().unwrap().unwrap();
}

#[test]
fn a_message_out_of_place_and_a_frame_of_noise_end_the_session() {
    for noise in [
        encode(&Message::Job(Box::new(job()))).unwrap(),
        encode(&Message::Steer(steering())).unwrap(),
        encode(&Message::Limit(Limit {
            most_bps: Some(0),
            paused: false,
        }))
        .unwrap(),
        vec![0xff; 64],
    ] {
        let mut liar = Liar::begin();
        liar.control.write_all(&noise).unwrap();
        let started = Instant::now();
        assert!(liar.far.join().unwrap().is_err());
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn a_sender_is_steered_to_nothing_that_the_plan_or_a_kernel_has_not() {
    let lies = [
        (0, None),
        (2, None),
        (1, Some("bbr\0".to_owned())),
        (1, Some("x".repeat(1 << 20))),
    ];
    for (streams, congestion_control) in lies {
        let mut liar = Liar::begin_job(None, |job| {
            job.direction = Direction::Pull;
            job.sources.clear();
            job.memory = Some(Memory::Bytes(1 << 20));
        });
        liar.say(&Message::Steer(Steering {
            congestion_control,
            streams,
            ..steering()
        }));
        assert!(liar.far.join().unwrap().is_err());
    }
}

/// A job that removes what the source has not, of a folder to which these pieces come and that has no names.
fn removal_by(pieces: &[u8], pushed: Totals, folders: &[&str]) -> (tempfile::TempDir, Removal) {
    let mut liar = Liar::begin_job(None, |job| {
        // In a new folder nothing would be looked for.
        let target = Path::new(OsStr::from_bytes(&job.destination)).join("src");
        fs::create_dir(target).unwrap();
        job.delete = Some(Delete {
            excluded: false,
            most: None,
        });
    });
    fs::create_dir(liar.base.path().join("outside")).unwrap();
    fs::write(liar.base.path().join("outside/precious"), b"precious").unwrap();
    let mut stream = liar.stream(liar.hello.token);
    stream.write_all(pieces).unwrap();
    stream.write_all(&header(Piece::End(pushed))).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    for folder in folders {
        liar.say(&Message::Content(vec![Content {
            source: 0,
            folder: tree_path(folder),
            names: Vec::new(),
            complete: true,
        }]));
    }
    liar.say(&Message::AllSent { whole: true });
    let finished = loop {
        match hear(&mut liar.control, &mut liar.frames) {
            Some(Message::Finished(finished)) => break finished,
            Some(Message::Failed(why)) => panic!("{why}"),
            None => panic!("the far end has gone"),
            Some(_) => {}
        }
    };
    liar.far.join().unwrap().unwrap();
    (liar.base, finished.removal.unwrap())
}

#[test]
fn a_link_does_not_lead_a_removal_outside() {
    for points_to in ["../../outside", "/", ".."] {
        let link = Piece::Link {
            source: 0,
            path: tree_path("way"),
            target: LinkTarget::try_from(points_to.as_bytes().to_vec()).unwrap(),
            mtime_ns: 0,
            owner: None,
        };
        let pushed = Totals {
            links: 1,
            ..Totals::default()
        };
        let (base, removal) = removal_by(&header(link), pushed, &["way", "way/outside", "other"]);
        assert_eq!(removal, Removal::default());
        for name in ["victim", "outside/precious"] {
            assert_eq!(fs::read(base.path().join(name)).unwrap(), b"precious");
        }
    }
}

fn steering() -> Steering {
    Steering {
        congestion_control: Some("reno".to_owned()),
        streams: 1,
        pacing_bps: None,
    }
}

fn job() -> Job {
    Job {
        direction: Direction::Push,
        sources: vec![b"src".to_vec()],
        destination: b"dst".to_vec(),
        destination_is_folder: true,
        filters: Filters::default(),
        named: false,
        walk: howdah_wire::Walk::default(),
        skip: Skip::default(),
        delete: None,
        keep: Keep::default(),
        memory: None,
        pipe: false,
        dry_run: false,
        encrypt: false,
        sync: true,
        fresh: false,
        sample_every_ns: 100_000_000,
        patience_ns: 300_000_000_000,
        limit: Limit::default(),
        plan: StreamPlan {
            congestion_control: None,
            streams: 1,
            buffer_bytes: None,
            pacing_bps: None,
            block_bytes: 1 << 20,
        },
        peer: None,
        tells_digests: false,
    }
}
