//! Connections that have not proved yet that they belong to the session. Anybody can make one. So each costs a
//! descriptor and the bytes of a greeting at most, and a new one replaces the oldest one when there is no room.
//!
//! Connections from the address of the ssh client have room of their own, so that no other host can displace them. A
//! program of another user on the client's host can use that room, but it must know the token all the same.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Instant;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use howdah_wire::{Connection, StreamHello};

use crate::tls::{Checked, OPENING_BYTES, SessionKeys};

/// The greeting of an encrypted connection: that of a plaintext one, then proof of the key.
const GREETING_BYTES: usize = StreamHello::BYTES + OPENING_BYTES;
/// Connections from the address of the ssh client that may wait at a time.
const MAX_FROM_CLIENT: usize = 512;
/// Connections from elsewhere that may wait at a time.
const MAX_FROM_ELSEWHERE: usize = 64;

/// The greeting of one connection of a session.
pub fn stream_hello(token: &[u8; 32], connection: Connection) -> StreamHello {
    StreamHello {
        proof: *blake3::keyed_hash(token, &connection.to_le_bytes()).as_bytes(),
        connection,
    }
}

/// The pending connections of one session. Those from the ssh client's address have a room of their own, and so have
/// all others.
pub struct PendingPeers {
    token: [u8; 32],
    keys: Option<SessionKeys>,
    client: IpAddr,
    from_client: VecDeque<PendingPeer>,
    from_elsewhere: VecDeque<PendingPeer>,
}

/// A connection whose greeting is not complete.
pub struct PendingPeer {
    socket: TcpStream,
    greeting: [u8; GREETING_BYTES],
    received: usize,
    until: Instant,
}

/// A connection that has proved that it knows the session's token and has its keys.
pub struct ProvenPeer {
    /// The stream and incarnation that its greeting names.
    pub connection: Connection,
    /// It, in blocking mode.
    pub socket: TcpStream,
    /// Encryption, unless it is plaintext.
    pub checked: Option<Checked>,
}

impl PendingPeers {
    /// Empty rooms of the session with this token. There are no keys if it is in plaintext. ssh connected from
    /// `client`.
    pub fn new(token: [u8; 32], keys: Option<SessionKeys>, client: IpAddr) -> Self {
        Self {
            token,
            keys,
            client,
            from_client: VecDeque::new(),
            from_elsewhere: VecDeque::new(),
        }
    }

    /// Adds a connection. If its room is full, the oldest one in it is closed.
    pub fn take(&mut self, socket: TcpStream, from: SocketAddr, until: Instant) {
        if socket.set_nonblocking(true).is_err() {
            return;
        }
        let own = self.client == from.ip().to_canonical();
        let (room, most) = if own {
            (&mut self.from_client, MAX_FROM_CLIENT)
        } else {
            (&mut self.from_elsewhere, MAX_FROM_ELSEWHERE)
        };
        if room.len() >= most {
            room.pop_front();
        }
        room.push_back(PendingPeer {
            socket,
            greeting: [0; GREETING_BYTES],
            received: 0,
            until,
        });
    }

    /// The sockets, to be waited for.
    pub fn sockets(&self) -> impl Iterator<Item = &TcpStream> {
        let all = self.from_client.iter().chain(&self.from_elsewhere);
        all.map(|peer| &peer.socket)
    }

    /// Reads what has arrived. Returns the connections that belong to the session. Closes those that do not, and
    /// those whose time is over at `now`.
    pub fn sort_out(&mut self, now: Instant) -> Vec<ProvenPeer> {
        let mut proven = Vec::new();
        for room in [&mut self.from_client, &mut self.from_elsewhere] {
            for mut peer in std::mem::take(room) {
                match peer.read(&self.token, self.keys.as_ref()) {
                    Greeting::All(connection, checked) => {
                        let socket = peer.socket;
                        if socket.set_nonblocking(false).is_ok() {
                            proven.push(ProvenPeer {
                                connection,
                                socket,
                                checked,
                            });
                        }
                    }
                    Greeting::Part if peer.until > now => room.push_back(peer),
                    Greeting::Part | Greeting::Wrong => {}
                }
            }
        }
        proven
    }
}

enum Greeting {
    /// The greeting of this connection, and its keys.
    All(Connection, Option<Checked>),
    /// Not all of it yet.
    Part,
    /// Something else, or the end.
    Wrong,
}

impl PendingPeer {
    /// Reads the greeting and not a byte behind it.
    fn read(&mut self, token: &[u8; 32], keys: Option<&SessionKeys>) -> Greeting {
        let length = match keys {
            Some(_) => GREETING_BYTES,
            None => StreamHello::BYTES,
        };
        while self.received < length {
            match self.socket.read(&mut self.greeting[self.received..length]) {
                Ok(0) => return Greeting::Wrong,
                Ok(count) => self.received += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Greeting::Part,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Greeting::Wrong,
            }
        }
        self.judge(token, keys).unwrap_or(Greeting::Wrong)
    }

