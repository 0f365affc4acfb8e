//! Connections that are made ahead of a copy, over loopback.

use std::fs;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::ends::job;
use howdah_tcp::congestion_control;
use howdah_transfer::{FarEnd, Reach, Session, Site, TransferError, connect_ahead};
use rustix::pipe::pipe;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const BYTES: usize = 3 << 20;

/// A far end that is kept ready, and the near side of its pipes.
struct Kept {
    read: OwnedFd,
    write: OwnedFd,
    far: JoinHandle<Result<(), TransferError>>,
}

impl Kept {
    fn new(ahead: u16) -> Self {
        let ((read, far_write), (far_read, write)) = (pipe().unwrap(), pipe().unwrap());
        let site = Site {
            ahead,
            ..Site::default()
        };
        let far = thread::spawn(move || {
            FarEnd::prepare(site)?.serve(far_read, far_write, &Reach::default())
        });
        Self { read, write, far }
    }

    fn connect(&self, count: u16) -> Vec<TcpStream> {
        connect_ahead(self.read.as_fd(), Some("127.0.0.1"), count, PATIENCE)
    }

    /// Copies a file on these connections; what its user sees.
    fn copy(self, made: Vec<TcpStream>, direction: &str, fill: bool) -> Value {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("howdah-ahead-{}-{number}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let (from, to) = (folder.join("from"), folder.join("to"));
        let content: Vec<u8> = (0..BYTES).map(|at| (at * 31 / 7) as u8).collect();
        fs::write(&from, &content).unwrap();
        let session = Session::new(self.read, self.write).unwrap();
        let session = session.with_connections(made, fill);
        // Who asks before the hello has been read loses nothing.
        let _ = session.hello(Duration::ZERO).unwrap();
        session.begin(PATIENCE);
        session.hello(PATIENCE).unwrap().unwrap();
        let plan = json!({"streams": 4, "block_bytes": 1 << 18});
        let job = job(direction, &[&from], &to).to_string();
        session
            .start(job.as_bytes(), plan.to_string().as_bytes())
            .unwrap();
        assert!(session.wait(PATIENCE), "the transfer hangs");
        let outcome: Value = serde_json::from_slice(&session.result().unwrap()).unwrap();
        self.far.join().unwrap().unwrap();
        assert_eq!(fs::read(&to).unwrap(), content);
        assert_eq!(outcome["bytes"], BYTES);
        fs::remove_dir_all(folder).unwrap();
        outcome
    }
}

#[test]
fn a_copy_begins_on_the_connections_made_ahead_in_either_direction() {
    for (direction, fill) in [("push", false), ("push", true), ("pull", true)] {
        let kept = Kept::new(4);
        let made = kept.connect(4);
        assert_eq!(made.len(), 4);
        for socket in &made {
            // Under bbr they would stay paced.
            assert_eq!(congestion_control(socket).unwrap(), "reno");
        }
        let outcome = kept.copy(made, direction, fill);
        assert_eq!(outcome["streams_ahead"], 4, "{direction} {fill}");
        assert_ne!(outcome["congestion_control"], "reno");
        assert_eq!(outcome["connections_replaced"], 0);
    }
}

#[test]
fn streams_beyond_them_connect_and_connections_beyond_the_plan_are_closed() {
    for (ahead, begun) in [(2, 2), (7, 4)] {
        let kept = Kept::new(ahead);
        let made = kept.connect(ahead);
        let outcome = kept.copy(made, "push", true);
        assert_eq!(outcome["streams_ahead"], begun);
    }
}

#[test]
fn what_broke_meanwhile_is_connected_again() {
    let kept = Kept::new(4);
    let made = kept.connect(4);
    for broken in &made[1..3] {
        rustix::net::sockopt::set_socket_linger(broken, Some(Duration::ZERO)).unwrap();
        broken.shutdown(std::net::Shutdown::Both).unwrap();
    }
    let outcome = kept.copy(made, "push", true);
    assert_eq!(outcome["streams_ahead"], 2);
}

#[test]
fn a_port_takes_so_many_and_then_nobody_can_connect_until_there_is_a_copy() {
    let kept = Kept::new(2);
    let made = kept.connect(2);
    let port = made[0].peer_addr().unwrap();
    let closed = Instant::now() + PATIENCE;
    while TcpStream::connect(port).is_ok() {
        assert!(Instant::now() < closed, "the port stays open");
        thread::sleep(Duration::from_millis(1));
    }
    // The rest of the copy's streams connect when its greeting has come.
    let outcome = kept.copy(made, "push", false);
    assert_eq!(outcome["streams_ahead"], 2);
}

#[test]
fn a_far_end_that_was_asked_for_none_has_its_port_closed() {
    let kept = Kept::new(0);
    assert!(kept.connect(1).is_empty());
    assert_eq!(kept.copy(Vec::new(), "push", true)["streams_ahead"], 0);
}
