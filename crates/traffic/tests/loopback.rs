//! Real datagrams between a source and a sink on this host.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use howdah_traffic::{Error, Sink, SinkCounts, Source};

const TOKEN: [u8; 16] = *b"one of this test";

fn at(sink: &Sink) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], sink.port()))
}

/// What the sink has counted once `enough`.
fn counted(sink: &Sink, enough: impl Fn(&SinkCounts) -> bool) -> SinkCounts {
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until && !enough(&sink.counts()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    sink.counts()
}

#[test]
fn what_is_sent_is_counted_and_strangers_are_not() {
    let sink = Sink::open(TOKEN).unwrap();
    let source = Source::new(at(&sink), TOKEN, 20_000_000, Some(1000)).unwrap();
    let stranger = Source::new(at(&sink), [0; 16], 20_000_000, None).unwrap();
    source.knock().unwrap();
    stranger.knock().unwrap();
    for _ in 0..2 {
        assert!(source.send(Duration::from_millis(100)).unwrap());
    }
    let sent = source.counts();
    assert_eq!(sent.offered, 2 * 250);
    assert_eq!(sent.sent_bytes, sent.sent * 1000);
    let counts = counted(&sink, |counts| {
        counts.received == sent.sent && counts.strange == 1
    });
    let expected = SinkCounts {
        received: sent.sent,
        received_bytes: sent.sent_bytes,
        knocks: 1,
        strange: 1,
        ..SinkCounts::default()
    };
    assert_eq!(counts, expected);
}

#[test]
fn nothing_is_ever_sent_back() {
    let sink = Sink::open(TOKEN).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    socket.send_to(&TOKEN, at(&sink)).unwrap();
    assert_eq!(counted(&sink, |counts| counts.strange == 1).strange, 1);
    assert!(socket.recv(&mut [0; 64]).is_err());
}

#[test]
fn an_object_arrives_whole() {
    let sink = Sink::open(TOKEN).unwrap();
    let source = Source::new(at(&sink), TOKEN, 200_000_000, None).unwrap();
    for (number, object_bytes) in [(1, 1_000_001), (2, 1)] {
        let piece_bytes = source.begin(number, object_bytes).unwrap();
        sink.expect(number, object_bytes, piece_bytes).unwrap();
        assert!(source.round(None).unwrap());
        let mut missing = sink.missing().unwrap();
        for _ in 0..10 {
            if missing.pieces() == 0 {
                break;
            }
            assert!(source.round(Some(missing)).unwrap());
            missing = sink.missing().unwrap();
        }
        assert_eq!(missing.pieces(), 0);
        assert_eq!(sink.digest(), source.digest());
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let sink = Sink::open(TOKEN).unwrap();
    for bytes in [0, 63, 65_508] {
        let made = Source::new(at(&sink), TOKEN, 1_000_000, Some(bytes));
        assert!(matches!(made, Err(Error::DatagramLength(_))));
    }
    let source = Source::new(at(&sink), TOKEN, 1_000_000, None).unwrap();
    assert!(matches!(source.round(None), Err(Error::NoObject)));
    assert!(matches!(source.begin(1, 0), Err(Error::ObjectSize(0))));
    assert!(matches!(sink.missing(), Err(Error::NoObject)));
    drop(sink);
    let until = Instant::now() + Duration::from_secs(5);
    let mut result = Ok(true);
    while result.is_ok() && Instant::now() < until {
        result = source.send(Duration::from_millis(50));
    }
    assert!(matches!(result, Err(Error::Refused(_))), "{result:?}");
}

#[test]
fn a_source_that_is_stopped_ends_soon() {
    let sink = Sink::open(TOKEN).unwrap();
    let source = Source::new(at(&sink), TOKEN, 1000, None).unwrap();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| source.send(Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(20));
        source.stop();
        assert!(!sending.join().unwrap().unwrap());
    });
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[test]
fn what_is_offered_until_a_stop_is_what_was_due() {
    let sink = Sink::open(TOKEN).unwrap();
    let source = Source::new(at(&sink), TOKEN, 8_000_000, Some(1000)).unwrap();
    let begin = Instant::now();
    let stopped = std::thread::scope(|scope| {
        let sending = scope.spawn(|| source.send(Duration::from_secs(3600)).unwrap());
        counted(&sink, |counts| counts.received >= 50);
        source.stop();
        !sending.join().unwrap()
    });
    let most = 1 + begin.elapsed().as_millis() as u64;
    let sent = source.counts();
    assert!(stopped && sent.sent >= 50, "{sent:?}");
    assert!(
        (sent.sent..=most).contains(&sent.offered),
        "{sent:?}, {most} due at most"
    );
}
