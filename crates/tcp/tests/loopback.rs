//! Real sockets on the loopback device.

use std::os::fd::AsRawFd;
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use howdah_tcp::{
    Error, HostLimits, Info, Patience, Settings, SocketPlan, accept, available_controls,
    connect_again, connect_first, connection_controls, connection_info, listen,
    set_congestion_control, ssh_rtt, tune_again,
};
use rustix::net::{AddressFamily, SocketType};

static NEVER: AtomicBool = AtomicBool::new(false);
const PATIENCE: Patience<'static> = Patience {
    timeout: Duration::from_secs(20),
    stop: &NEVER,
};

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn pair(at: SocketAddr, plan: &SocketPlan) -> (TcpStream, TcpStream) {
    let listener = listen(at, plan).unwrap();
    let near = connect_first(&[listener.local_addr().unwrap()], plan, PATIENCE).unwrap();
    let (far, from) = accept(&listener, PATIENCE).unwrap();
    assert_eq!(from, near.local_addr().unwrap());
    (near, far)
}

/// A listener that has no room: the kernel ignores who else connects.
fn full_listener() -> (TcpListener, TcpStream) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &loopback(0)).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let listener = TcpListener::from(socket);
    let first = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener, first)
}

/// A port where nobody listens, ours as long as the socket lives.
fn closed_port() -> (OwnedFd, SocketAddr) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &loopback(0)).unwrap();
    let at = rustix::net::getsockname(&socket).unwrap();
    (socket, at.try_into().unwrap())
}

#[test]
fn both_ends_get_the_whole_plan() {
    let limits = HostLimits::gather().unwrap();
    let reno = "reno".to_owned();
    assert!(limits.congestion_controls_available.contains(&reno));
    let wanted = 64 << 20;
    let plan = SocketPlan {
        congestion_control: Some(reno),
        buffer_bytes: Some(wanted),
        window_bytes: Some(wanted),
        pacing_bps: Some(80_000_000_000),
        notsent_lowat_bytes: Some(1 << 20),
    };
    let (near, far) = pair(loopback(0), &plan);
    for end in [&near, &far] {
        let settings = Settings::read(end).unwrap();
        assert_eq!(settings.congestion_control, "reno");
        assert_eq!(settings.pacing_bps, plan.pacing_bps);
        let granted = |requested: u64, limit: u64| {
            if limits.privileged {
                requested
            } else {
                requested.min(limit)
            }
        };
        assert_eq!(
            settings.send_buffer_bytes,
            granted(wanted, limits.wmem_max_bytes)
        );
        let receive = granted(2 * wanted, limits.rmem_max_bytes);
        assert_eq!(settings.receive_buffer_bytes, receive);
        assert_eq!(
            plan.shortfall(&settings, false).is_none(),
            receive >= wanted
        );
        assert!(end.nodelay().unwrap());
        assert_eq!(Info::read(end).unwrap().max_pacing_bps, plan.pacing_bps);
    }
}

#[test]
fn an_empty_plan_leaves_the_kernel_its_choice() {
    let (near, _far) = pair(loopback(0), &SocketPlan::default());
    let settings = Settings::read(&near).unwrap();
    assert_eq!(settings.pacing_bps, None);
    let limits = HostLimits::gather().unwrap();
    assert_eq!(
        settings.congestion_control,
        limits.congestion_control_default
    );
}

#[test]
fn large_buffers_that_were_inherited_are_tuned_again() {
    let large = SocketPlan {
        buffer_bytes: Some(1 << 20),
        ..SocketPlan::default()
    };
    let (near, far) = pair(loopback(0), &large);
    let tuned_bytes = |socket| Settings::read(socket).unwrap().receive_buffer_bytes;
    assert!(tuned_bytes(&far) > 100_000);
    tune_again(&far).unwrap();
    let before = tuned_bytes(&far);
    assert!(before < 100_000, "{before}");
    let writer = thread::spawn(move || (&near).write_all(&vec![0; 64 << 20]).unwrap());
    let got = (&far).read_to_end(&mut Vec::new()).unwrap();
    writer.join().unwrap();
    assert_eq!(got, 64 << 20);
    assert!(
        tuned_bytes(&far) > before,
        "the kernel grows it as it wants"
    );
}

