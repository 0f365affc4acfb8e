use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, version};

use super::super::handshake::{NAME, provider};
use super::super::identity::Pinned;
use super::*;

fn said<T>(result: Result<T, StreamError>) -> String {
    match result {
        Err(StreamError::Handshake(said)) => said,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the handshake succeeded"),
    }
}

#[test]
fn both_directions_carry_what_was_sent() {
    let (connector, acceptor) = ends();
    let (near, far) = shake(&connector, &acceptor);
    let payload = pattern(3_000_017);
    for (mut sender, mut receiver) in [(near, far)].map(|(a, b)| (a.unwrap(), b.unwrap())) {
        for _ in 0..2 {
            let sending = thread::scope(|scope| {
                let sending = scope.spawn(|| {
                    sender.put(b"header").unwrap();
                    sender.boundary().unwrap();
                    sender.send(&payload).unwrap();
                    sender.finish().unwrap();
                });
                let mut header = [0; 6];
                receiver.take(&mut header).unwrap();
                assert_eq!(&header, b"header");
                let (got, end) = drain(&mut receiver, 100_000);
                end.unwrap();
                assert!(got == payload);
                assert!(receiver.data(1).unwrap().is_empty());
                sending.join()
            });
            sending.unwrap();
            std::mem::swap(&mut sender, &mut receiver);
        }
    }
}

#[test]
fn another_key_of_the_server_is_refused() {
    let (near, far, other) = (
        Identity::generate().unwrap(),
        Identity::generate().unwrap(),
        Identity::generate().unwrap(),
    );
    let connector = Connector::new(&near, other.public_key()).unwrap();
    let acceptor = Acceptor::new(&far, near.public_key()).unwrap();
    let (client, server) = shake(&connector, &acceptor);
    assert!(said(client).contains("another key"));
    assert!(said(server).contains("alert"), "the client says why");
}

#[test]
fn another_key_of_the_client_is_refused_before_it_gets_a_byte() {
    let (near, far, other) = (
        Identity::generate().unwrap(),
        Identity::generate().unwrap(),
        Identity::generate().unwrap(),
    );
    let connector = Connector::new(&near, far.public_key()).unwrap();
    let acceptor = Acceptor::new(&far, other.public_key()).unwrap();
    let (client, server) = shake(&connector, &acceptor);
    assert!(said(server).contains("another key"));
    // In TLS 1.3 the client is done before the server has judged it.
    assert!(client.unwrap().data(1).is_err());
}

/// A client that proves nothing.
fn stranger(far: &Identity) -> ClientConnection {
    let provider = provider();
    let pinned = Pinned::new(far.public_key(), provider.signature_verification_algorithms);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"howdah/1".to_vec()];
    ClientConnection::new(Arc::new(config), ServerName::try_from(NAME).unwrap()).unwrap()
}

#[test]
fn a_client_without_a_key_is_refused() {
    let (near, far) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let acceptor = Acceptor::new(&far, near.public_key()).unwrap();
    let mut client = stranger(&far);
    let (mut socket, accepted) = sockets();
    let server = thread::spawn(move || acceptor.accept(accepted, LONG));
    while client.is_handshaking() && client.complete_io(&mut socket).is_ok() {}
    said(server.join().unwrap());
}

#[test]
fn another_protocol_is_refused() {
    let (connector, acceptor) = ends();
    let mut config = (*connector.0).clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let other = Connector(Arc::new(config));
    let (client, server) = shake(&other, &acceptor);
    said(client);
    said(server);
}

#[test]
fn what_is_no_tls_is_refused() {
    for greeting in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.2\r\n",
        &[0; 200],
    ] {
        let (_, acceptor) = ends();
        let (mut socket, accepted) = sockets();
        socket.write_all(greeting).unwrap();
        said(acceptor.accept(accepted, LONG));
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        assert!(answer.len() < 10, "no more than an alert: {answer:?}");
    }
}

#[test]
fn a_silent_peer_does_not_hold_us_for_long() {
    let (connector, acceptor) = ends();
    let short = Duration::from_millis(50);
    let (near, far) = sockets();
    assert_eq!(
        said(connector.connect(near.try_clone().unwrap(), short)),
        "no answer in time"
    );
    let (_near, far) = (near, far);
    // What the connector said is there, but no answer to ours will come.
    assert_eq!(said(acceptor.accept(far, short)), "no answer in time");
}

#[test]
fn a_peer_that_closes_is_told_apart_from_a_slow_one() {
    let (_, acceptor) = ends();
    let (near, far) = sockets();
    drop(near);
    let closed = acceptor.accept(far, LONG).map(drop).unwrap_err();
    assert!(matches!(closed, StreamError::Truncated), "{closed}");
}
