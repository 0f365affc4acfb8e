//! Two hosts and an emulated link for the tests of this crate, and why they may not run here.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use howdah_emulator::{Emulator, Host};
use howdah_link::{Change, DirectionSpec, Spec};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Why programs cannot be loaded here; `None` where they can.
pub fn missing_privilege() -> Option<String> {
    howdah_cc::check_kernel().err().map(|why| why.to_string())
}

/// One emulated link with addresses on both ends.
pub struct Path {
    emulator: Emulator,
}

impl Path {
    pub fn new(rate_bps: u64, rtt_ns: u64, loss: f64) -> Self {
        Self::of(rate_bps, rtt_ns, loss, Vec::new())
    }

    /// A path whose way from near to far changes after it has begun.
    pub fn of(rate_bps: u64, rtt_ns: u64, loss: f64, changes: Vec<Change>) -> Self {
        Self::with_queue(rate_bps, rtt_ns, None, loss, changes)
    }

    /// A path with room for so much before its bottleneck.
    #[allow(dead_code, reason = "not every test needs it")]
    pub fn shallow(rate_bps: u64, rtt_ns: u64, queue_bytes: u64) -> Self {
        Self::with_queue(rate_bps, rtt_ns, Some(queue_bytes), 0.0, Vec::new())
    }

    fn with_queue(
        rate_bps: u64,
        rtt_ns: u64,
        queue_bytes: Option<u64>,
        loss: f64,
        changes: Vec<Change>,
    ) -> Self {
        let idle = DirectionSpec {
            rate_bps: Some(rate_bps),
            delay_ns: rtt_ns / 2,
            jitter_ns: 0,
            queue_bytes: None,
            loss: 0.0,
            burst: None,
            changes: Vec::new(),
        };
        let spec = Spec {
            mtu: 1500,
            frame_overhead_bytes: 38,
            seed: 1,
            near_to_far: DirectionSpec {
                loss,
                changes,
                queue_bytes,
                ..idle.clone()
            },
            far_to_near: idle,
        };
        let mut emulator = Emulator::new(&spec).unwrap();
        for (host, own, peer) in [(Host::Near, 1, 2), (Host::Far, 2, 1)] {
            let device = emulator.device();
            inside(emulator.namespace(host), || {
                ip(&format!(
                    "addr add 10.78.0.{own} peer 10.78.0.{peer} dev {device}"
                ));
                ip(&format!(
                    "addr add fd78::{own} peer fd78::{peer} dev {device} nodad"
                ));
                await_route6(peer);
                for (name, most) in [
                    ("tcp_rmem", "4096 131072 67108864"),
                    ("tcp_wmem", "4096 16384 67108864"),
                ] {
                    fs::write(format!("/proc/sys/net/ipv4/{name}"), most).unwrap();
                }
            });
        }
        emulator.start().unwrap();
        Self { emulator }
    }

    /// A connection whose near end uses `control`.
    #[allow(dead_code, reason = "not every test needs it")]
    pub fn connection(&self, control: &str, family: u8) -> (TcpStream, TcpStream) {
        self.connection_to(&self.listener(family), control)
    }

    /// A listener on the far host.
    pub fn listener(&self, family: u8) -> TcpListener {
        let address = if family == 6 {
            "[fd78::2]:0"
        } else {
            "10.78.0.2:0"
        };
        inside(self.emulator.namespace(Host::Far), || {
            TcpListener::bind(address).unwrap()
        })
    }

    /// Runs `what` on the near host.
    pub fn near<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        inside(self.emulator.namespace(Host::Near), what)
    }

    /// New connections from the near host begin with so many segments.
    #[allow(dead_code, reason = "not every test needs it")]
    pub fn begin_with(&self, segments: u32) {
        let device = self.emulator.device();
        self.near(|| {
            ip(&format!(
                "route replace 10.78.0.2 dev {device} initcwnd {segments}"
            ));
        });
    }

    /// A connection from the near host to `listener`.
    pub fn connection_to(&self, listener: &TcpListener, control: &str) -> (TcpStream, TcpStream) {
        let to = listener.local_addr().unwrap();
        let near = self.near(|| connect(to, control));
        let (far, _) = listener.accept().unwrap();
        (near, far)
    }
}

fn connect(to: SocketAddr, control: &str) -> TcpStream {
    use rustix::net::{self, AddressFamily, SocketType, sockopt};
    let family = if to.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let socket: OwnedFd = net::socket(family, SocketType::STREAM, None).unwrap();
    sockopt::set_tcp_congestion(&socket, control).unwrap();
    net::connect(&socket, &to).unwrap();
    socket.into()
}

/// Runs `what` on a thread in a network namespace.
pub fn inside<T: Send>(namespace: BorrowedFd<'_>, what: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            what()
        });
        thread.join().unwrap()
    })
}

fn ip(arguments: &str) {
    let done = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .unwrap();
    assert!(done.success(), "ip {arguments}");
}

/// Returns once this thread's namespace has a route to `fd78::peer`. The kernel adds it from a work queue, so on a busy
/// machine it comes after `ip` has returned.
fn await_route6(peer: u8) {
    let to = format!("fd78{peer:028x} 80 ");
    let until = Instant::now() + Duration::from_secs(20);
    while !fs::read_to_string("/proc/thread-self/net/ipv6_route")
        .unwrap()
        .contains(&to)
    {
        assert!(Instant::now() < until, "no route to fd78::{peer}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sends `bytes` from one end to the other and waits until all have arrived.
pub fn send(near: &mut TcpStream, far: &mut TcpStream, bytes: usize) {
    thread::scope(|scope| {
        scope.spawn(move || {
            let block = vec![0; 1 << 16];
            let mut left = bytes;
            while left > 0 {
                let part = left.min(block.len());
                near.write_all(&block[..part]).unwrap();
                left -= part;
            }
        });
        let mut block = vec![0; 1 << 16];
        let mut left = bytes;
        while left > 0 {
            let part = left.min(block.len());
            let got = far.read(&mut block[..part]).unwrap();
            assert_ne!(got, 0, "closed with {left} bytes to come");
            left -= got;
        }
    });
}
