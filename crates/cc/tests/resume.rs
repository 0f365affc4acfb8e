//! Memories: how connections begin with them, what comes of it, and which of them a connection finds.

mod counting;
mod own;
mod path;
mod privilege;

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    process::ExitCode,
    slice, thread,
    time::{Duration, Instant},
};

use counting::{Counting, runs};
use howdah_cc::{Destination, Memory, Program, Resumed, Saved, Store, Trial};
use howdah_link::Change;
use own::{Own, said};
use path::{Path, send};
use privilege::tests;
use rustix::net::sockopt::{
    set_socket_recv_buffer_size_force, set_tcp_congestion, set_tcp_quickack, tcp_congestion,
};

const RATE_BPS: u64 = 100_000_000;
const RTT_NS: u64 = 40_000_000;
/// What the path has in flight at its rate.
const CAPACITY_BYTES: u64 = RATE_BPS / 8 * RTT_NS / 1_000_000_000;
const TO: &str = "10.78.0.2";
const WINDOW_BYTES: usize = 8 << 20;

fn saved() -> Saved {
    Saved {
        capacity_bytes: CAPACITY_BYTES,
        rtt_s: RTT_NS as f64 / 1e9,
        streams: 1,
        jump_part: None,
        valid_s: 60.0,
        then: "cubic".to_owned(),
    }
}

fn to(text: &str) -> Destination {
    Destination::new(text, None, None).unwrap()
}

/// A listener whose window does not bound a jump.
fn listener(path: &Path, family: u8) -> TcpListener {
    let listener = path.listener(family);
    set_socket_recv_buffer_size_force(&listener, WINDOW_BYTES).unwrap();
    listener
}

/// Loaded, and a path.
fn loaded(mark: char, path: Path) -> (Own, Path) {
    let own = Own::new(mark);
    own.load("resume", &[]).unwrap();
    (own, path)
}

/// A new connection that has sent so much, and what came of it.
fn sent(own: &Own, path: &Path, bytes: usize) -> (TcpStream, Resumed) {
    let (mut near, mut far) = path.connection_to(&listener(path, 4), &own.name("resume"));
    send(&mut near, &mut far, bytes);
    let resumed = own.connection(&near).resume.unwrap();
    (near, resumed)
}

/// What an attempt came to. A machine that pauses leaves some of a jump unsent, or makes a round trip as long as a
/// queue would, so that there is no jump; then the attempt is made again, twice at most.
fn unless_paused<T>(attempt: impl Fn() -> T, jumps: impl Fn(&T) -> &[Resumed]) -> T {
    let paused = |jump: &Resumed| matches!(jump.why, Some("unused" | "queue"));
    (0..2)
        .map(|_| attempt())
        .find(|made| !jumps(made).iter().any(paused))
        .unwrap_or_else(attempt)
}