    fn judge(&self, token: &[u8; 32], keys: Option<&SessionKeys>) -> Option<Greeting> {
        let (greeting, opening) = self.greeting.split_first_chunk()?;
        let hello = StreamHello::decode(greeting).ok()?;
        let expected = stream_hello(token, hello.connection);
        verify_slices_are_equal(&hello.proof, &expected.proof).ok()?;
        let checked = match keys {
            Some(keys) => Some(keys.check(greeting, opening.first_chunk()?)?),
            None => None,
        };
        Some(Greeting::All(hello.connection, checked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::stream::Stream;
    use crate::tls::Identity;
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Duration;

    const TOKEN: [u8; 32] = [3; 32];

    fn hello(stream: u16) -> StreamHello {
        let connection = Connection {
            stream,
            incarnation: 0,
        };
        stream_hello(&TOKEN, connection)
    }

    struct Rooms {
        listener: TcpListener,
        pending: PendingPeers,
        until: Instant,
    }

    impl Rooms {
        fn new(client: &str) -> Self {
            Self {
                listener: TcpListener::bind("127.0.0.1:0").unwrap(),
                pending: PendingPeers::new(TOKEN, None, client.parse().unwrap()),
                until: Instant::now() + Duration::from_secs(60),
            }
        }

        /// A connection that comes, as if from `from`.
        fn visitor(&mut self, from: &str) -> TcpStream {
            let near = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
            let (socket, _) = self.listener.accept().unwrap();
            let from = SocketAddr::new(from.parse().unwrap(), 1);
            self.pending.take(socket, from, self.until);
            near
        }

        fn proven(&mut self) -> Vec<u16> {
            // What was written over loopback is there when write(2) returns.
            let proven = self.pending.sort_out(Instant::now());
            proven
                .into_iter()
                .map(|proven| proven.connection.stream)
                .collect()
        }

        fn waiting(&self) -> usize {
            self.pending.sockets().count()
        }
    }

    #[test]
    fn who_shows_the_token_is_known_however_slowly_it_comes() {
        let mut rooms = Rooms::new("10.0.0.1");
        let greeting = hello(5).encode();
        let mut near = rooms.visitor("10.0.0.1");
        for byte in greeting {
            assert!(rooms.proven().is_empty());
            near.write_all(&[byte]).unwrap();
        }
        assert_eq!(rooms.proven(), [5]);
        assert_eq!(rooms.waiting(), 0);
    }

    #[test]
    fn of_an_encrypted_session_only_who_has_the_key_is_known() {
        let [near, far, other] = [(); 3].map(|()| Identity::generate().unwrap());
        let agree = |own, peer: &Identity| SessionKeys::agree(own, peer.public_key()).unwrap();
        let mut rooms = Rooms::new("10.0.0.1");
        rooms.pending.keys = Some(agree(&far, &near));
        for (keys, known) in [(agree(&other, &far), false), (agree(&near, &far), true)] {
            let socket = rooms.visitor("10.0.0.1");
            let mut stream = keys.dial(socket, &hello(5).encode()).unwrap();
            // What follows the greeting is for the stream.
            stream.send(b"payload").unwrap();
            let proven = rooms.pending.sort_out(Instant::now());
            assert_eq!(proven.len(), usize::from(known));
            assert_eq!(rooms.waiting(), 0);
            for peer in proven {
                let mut opened = peer.checked.unwrap().go_on(peer.socket).unwrap();
                assert_eq!(opened.data(100).unwrap(), b"payload");
            }
        }
        let mut silent = rooms.visitor("10.0.0.1");
        silent.write_all(&hello(5).encode()).unwrap();
        assert!(rooms.proven().is_empty());
        assert_eq!(rooms.waiting(), 1);
    }

    #[test]
    fn who_does_not_is_closed() {
        let mut rooms = Rooms::new("10.0.0.1");
        let mut wrong = hello(5).encode();
        wrong[20] ^= 1;
        let mut other = hello(5);
        other.connection.stream = 6;
        let mut newer = hello(5);
        newer.connection.incarnation = 1;
        for greeting in [
            wrong,
            other.encode(),
            newer.encode(),
            [b'G'; StreamHello::BYTES],
        ] {
            let mut near = rooms.visitor("10.0.0.1");
            near.write_all(&greeting).unwrap();
            assert!(rooms.proven().is_empty());
            assert_eq!(rooms.waiting(), 0);
            assert!(matches!(near.read(&mut [0]), Ok(0) | Err(_)));
        }
        let silent = rooms.visitor("10.0.0.1");
        rooms.pending.sort_out(rooms.until);
        assert_eq!(rooms.waiting(), 0);
        drop(silent);
    }

    #[test]
    fn silent_ones_push_out_only_each_other() {
        let mut rooms = Rooms::new("10.0.0.1");
        let mut real = rooms.visitor("::ffff:10.0.0.1");
        let pending: Vec<_> = (0..3 * MAX_FROM_ELSEWHERE)
            .map(|_| rooms.visitor("10.0.0.2"))
            .collect();
        assert_eq!(rooms.waiting(), 1 + MAX_FROM_ELSEWHERE);
        real.write_all(&hello(0).encode()).unwrap();
        assert_eq!(rooms.proven(), [0]);
        // Of the same address the oldest gives way, so one that comes last always has its turn.
        let more: Vec<_> = (0..MAX_FROM_CLIENT + 9)
            .map(|_| rooms.visitor("10.0.0.1"))
            .collect();
        let mut real = rooms.visitor("10.0.0.1");
        assert_eq!(rooms.waiting(), MAX_FROM_CLIENT + MAX_FROM_ELSEWHERE);
        real.write_all(&hello(1).encode()).unwrap();
        assert_eq!(rooms.proven(), [1]);
        drop((pending, more));
    }
}
