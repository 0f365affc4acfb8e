use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::streams::stream::{Stream, StreamError};

use super::{Identity, SessionKeys, TlsStream};

mod keys;
mod records;

const LONG: Duration = Duration::from_secs(20);

/// Two ends of a TCP connection on which no read waits for ever.
fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    for socket in [&near, &far] {
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
    }
    (near, far)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

/// Reads to the end or to the first error, `max` bytes at a time.
fn drain(stream: &mut TlsStream, max: usize) -> (Vec<u8>, Result<(), StreamError>) {
    let mut got = Vec::new();
    loop {
        match stream.data(max) {
            Ok([]) => return (got, Ok(())),
            Ok(data) => {
                assert!(data.len() <= max);
                got.extend_from_slice(data);
            }
            Err(error) => return (got, Err(error)),
        }
    }
}