#[test]
fn the_most_window_bounds_the_scale_of_windows() {
    let scale = |window_bytes| {
        let plan = SocketPlan {
            buffer_bytes: Some(1 << 29),
            window_bytes,
            ..SocketPlan::default()
        };
        let (_near, far) = pair(loopback(0), &plan);
        let mut info = [0_u8; 8];
        let mut length = 8;
        // SAFETY: the kernel writes at most the eight bytes that `info` has.
        let result = unsafe {
            libc::getsockopt(
                far.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        assert_eq!(result, 0);
        // tcpi_snd_wscale and tcpi_rcv_wscale, four bits each (linux/tcp.h).
        info[6] >> 4
    };
    assert_eq!(scale(Some(1 << 20)), 5);
    assert!(scale(None) > 5);
    assert!(scale(Some(1 << 26)) <= 11);
}

#[test]
fn a_shortfall_names_the_line_that_mends_it() {
    let (near, _far) = pair(loopback(0), &SocketPlan::default());
    let plan = SocketPlan {
        buffer_bytes: Some(1 << 40),
        ..SocketPlan::default()
    };
    let settings = Settings::read(&near).unwrap();
    for (sends, limit) in [(true, "wmem_max"), (false, "rmem_max")] {
        let said = plan.shortfall(&settings, sends).unwrap();
        let line = format!("sysctl -w net.core.{limit}=1073741823");
        assert!(said.ends_with(&line), "{said}");
    }
}

#[test]
fn an_unknown_control_names_those_there_are() {
    let plan = SocketPlan {
        congestion_control: Some("tortoise".into()),
        ..SocketPlan::default()
    };
    let error = listen(loopback(0), &plan).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, Error::UnknownControl { .. }), "{said}");
    assert!(said.contains("tortoise"), "{said}");
    for name in available_controls().unwrap() {
        assert!(said.contains(&name), "{said}");
    }
}

#[test]
fn a_live_connection_changes_its_control() {
    let plan = SocketPlan {
        congestion_control: Some("reno".into()),
        ..SocketPlan::default()
    };
    let (mut near, mut far) = pair(loopback(0), &plan);
    let mut bytes = vec![0; 1 << 20];
    let allowed = HostLimits::gather().unwrap().congestion_controls_allowed;
    for name in available_controls().unwrap() {
        match set_congestion_control(&near, &name) {
            Err(Error::ForbiddenControl { allow, .. }) => {
                assert!(!allowed.contains(&name));
                assert!(allow.split(' ').any(|word| word == name), "{allow}");
                continue;
            }
            other => other.unwrap(),
        }
        assert_eq!(Settings::read(&near).unwrap().congestion_control, name);
        thread::scope(|scope| {
            scope.spawn(|| near.write_all(&vec![1; 1 << 20]).unwrap());
            far.read_exact(&mut bytes).unwrap();
        });
    }
}

#[test]
fn info_follows_what_was_sent() {
    let (mut near, mut far) = pair(loopback(0), &SocketPlan::default());
    let sent = 3 << 20;
    let reader = thread::spawn(move || {
        far.read_exact(&mut vec![0; sent]).unwrap();
        far
    });
    near.write_all(&vec![1; sent]).unwrap();
    let far = reader.join().unwrap();
    assert_eq!(Info::read(&far).unwrap().bytes_received, sent as u64);
    let began = Instant::now();
    let info = loop {
        let info = Info::read(&near).unwrap();
        if info.bytes_acked > sent as u64 {
            break info;
        }
        assert!(began.elapsed() < PATIENCE.timeout, "{info:?}");
    };
    assert!(info.established);
    assert!(info.min_rtt.unwrap() <= info.rtt.unwrap() + info.rtt_var * 4);
    assert!(info.delivery_bps.is_some() && info.cwnd_segments > 0 && info.mss_bytes > 0);
    assert_eq!(info.notsent_bytes, 0);
}

#[test]
fn the_connection_of_sshd_is_found_by_its_addresses() {
    let any_v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    for (at, to) in [
        (loopback(0), Ipv4Addr::LOCALHOST.into()),
        (any_v6, std::net::IpAddr::from(Ipv4Addr::LOCALHOST)),
        (any_v6, Ipv6Addr::LOCALHOST.into()),
    ] {
        let plan = SocketPlan::default();
        let listener = listen(at, &plan).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = connect_first(&[(to, port).into()], &plan, PATIENCE).unwrap();
        let (mut server, _) = accept(&listener, PATIENCE).unwrap();
        server.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        let from = client.local_addr().unwrap();
        let text = format!("{} {} {to} {port}", from.ip(), from.port());
        let rtt = ssh_rtt(&text).unwrap_or_else(|| panic!("{text}"));
        assert!(
            rtt.min > Duration::ZERO && rtt.min < Duration::from_secs(1),
            "{rtt:?}"
        );
        drop((client, server, listener));
    }
    assert_eq!(connection_info(loopback(1), loopback(2)).unwrap(), None);
}

#[test]
fn a_refusal_says_where() {
    let closed = listen(loopback(0), &SocketPlan::default())
        .unwrap()
        .local_addr()
        .unwrap();
    let refused = connect_first(&[closed], &SocketPlan::default(), PATIENCE);
    let said = refused.unwrap_err().to_string();
    assert!(
        said.starts_with(&format!("cannot connect to {closed}: ")),
        "{said}"
    );
    let none = connect_first(&[], &SocketPlan::default(), PATIENCE);
    assert!(matches!(none, Err(Error::NoAddress)));
}

