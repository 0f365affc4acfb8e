//! Strangers at the far end's door.

use std::collections::VecDeque;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use howdah_transfer::serve;
use howdah_transfer::stream::Stream;
use howdah_transfer::tls::{Identity, SessionKeys};
use howdah_wire::{FrameReader, Message, Piece, Totals};

use super::liar::{Liar, dial, file, greeting, header, hear};

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
        ..Totals::default()
    };
    stream.write_all(&header(Piece::End(totals))).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    liar.finished();
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
        liar.finished();
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
    let keys = SessionKeys::agree(&identity, &liar.hello.key).unwrap();
    let connect = || dial(liar.hello.port);
    let patience = Duration::from_secs(20);
    let hello = greeting(&liar.hello.token);
    let (plain, mut known) = (connect(), connect());
    known.write_all(&hello).unwrap();
    let mut stream = keys.dial(connect(), &hello).unwrap();
    stream.put(&header(Piece::End(Totals::default()))).unwrap();
    stream.finish().unwrap();
    for mut silent in [plain, known] {
        silent.set_read_timeout(Some(patience)).unwrap();
        let heard = silent.read(&mut [0; 1]).map_err(|error| error.kind());
        assert!(
            matches!(heard, Ok(0) | Err(ErrorKind::ConnectionReset)),
            "{heard:?}"
        );
    }
    liar.finished();
    liar.far.join().unwrap().unwrap();
}

#[test]
fn who_plays_a_connection_again_gets_nothing_and_changes_nothing() {
    let identity = Identity::generate().unwrap();
    let mut liar = Liar::begin_with(Some(&identity));
    let keys = SessionKeys::agree(&identity, &liar.hello.key).unwrap();
    let hello = greeting(&liar.hello.token);
    // What somebody on the path has seen of a connection, which is there still.
    let (tapped, mut tap) = UnixStream::pair().unwrap();
    let mut unheard = keys
        .dial(TcpStream::from(OwnedFd::from(tapped)), &hello)
        .unwrap();
    unheard.send(b"what the far end shall not take").unwrap();
    drop(unheard);
    let mut seen = Vec::new();
    tap.read_to_end(&mut seen).unwrap();
    let mut stream = keys.dial(dial(liar.hello.port), &hello).unwrap();
    stream.send(&file("file", b"honest")).unwrap();
    let mut played = dial(liar.hello.port);
    played.write_all(&seen).unwrap();
    played
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let heard = played.read(&mut [0; 1]).map_err(|error| error.kind());
    assert!(
        matches!(heard, Ok(0) | Err(ErrorKind::ConnectionReset)),
        "{heard:?}"
    );
    let totals = Totals {
        bytes: 6,
        files: 1,
        ..Totals::default()
    };
    stream.put(&header(Piece::End(totals))).unwrap();
    stream.finish().unwrap();
    liar.finished();
    assert_eq!(fs::read(liar.target().join("src/file")).unwrap(), b"honest");
    liar.far.join().unwrap().unwrap();
}
