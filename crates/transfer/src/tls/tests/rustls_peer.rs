//! Our record layer against the one of rustls.

use std::io::{Read, Write};
use std::ops::DerefMut;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ConnectionCommon, ServerConnection, SideData};

use super::super::handshake::NAME;
use super::*;

const PIECE: usize = 50_000;
const PIECES: usize = 40;

fn client(connector: &Connector) -> ClientConnection {
    let name = ServerName::try_from(NAME).unwrap();
    ClientConnection::new(Arc::clone(&connector.0), name).unwrap()
}

fn server(acceptor: &Acceptor) -> ServerConnection {
    ServerConnection::new(Arc::clone(&acceptor.0)).unwrap()
}

/// Lets rustls send pieces with a key update before every fifth, then close.
fn send_by_rustls<C, D>(mut connection: C, mut socket: TcpStream)
where
    C: DerefMut<Target = ConnectionCommon<D>>,
    D: SideData,
{
    for (number, piece) in pattern(PIECE * PIECES).chunks(PIECE).enumerate() {
        if number % 5 == 4 {
            connection.refresh_traffic_keys().unwrap();
        }
        connection.writer().write_all(piece).unwrap();
        while connection.wants_write() || connection.is_handshaking() {
            connection.complete_io(&mut socket).unwrap();
        }
    }
    connection.send_close_notify();
    connection.complete_io(&mut socket).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    // Until the other end is done too.
    let _ = socket.read(&mut [0]);
}

/// Lets rustls read until the close.
fn receive_by_rustls<C, D>(mut connection: C, mut socket: TcpStream) -> Vec<u8>
where
    C: DerefMut<Target = ConnectionCommon<D>>,
    D: SideData,
{
    let mut got = Vec::new();
    let mut stream = rustls::Stream::new(&mut connection, &mut socket);
    stream.read_to_end(&mut got).unwrap();
    got
}

fn send_by_us(mut stream: TlsStream) {
    stream.set_records_per_key(3);
    for piece in pattern(PIECE * PIECES).chunks(PIECE) {
        stream.send(piece).unwrap();
    }
    stream.finish().unwrap();
}

fn receive_by_us(mut stream: TlsStream) -> Vec<u8> {
    let (got, end) = drain(&mut stream, usize::MAX);
    end.unwrap();
    got
}

#[test]
fn we_read_what_a_rustls_client_sends() {
    let (connector, acceptor) = ends();
    let (near, far) = sockets();
    let connection = client(&connector);
    let sender = thread::spawn(move || send_by_rustls(connection, near));
    let got = receive_by_us(acceptor.accept(far, LONG).unwrap());
    sender.join().unwrap();
    assert!(got == pattern(PIECE * PIECES));
}

#[test]
fn we_read_what_a_rustls_server_sends() {
    let (connector, acceptor) = ends();
    let (near, far) = sockets();
    let connection = server(&acceptor);
    let sender = thread::spawn(move || send_by_rustls(connection, far));
    let got = receive_by_us(connector.connect(near, LONG).unwrap());
    sender.join().unwrap();
    assert!(got == pattern(PIECE * PIECES));
}

#[test]
fn a_rustls_server_reads_what_we_send() {
    let (connector, acceptor) = ends();
    let (near, far) = sockets();
    let connection = server(&acceptor);
    let receiver = thread::spawn(move || receive_by_rustls(connection, far));
    send_by_us(connector.connect(near, LONG).unwrap());
    assert!(receiver.join().unwrap() == pattern(PIECE * PIECES));
}

#[test]
fn a_rustls_client_reads_what_we_send() {
    let (connector, acceptor) = ends();
    let (near, far) = sockets();
    let connection = client(&connector);
    let receiver = thread::spawn(move || receive_by_rustls(connection, near));
    send_by_us(acceptor.accept(far, LONG).unwrap());
    assert!(receiver.join().unwrap() == pattern(PIECE * PIECES));
}

#[test]
fn what_follows_the_handshake_in_one_packet_is_not_lost() {
    let (connector, acceptor) = ends();
    let (near, far) = sockets();
    let mut connection = client(&connector);
    let mut socket = near;
    let server = thread::spawn(move || acceptor.accept(far, LONG));
    while connection.wants_write() {
        connection.write_tls(&mut socket).unwrap();
    }
    while connection.is_handshaking() {
        connection.read_tls(&mut socket).unwrap();
        connection.process_new_packets().unwrap();
    }
    connection.writer().write_all(b"right behind").unwrap();
    let mut flight = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut flight).unwrap();
    }
    socket.write_all(&flight).unwrap();
    let mut server = server.join().unwrap().unwrap();
    assert_eq!(server.data(100).unwrap(), b"right behind");
}
