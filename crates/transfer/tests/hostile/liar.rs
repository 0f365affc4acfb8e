//! A near end made by hand, and what it says.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use howdah_filter::Filters;
use howdah_transfer::tls::Identity;
use howdah_transfer::{TransferError, serve};
use howdah_wire::{
    Attributes, Connection, Direction, FarHello, FilePiece, Finished, FrameReader, Hello, Job,
    Keep, Limit, Message, Piece, Skip, StreamHello, StreamPlan, TreePath, Verdict, encode,
    preamble,
};

use crate::listing::names;

/// A near end made by hand, with one plaintext data stream.
pub struct Liar {
    pub control: UnixStream,
    pub frames: FrameReader,
    pub hello: FarHello,
    pub far: JoinHandle<Result<(), TransferError>>,
    pub base: tempfile::TempDir,
}

impl Liar {
    /// Pushes the source `src` to the folder `dst/`, which is there and empty.
    pub fn begin() -> Self {
        Self::begin_with(None)
    }

    /// The same, over encrypted data streams if there is an identity for them.
    pub fn begin_with(identity: Option<&Identity>) -> Self {
        Self::begin_job(identity, |_| {})
    }

    /// The same, with another job.
    pub fn begin_job(identity: Option<&Identity>, change: impl FnOnce(&mut Job)) -> Self {
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

    pub fn target(&self) -> PathBuf {
        self.base.path().join("dst")
    }

    pub fn say(&mut self, message: &Message) {
        self.control.write_all(&encode(message).unwrap()).unwrap();
    }

    /// Waits until the far end has all, which it may not refuse.
    pub fn finished(&mut self) -> Finished {
        loop {
            match hear(&mut self.control, &mut self.frames) {
                Some(Message::Finished(finished)) => return *finished,
                Some(Message::Failed(why)) => panic!("{why}"),
                None => panic!("the far end has gone"),
                Some(_) => {}
            }
        }
    }

    /// A data stream that greets with `token`.
    pub fn stream(&self, token: [u8; 32]) -> TcpStream {
        let mut stream = dial(self.hello.port);
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(&greeting(&token)).unwrap();
        stream
    }

    /// Sends bytes on the data stream; why the far end gives up, and that it left nothing behind but what
    /// was verified of `src/file`, under the name of a part.
    pub fn lie(mut self, bytes: &[u8]) -> String {
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
pub fn dial(port: u16) -> TcpStream {
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
pub fn greeting(token: &[u8; 32]) -> [u8; StreamHello::BYTES] {
    greeting_again(token, 0)
}

/// The greeting of one of its connections.
pub fn greeting_again(token: &[u8; 32], incarnation: u16) -> [u8; StreamHello::BYTES] {
    let connection = Connection {
        stream: 0,
        incarnation,
    };
    let proof = *blake3::keyed_hash(token, &connection.to_le_bytes()).as_bytes();
    StreamHello { proof, connection }.encode()
}

pub fn hear(control: &mut UnixStream, frames: &mut FrameReader) -> Option<Message> {
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

pub fn tree_path(path: &str) -> TreePath {
    TreePath::try_from(path.as_bytes().to_vec()).unwrap()
}

pub fn piece(path: &str, size: u64, offset: u64, len: u64) -> FilePiece {
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

pub fn header(piece: Piece) -> Vec<u8> {
    let mut bytes = Vec::new();
    piece.encode(&mut bytes).unwrap();
    bytes
}

/// A whole file with its digest.
pub fn file(path: &str, content: &[u8]) -> Vec<u8> {
    let len = content.len() as u64;
    let mut bytes = header(Piece::File(piece(path, len, 0, len)));
    bytes.extend_from_slice(content);
    bytes.extend(Verdict::default().encode());
    bytes.extend_from_slice(blake3::hash(content).as_bytes());
    bytes
}

pub fn job() -> Job {
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
