//! The overseer of a confined far end, in a separate process. It reads the policy, counts bytes and writes the log.
//!
//! The two processes use a pair of sockets, with one request and one answer at a time, each after its length. A
//! malicious near end may take the far end over. This process accepts only three kinds of requests from it, and ends
//! with it.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use howdah_transfer::Overseer;
use rustix::process::{Pid, WaitOptions, waitpid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// More than a job holds that fits into one frame of the control channel.
const BYTES_MAX: u32 = 8 << 20;

/// A request of the confined far end: one of the calls of an [`Overseer`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Whether a job may be carried out.
    Accept(Vec<u8>),
    /// Whether a copy may go on.
    Moved {
        /// Bytes that have arrived.
        moved: u64,
        /// Bytes that the copy is known to move.
        known: u64,
    },
    /// What has moved.
    Ended(Vec<u8>),
}

/// The process; dropping this ends it.
pub struct Apart {
    overseer: Arc<Asked>,
    process: Option<Pid>,
}

impl Apart {
    /// Starts the process. Must be called before this process is confined and has other threads.
    ///
    /// # Errors
    /// When this host gives none.
    pub fn start(overseer: &dyn Overseer) -> io::Result<Self> {
        let (asks, answers) = UnixStream::pair()?;
        // SAFETY: this process has no other thread, so the new one finds every lock as it should be.
        match unsafe { libc::fork() } {
            0 => {
                let leaves = Leaves;
                drop(asks);
                take_leave_of_ssh();
                let _ = answer(&answers, overseer);
                drop(leaves);
                unreachable!("the process has ended")
            }
            -1 => Err(io::Error::last_os_error()),
            process => Ok(Self {
                overseer: Arc::new(Asked(Mutex::new(asks))),
                process: Pid::from_raw(process),
            }),
        }
    }

    /// The overseer for the far end, which sends requests to the process.
    pub fn overseer(&self) -> Arc<dyn Overseer> {
        self.overseer.clone()
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = self.overseer.channel().shutdown(Shutdown::Both);
        // It has logged the outcome when it is gone.
        let _ = waitpid(self.process, WaitOptions::empty());
    }
}

/// Ends this process, also where it panics, before anything of its parent's runs in it.
struct Leaves;

impl Drop for Leaves {
    fn drop(&mut self) {
        // SAFETY: the call takes no memory, and never returns.
        unsafe { libc::_exit(0) }
    }
}

/// Leaves the far end's streams to it, which ssh waits for, and ends with it and not by a signal before the outcome
/// is logged.
fn take_leave_of_ssh() {
    // SAFETY: no other thread runs, and nothing of this process uses the two descriptors.
    unsafe {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::close(0);
        libc::close(1);
    }
}

/// Answers requests until the other side closes.
///
/// # Errors
/// When the other side has closed, or sends something that is not a request.
pub fn answer(mut channel: impl Read + Write, overseer: &dyn Overseer) -> io::Result<()> {
    loop {
        let answer = match receive(&mut channel)? {
            Request::Accept(job) => overseer.accept(&job),
            Request::Moved { moved, known } => overseer.moved(moved, known),
            Request::Ended(account) => overseer.ended(&account),
        };
        send(&mut channel, &answer)?;
    }
}

/// The overseer for the far end, which sends requests to the process.
struct Asked(Mutex<UnixStream>);

impl Asked {
    fn channel(&self) -> std::sync::MutexGuard<'_, UnixStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, request: &Request) -> Result<(), String> {
        let channel = self.channel();
        let answer = send(&*channel, request).and_then(|()| receive(&*channel));
        answer.unwrap_or_else(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => {
                Err("the overseer of this copy has ended".to_owned())
            }
            _ => Err(format!(
                "the overseer of this copy cannot be asked: {error}"
            )),
        })
    }
}

impl Overseer for Asked {
    fn accept(&self, job: &[u8]) -> Result<(), String> {
        self.ask(&Request::Accept(job.to_vec()))
    }

    fn moved(&self, moved: u64, known: u64) -> Result<(), String> {
        self.ask(&Request::Moved { moved, known })
    }

    fn ended(&self, account: &[u8]) -> Result<(), String> {
        self.ask(&Request::Ended(account.to_vec()))
    }
}

/// Sends a message behind its length.
///
/// # Errors
/// When the other side takes none.
pub fn send(mut channel: impl Write, message: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    channel.write_all(&length.to_le_bytes())?;
    channel.write_all(&bytes)
}

/// The next message.
///
/// # Errors
/// When there is no message, or it is longer than allowed.
pub fn receive<T: DeserializeOwned>(mut channel: impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    channel.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > BYTES_MAX {
        return Err(io::Error::other("a message is too long"));
    }
    let mut bytes = Vec::new();
    let taken = channel.take(length.into()).read_to_end(&mut bytes)?;
    if taken < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use std::process;

    /// Refuses what is no long job and says who does, and leaves the account in a file.
    struct Strict(PathBuf);

    impl Overseer for Strict {
        fn accept(&self, job: &[u8]) -> Result<(), String> {
            match job.len() {
                0..100 => Err("a short job".to_owned()),
                _ => Ok(()),
            }
        }

        fn moved(&self, moved: u64, known: u64) -> Result<(), String> {
            Err(format!("{moved} of {known}, {}", process::id()))
        }

        fn ended(&self, account: &[u8]) -> Result<(), String> {
            std::thread::sleep(std::time::Duration::from_millis(50));
            fs::write(&self.0, account).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn another_process_decides_and_has_noted_the_end_when_this_one_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("account");
        let apart = Apart::start(&Strict(file.clone())).unwrap();
        let asked = apart.overseer();
        assert_eq!(asked.accept(b"{}"), Err("a short job".to_owned()));
        // More than a socket holds.
        assert_eq!(asked.accept(&vec![b'x'; 4 << 20]), Ok(()));
        let said = asked.moved(3, u64::MAX).unwrap_err();
        let process = apart.process.unwrap().as_raw_nonzero().to_string();
        assert_eq!(said, format!("3 of {}, {process}", u64::MAX));
        assert_ne!(process, process::id().to_string());
        assert_eq!(asked.ended(b"done"), Ok(()));
        drop(apart);
        assert_eq!(fs::read(file).unwrap(), b"done");
        let gone = Err("the overseer of this copy has ended".to_owned());
        assert_eq!(asked.moved(4, 4), gone);
        // One after the other: what is forked while another test forks would keep its sockets open.
        for strange in [
            &[0xff; 4][..],
            &[1, 0, 0, 0, 9],
            &[4, 0, 0, 0, 0, 0xff, 0xff, 0xff],
        ] {
            let apart = Apart::start(&Strict("/no/such".into())).unwrap();
            (&*apart.overseer.channel()).write_all(strange).unwrap();
            let said = apart.overseer().accept(b"{}").unwrap_err();
            assert!(said.starts_with("the overseer of this copy "), "{said}");
        }
    }
}