#[test]
fn the_next_address_is_tried_beside_a_silent_or_closed_one() {
    let plan = SocketPlan::default();
    let listener = listen(loopback(0), &plan).unwrap();
    let good = listener.local_addr().unwrap();
    let (_held, closed) = closed_port();
    let (silent, _first) = full_listener();
    let addresses = [closed, silent.local_addr().unwrap(), good];
    let stream = connect_first(&addresses, &plan, PATIENCE).unwrap();
    assert_eq!(stream.peer_addr().unwrap(), good);
}

#[test]
fn a_wait_ends_in_time_and_says_for_whom() {
    let (silent, _first) = full_listener();
    let to = silent.local_addr().unwrap();
    let patience = Patience {
        timeout: Duration::from_millis(200),
        stop: &NEVER,
    };
    let error = connect_first(&[to], &SocketPlan::default(), patience).unwrap_err();
    assert!(matches!(error, Error::Unanswered { .. }), "{error}");
    assert!(error.to_string().contains(&to.to_string()), "{error}");
    let listener = listen(loopback(0), &SocketPlan::default()).unwrap();
    let error = accept(&listener, patience).unwrap_err();
    assert!(matches!(error, Error::Unvisited { .. }), "{error}");
}

#[test]
fn another_connection_is_begun_beside_one_that_waits() {
    let (silent, _first) = full_listener();
    let to = silent.local_addr().unwrap();
    let begun = thread::spawn(move || {
        connect_again(
            &[to],
            &SocketPlan::default(),
            PATIENCE,
            Duration::from_millis(50),
        )
    });
    thread::sleep(Duration::from_millis(400));
    // There is room now. The kernel tries the first connection again after a second.
    let since = Instant::now();
    let _second = silent.accept().unwrap();
    let stream = begun.join().unwrap().unwrap();
    assert_eq!(stream.peer_addr().unwrap(), to);
    assert!(since.elapsed() < Duration::from_millis(400), "{since:?}");
    let patience = Patience {
        timeout: Duration::from_millis(200),
        stop: &NEVER,
    };
    let (silent, _first) = full_listener();
    let to = silent.local_addr().unwrap();
    let every = Duration::from_millis(20);
    let error = connect_again(&[to], &SocketPlan::default(), patience, every).unwrap_err();
    assert!(matches!(error, Error::Unanswered { .. }), "{error}");
}

#[test]
fn a_stop_ends_every_wait() {
    let (silent, _first) = full_listener();
    let to = silent.local_addr().unwrap();
    let idle = listen(loopback(0), &SocketPlan::default()).unwrap();
    let stop = AtomicBool::new(false);
    let patience = Patience {
        timeout: Duration::from_secs(600),
        stop: &stop,
    };
    let (connected, accepted) = thread::scope(|scope| {
        let connecting = scope.spawn(|| connect_first(&[to], &SocketPlan::default(), patience));
        let accepting = scope.spawn(|| accept(&idle, patience));
        thread::sleep(Duration::from_millis(20));
        stop.store(true, Ordering::Relaxed);
        (connecting.join().unwrap(), accepting.join().unwrap())
    });
    assert!(matches!(connected, Err(Error::Stopped)));
    assert!(matches!(accepted, Err(Error::Stopped)));
}

#[test]
fn limits_agree_with_the_files_of_proc() {
    let limits = HostLimits::gather().unwrap();
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    assert_eq!(limits.kernel, read("/proc/sys/kernel/osrelease").trim());
    let available = limits.congestion_controls_available.join(" ");
    assert_eq!(
        available,
        read("/proc/sys/net/ipv4/tcp_available_congestion_control").trim()
    );
    if let Ok(rmem_max) = std::fs::read_to_string("/proc/sys/net/core/rmem_max") {
        assert_eq!(limits.rmem_max_bytes.to_string(), rmem_max.trim());
    }
    for (switch, name) in [
        (limits.window_scaling, "window_scaling"),
        (limits.timestamps, "timestamps"),
        (limits.sack, "sack"),
        (limits.receive_autotuning, "moderate_rcvbuf"),
    ] {
        let shown = read(&format!("/proc/sys/net/ipv4/tcp_{name}"));
        assert_eq!(switch, Some(shown.trim() != "0"), "{name}");
    }
    assert!(limits.cpus >= 1 && limits.memory_bytes > 1 << 26);
    assert!(limits.tcp_rmem_max_bytes > 4096 && limits.tcp_wmem_max_bytes > 4096);
    assert!(
        limits
            .congestion_controls_available
            .contains(&limits.congestion_control_default)
    );
}

#[test]
fn connections_are_counted_by_their_control() {
    let count = || {
        connection_controls()
            .unwrap()
            .get("reno")
            .copied()
            .unwrap_or(0)
    };
    let before = count();
    let plan = SocketPlan {
        congestion_control: Some("reno".to_owned()),
        ..SocketPlan::default()
    };
    let pairs: Vec<_> = (0..300).map(|_| pair(loopback(0), &plan)).collect();
    // Other tests connect and part meanwhile, but not by hundreds.
    assert!(count() >= before + 550, "{before} {}", count());
    drop(pairs);
}