fn only(own: &Own) -> Memory {
    let mut all = own.store.memories().unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn a_jump_is_validated_and_the_named_control_goes_on() {
    let (own, path) = loaded('j', Path::new(RATE_BPS, RTT_NS, 0.0));
    for then in ["cubic", "reno"] {
        let then = Saved {
            then: then.to_owned(),
            ..saved()
        };
        let attempt = || {
            own.store.remember(&to(TO), &then).unwrap();
            sent(&own, &path, 2_000_000)
        };
        let (near, resumed) = unless_paused(attempt, |(_, jump)| slice::from_ref(jump));
        assert_eq!(
            (resumed.phase, resumed.why),
            ("normal", Some("validated")),
            "{resumed:?}"
        );
        assert_eq!(tcp_congestion(&near).unwrap(), then.then);
        let half = CAPACITY_BYTES / 2;
        assert!(
            (half - 1_500..=half).contains(&resumed.jumped_bytes),
            "{resumed:?}"
        );
        // The clock of a busy machine may leave some of the jump unsent.
        assert!(resumed.validated_bytes > half / 2, "{resumed:?}");
        let memory = only(&own);
        assert_eq!(
            (memory.connections, memory.jumps, memory.validated),
            (1, 1, 1),
            "{memory:?}"
        );
        assert_eq!(memory.jumped_bytes, resumed.jumped_bytes);
        assert_eq!(memory.validated_bytes, resumed.validated_bytes);
        assert_eq!(resumed.memory_ns, Some(memory.set_ns));
    }
}

/// One ACK answers both segments of the first window, so that nothing is in flight when the jump begins.
fn a_jump_begins_with_nothing_in_flight() {
    let (own, path) = loaded('n', Path::new(RATE_BPS, RTT_NS, 0.0));
    path.begin_with(2);
    let attempt = || {
        own.store.remember(&to(TO), &saved()).unwrap();
        let (mut near, mut far) = path.connection_to(&listener(&path, 4), &own.name("resume"));
        set_tcp_quickack(&far, false).unwrap();
        send(&mut near, &mut far, 1_000_000);
        own.connection(&near).resume.unwrap()
    };
    let resumed = unless_paused(attempt, slice::from_ref);
    assert_eq!(resumed.why, Some("validated"), "{resumed:?}");
    assert!(resumed.validated_bytes > CAPACITY_BYTES / 4, "{resumed:?}");
}

const LONG_RTT: Duration = Duration::from_millis(200);
/// Ten segments, which are the first window.
const FIRST_BYTES: usize = 10 * 1_448;
/// What slow start sends in the round trip after it.
const SECOND_BYTES: usize = 2 * FIRST_BYTES;

/// What is known of a path of [`LONG_RTT`].
fn saved_long() -> Saved {
    Saved {
        capacity_bytes: RATE_BPS / 8 / 5,
        rtt_s: LONG_RTT.as_secs_f64(),
        ..saved()
    }
}

/// When a connection gets the control.
#[derive(Clone, Copy, PartialEq)]
enum Switched {
    No,
    /// A second after its handshake.
    Late,
    /// When its first window is acknowledged; only then the memory is set.
    Confirmed,
}

/// How a connection sends that has little to send at first.
#[derive(Clone, Copy)]
struct Late {
    /// From its first window to the rest.
    after: Duration,
    switched: Switched,
    bytes: usize,
    /// A program that encrypts writes in records, of which none may be more than the window permits.
    record_bytes: usize,
}

/// What arrived in 1.2 round trips since the rest was written, what came of it in the end, and the window then, packets.
fn sent_late(own: &Own, path: &Path, late: Late) -> (usize, Resumed, u32) {
    let name = own.name("resume");
    let remember = || own.store.remember(&to(TO), &saved_long()).unwrap();
    if late.switched != Switched::Confirmed {
        remember();
    }
    let begins = if late.switched == Switched::No {
        &name
    } else {
        "cubic"
    };
    let (mut near, mut far) = path.connection_to(&listener(path, 4), begins);
    if late.switched == Switched::Late {
        thread::sleep(Duration::from_millis(1_200));
        set_tcp_congestion(&near, &name).unwrap();
    }
    let began = Instant::now();
    near.write_all(&[0; FIRST_BYTES]).unwrap();
    far.read_exact(&mut [0; FIRST_BYTES]).unwrap();
    thread::sleep((began + late.after).saturating_duration_since(Instant::now()));
    if late.switched == Switched::Confirmed {
        remember();
        set_tcp_congestion(&near, &name).unwrap();
    }
    let until = Instant::now() + LONG_RTT * 6 / 5;
    let arrived = thread::scope(|scope| {
        let near = &mut near;
        scope.spawn(move || {
            let mut left = late.bytes;
            while left > 0 {
                let part = left.min(late.record_bytes);
                near.write_all(&vec![0; part]).unwrap();
                left -= part;
            }
        });
        let (mut block, mut arrived) = (vec![0; 1 << 16], 0);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            far.set_read_timeout(Some(left.max(Duration::from_millis(1))))
                .unwrap();
            match far.read(&mut block) {
                Ok(bytes) => arrived += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
        far.set_read_timeout(None).unwrap();
        far.read_exact(&mut vec![0; late.bytes - arrived]).unwrap();
        arrived
    });
    // The last of it is acknowledged.
    thread::sleep(LONG_RTT);
    let connection = own.connection(&near);
    (
        arrived,
        connection.resume.unwrap(),
        connection.window_packets,
    )
}

const LATE: Late = Late {
    after: Duration::from_millis(300),
    switched: Switched::No,
    bytes: 6_000_000,
    record_bytes: 6_000_000,
};

/// The first window is acknowledged before there is more to send. Then the jump waits for no further ACK.
fn a_confirmed_connection_jumps_with_the_first_data() {
    let path = Path::new(RATE_BPS, LONG_RTT.as_nanos() as u64, 0.0);
    let (own, path) = loaded('c', path);
    let switched = |switched| Late {
        switched,
        record_bytes: 16_384,
        ..LATE
    };
    let late = [Switched::Late, Switched::Confirmed].map(switched);
    for late in [LATE, late[0], late[1]] {
        let attempt = || sent_late(&own, &path, late);
        let (arrived, resumed, _) = unless_paused(attempt, |(_, jump, _)| slice::from_ref(jump));

        // By then, seven tenths of a jump paced over a round trip have come; less where the machine pauses.
        let jump = saved_long().capacity_bytes as usize / 2;
        assert!(arrived > jump / 4, "{arrived} of {jump}: {resumed:?}");
        assert!(arrived < jump * 9 / 10, "{arrived} of {jump}: {resumed:?}");
        assert_eq!(resumed.why, Some("validated"), "{resumed:?}");
        assert!(resumed.validated_bytes as usize > jump / 2, "{resumed:?}");
        assert_eq!(only(&own).jumps, 1);
    }
}

/// After a second, what the first window said is old.
fn a_jump_waits_for_an_ack_where_the_last_is_old() {
    let path = Path::new(RATE_BPS, LONG_RTT.as_nanos() as u64, 0.0);
    let (own, path) = loaded('w', path);
    for switched in [Switched::No, Switched::Confirmed] {
        let old = Late {
            after: Duration::from_millis(1_400),
            switched,
            ..LATE
        };
        let attempt = || sent_late(&own, &path, old);
        let (arrived, resumed, _) = unless_paused(attempt, |(_, jump, _)| slice::from_ref(jump));
        assert!(arrived <= SECOND_BYTES, "{arrived}: {resumed:?}");
        assert_eq!(resumed.why, Some("validated"), "{resumed:?}");
    }
}

/// Three segments more than the window permitted, and then nothing.
fn a_jump_without_an_ack_that_is_not_used_is_taken_back() {
    let path = Path::new(RATE_BPS, LONG_RTT.as_nanos() as u64, 0.0);
    let (own, path) = loaded('t', path);
    let little = Late {
        bytes: SECOND_BYTES + 3 * 1_448,
        ..LATE
    };
    let (arrived, resumed, window) = sent_late(&own, &path, little);
    assert_eq!(arrived, little.bytes);
    assert_ne!(resumed.jumped_bytes, 0, "{resumed:?}");
    assert!(window <= 23, "{window} packets: {resumed:?}");
    assert_eq!(only(&own).jumps, 1);
}

fn a_jump_that_overflows_the_path_retreats_and_voids_the_memory() {
    let (own, path) = loaded('r', Path::shallow(RATE_BPS / 8, RTT_NS, 30_000));
    let attempt = || {
        own.store.remember(&to(TO), &saved()).unwrap();
        sent(&own, &path, 1_500_000)
    };
    let (near, resumed) = unless_paused(attempt, |(_, jump)| slice::from_ref(jump));
    assert_eq!(
        (resumed.phase, resumed.why),
        ("normal", Some("retreated")),
        "{resumed:?}"
    );
    assert_eq!(resumed.retreats, 1);
    assert_eq!(tcp_congestion(&near).unwrap(), "cubic");
    assert_eq!(only(&own).retreats, 1);

    let second = unless_paused(|| sent(&own, &path, 100_000).1, slice::from_ref);
    assert_eq!(
        (second.why, second.jumped_bytes),
        (Some("void"), 0),
        "{second:?}"
    );
    own.store.remember(&to(TO), &saved()).unwrap();
    assert_eq!(only(&own).retreats, 0);
}

fn what_is_unlike_the_memory_does_not_jump() {
    let (own, path) = loaded('u', Path::new(RATE_BPS, RTT_NS, 0.0));
    let (near, resumed) = sent(&own, &path, 100_000);
    assert_eq!(resumed.why, Some("no memory"));
    assert_eq!(tcp_congestion(&near).unwrap(), "cubic");
    for (what, why) in [
        (
            Saved {
                rtt_s: 0.1,
                ..saved()
            },
            "other path",
        ),
        (
            Saved {
                rtt_s: 0.003,
                ..saved()
            },
            "other path",
        ),
        (
            Saved {
                capacity_bytes: 30_000,
                ..saved()
            },
            "small",
        ),
        (
            Saved {
                valid_s: 0.001,
                ..saved()
            },
            "no memory",
        ),
    ] {
        own.store.remember(&to(TO), &what).unwrap();
        let (near, resumed) = sent(&own, &path, 100_000);
        assert_eq!(
            (resumed.why, resumed.jumped_bytes),
            (Some(why), 0),
            "{resumed:?}"
        );
        assert_eq!(tcp_congestion(&near).unwrap(), "cubic");
        let other = u32::from(why == "other path");
        assert_eq!((only(&own).other_paths, only(&own).jumps), (other, 0));
    }
}

fn all_streams_are_one_sender() {
    let (own, path) = loaded('o', Path::new(RATE_BPS, RTT_NS, 0.0));
    let shared = Saved {
        streams: 2,
        jump_part: Some(0.8),
        ..saved()
    };
    let attempt = || -> Vec<_> {
        own.store.remember(&to(TO), &shared).unwrap();
        (0..3).map(|_| sent(&own, &path, 600_000).1).collect()
    };
    let whys = unless_paused(attempt, Vec::as_slice);
    let part = CAPACITY_BYTES * 8 / 10 / 2;
    for jumped in &whys[..2] {
        assert_eq!(jumped.why, Some("validated"), "{jumped:?}");
        assert!(
            (part - 3_000..=part).contains(&jumped.jumped_bytes),
            "{jumped:?}"
        );
    }
    assert_eq!((whys[2].why, whys[2].jumped_bytes), (Some("no part"), 0));
    assert_eq!(only(&own).jumps, 2);

    own.load("resume", &[("again", "1ms")]).unwrap();
    let attempt = || sent(&own, &path, 600_000).1;
    let fourth = unless_paused(attempt, slice::from_ref);
    assert_eq!(fourth.why, Some("validated"), "{fourth:?}");
}

fn a_connection_finds_the_nearest_memory() {
    let (own, path) = loaded('f', Path::new(RATE_BPS, RTT_NS, 0.0));
    for family in [4, 6] {
        let (wide, one) = match family {
            4 => ("10.78.0.0/16", TO),
            _ => ("fd78::/64", "fd78::2"),
        };
        let found = |listener: &TcpListener| {
            let (mut near, mut far) = path.connection_to(listener, &own.name("resume"));
            send(&mut near, &mut far, 50_000);
            let connection = own.connection(&near);
            (connection.namespace, connection.resume.unwrap().memory_ns)
        };
        let listener = listener(&path, family);
        let port = listener.local_addr().unwrap().port();
        let set = |to: &str, port, namespace| {
            let destination = Destination::new(to, port, namespace).unwrap();
            Some(own.store.remember(&destination, &saved()).unwrap().set_ns)
        };
        assert_eq!(found(&listener).1, None);
        let by_prefix = set(wide, None, None);
        let (namespace, nearest) = found(&listener);
        assert_eq!(nearest, by_prefix);
        let by_address = set(one, None, None);
        assert_eq!(found(&listener).1, by_address);
        set(one, Some(port.wrapping_add(1)), None);
        assert_eq!(found(&listener).1, by_address);
        let by_port = set(wide, Some(port), None);
        assert_eq!(found(&listener).1, by_port);
        let here = set(wide, None, Some(namespace));
        assert_eq!(found(&listener).1, here);
        for memory in own.store.memories().unwrap() {
            own.store.forget(&memory.destination).unwrap();
        }
    }
}

/// The path loses nothing, but grows by more than a second while the connection is under hd_resume. So a timeout takes what is
/// late for lost, until the ACKs say that it was not. Then it goes on under another control.
fn every_callback_of_resume_runs() {
    const LONG_NS: u64 = 200_000_000;
    let _counting = Counting::begin();
    let store = Store::at("howdah-test-resume", "ht_");
    let program = Program::find("resume").unwrap();
    let trial = Trial::begin(&store, program, &program.values(&[]).unwrap()).unwrap();
    let known = Saved {
        rtt_s: LONG_NS as f64 / 1e9,
        ..saved()
    };
    trial.remember(&to(TO), &known).unwrap();
    let jump = Change {
        at_ns: 550_000_000,
        delay_ns: Some(LONG_NS / 2 + 1_300_000_000),
        ..Change::default()
    };
    let not_run = || -> Vec<String> {
        let callbacks = trial.callbacks().unwrap().into_iter();
        let idle = callbacks.filter(|(_, id)| runs(*id) == 0);
        idle.map(|(callback, _)| callback.to_string()).collect()
    };
    // The path grows on time, also where the machine pauses and the connection is not as far as that; then once more.
    for _ in 0..3 {
        let path = Path::of(RATE_BPS, LONG_NS, 0.0, vec![jump]);
        let (mut near, mut far) = path.connection_to(&listener(&path, 4), trial.name());
        send(&mut near, &mut far, 400_000);
        send(&mut near, &mut far, 100_000);
        assert_eq!(tcp_congestion(&near).unwrap(), "cubic");
        if not_run().is_empty() {
            break;
        }
    }
    assert_eq!(not_run(), Vec::<String>::new());
}

fn a_memory_is_set_found_and_forgotten_or_refused() {
    let own = Own::new('m');
    assert!(said(own.store.remember(&to(TO), &saved())).contains("howdah cc load resume"));
    assert!(own.store.memories().unwrap().is_empty());
    own.load("resume", &[]).unwrap();
    let set = own.store.remember(&to("10.78.0.0/16"), &saved()).unwrap();
    assert_eq!(set.saved, saved());
    own.load("resume", &[("jump_part", "40%")]).unwrap();
    let found = only(&own);
    assert_eq!((found.set_ns, &found.saved), (set.set_ns, &saved()));
    assert!((50.0..60.0).contains(&found.left_s), "{found:?}");
    let itself = Saved {
        then: own.name("resume"),
        ..saved()
    };
    assert!(said(own.store.remember(&to(TO), &itself)).contains("cannot go on after itself"));
    let absent = Saved {
        then: "vegas".to_owned(),
        ..saved()
    };
    assert!(said(own.store.remember(&to(TO), &absent)).contains("is not in this kernel"));
    assert!(said(own.store.forget(&to(TO))).contains("nothing is remembered of --to 10.78.0.2/32"));
    own.store.forget(&to("10.78.0.0/16")).unwrap();
    assert!(own.store.memories().unwrap().is_empty());
}

fn main() -> ExitCode {
    let needing = tests![
        a_jump_is_validated_and_the_named_control_goes_on,
        a_jump_begins_with_nothing_in_flight,
        a_confirmed_connection_jumps_with_the_first_data,
        a_jump_waits_for_an_ack_where_the_last_is_old,
        a_jump_without_an_ack_that_is_not_used_is_taken_back,
        a_jump_that_overflows_the_path_retreats_and_voids_the_memory,
        what_is_unlike_the_memory_does_not_jump,
        all_streams_are_one_sender,
        a_connection_finds_the_nearest_memory,
        a_memory_is_set_found_and_forgotten_or_refused,
        every_callback_of_resume_runs,
    ];
    privilege::run([(path::missing_privilege(), needing)])
}
