//! A prober and a responder over this host's loopback device.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    os::fd::AsFd,
    thread,
    time::Duration,
};

use howdah_probe::{Burst, PROBE_BYTES, ProbeKind, Prober, Responder, Rhythm, Taken, Wanted};

const MS: u64 = 1_000_000;

fn wanted(kind: ProbeKind, to: String, token: Option<String>) -> Wanted {
    let burst = Burst {
        every_ns: 50 * MS,
        count: 10,
        gap_ns: MS,
    };
    Wanted {
        kind,
        to,
        token,
        for_ns: 100 * MS,
        rhythm: Rhythm {
            step_ns: 2 * MS,
            burst: Some(burst),
        },
    }
}

/// All of it; counts hold together.
fn all(prober: &Prober) -> Taken {
    let taken = prober.take(Duration::from_secs(10));
    assert!(taken.ended);
    let counts = taken.counts;
    assert_eq!(counts.sent, counts.answered + counts.lost);
    assert_eq!(counts.sent, taken.looks.len() as u64);
    assert_eq!(counts.sent + counts.skipped, 50 + 20);
    taken
}

fn answered(at: IpAddr, reach: &str) {
    let responder = Responder::open(at).unwrap();
    let to = format!("{reach}:{}", responder.port());
    let (stop, stopping) = std::io::pipe().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| responder.run(stop.as_fd()).unwrap());
        let prober = Prober::start(&wanted(
            ProbeKind::Udp,
            to,
            Some(responder.token().to_hex()),
        ))
        .unwrap();
        let taken = all(&prober);
        drop(stopping);
        // What is sent over a loopback device arrives, and sooner than the kernel could lose a stamp.
        assert_eq!(taken.counts.answered, taken.counts.sent, "{taken:?}");
        assert!(taken.looks.iter().all(|look| look.rtt_s.is_some()));
    });
}

#[test]
fn every_probe_over_ipv4_is_answered() {
    answered(Ipv4Addr::LOCALHOST.into(), "127.0.0.1");
}

#[test]
fn a_responder_at_any_address_answers_both_families() {
    answered(Ipv6Addr::UNSPECIFIED.into(), "127.0.0.1");
    if UdpSocket::bind("[::1]:0").is_ok() {
        answered(Ipv6Addr::UNSPECIFIED.into(), "[::1]");
    }
}

#[test]
fn another_token_and_another_peer_get_no_answer() {
    let responder = Responder::open(Ipv4Addr::LOCALHOST.into()).unwrap();
    let to = format!("127.0.0.1:{}", responder.port());
    let (stop, stopping) = std::io::pipe().unwrap();
    thread::scope(|scope| {
        let serving = scope.spawn(|| responder.run(stop.as_fd()).unwrap());
        let wrong =
            Prober::start(&wanted(ProbeKind::Udp, to.clone(), Some("0".repeat(32)))).unwrap();
        assert_eq!(all(&wrong).counts.answered, 0);
        let right = wanted(ProbeKind::Udp, to.clone(), Some(responder.token().to_hex()));
        let first = all(&Prober::start(&right).unwrap()).counts.answered;
        assert!(first > 0);
        // From another port of ours: somebody else.
        assert_eq!(all(&Prober::start(&right).unwrap()).counts.answered, 0);
        // Too short, too long, empty.
        let asking = UdpSocket::bind("127.0.0.1:0").unwrap();
        for length in [0, PROBE_BYTES - 1, PROBE_BYTES + 1, 2000] {
            asking.send_to(&vec![0; length], &to).unwrap();
        }
        drop(stopping);
        assert_eq!(serving.join().unwrap(), first);
    });
}

#[test]
fn a_closed_port_is_told_and_all_is_lost() {
    let closed = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let prober = Prober::start(&wanted(
        ProbeKind::Udp,
        closed.to_string(),
        Some("0".repeat(32)),
    ))
    .unwrap();
    let taken = all(&prober);
    assert_eq!(taken.counts.answered, 0);
    assert!(taken.refused.unwrap().contains("refused"));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let good = wanted(
        ProbeKind::Udp,
        "127.0.0.1:9".to_owned(),
        Some("0".repeat(32)),
    );
    let mut bad = vec![good.clone(); 6];
    bad[0].to = "nowhere".to_owned();
    bad[1].token = None;
    bad[2].token = Some("12".to_owned());
    bad[3].rhythm.step_ns = 0;
    bad[4].for_ns = 0;
    bad[5].rhythm.burst = Some(Burst {
        every_ns: 10 * MS,
        count: 11,
        gap_ns: MS,
    });
    for wanted in &bad {
        assert!(Prober::start(wanted).is_err(), "{wanted:?}");
    }
}

#[test]
fn a_dropped_prober_stops_at_once() {
    let mut long = wanted(
        ProbeKind::Udp,
        "127.0.0.1:9".to_owned(),
        Some("0".repeat(32)),
    );
    long.for_ns = 3_600_000 * MS;
    let prober = Prober::start(&long).unwrap();
    prober.stop();
    assert!(prober.take(Duration::from_secs(10)).ended);
}
