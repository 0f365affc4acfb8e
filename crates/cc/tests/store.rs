//! Programs, targets and rules that outlive their process: loaded, swapped under live connections, removed.

mod own;
mod path;
mod privilege;

use std::{
    net::TcpStream,
    process::ExitCode,
    time::{Duration, Instant},
};

use howdah_cc::{Place, Program, Target};
use own::{Own, place, said};
use path::{Path, send};
use privilege::tests;
use rustix::net::sockopt::tcp_congestion;

fn loaded_it_outlives_its_loader_and_unloading_moves_its_connections() {
    let own = Own::new('l');
    let scalable = Program::find("scalable").unwrap();
    let name = own.name("scalable");
    assert!(said(own.store.unload(scalable)).contains("is not loaded"));
    assert_eq!(own.load("scalable", &[]).unwrap(), "loaded");
    assert_eq!(own.load("scalable", &[]).unwrap(), "unchanged");
    assert!(own.root.join(&name).join("link").exists());

    let path = Path::new(100_000_000, 2_000_000, 0.0);
    let (mut near, mut far) = path.connection(&name, 4);
    send(&mut near, &mut far, 100_000);
    assert_eq!(own.connection(&near).control, name);

    let done = own.store.unload(scalable).unwrap();
    assert_eq!(done.moved.values().sum::<usize>(), 1, "{done:?}");
    assert_eq!(done.left, 0);
    let now = tcp_congestion(&near).unwrap();
    assert!(done.moved.contains_key(&now), "{now} {done:?}");
    assert_ne!(now, name);
    send(&mut near, &mut far, 100_000);
    assert!(!own.store.list().iter().any(|each| each.in_kernel));
    assert!(!own.root.exists());
}

fn a_swap_keeps_parameters_and_takes_live_connections_along() {
    let own = Own::new('s');
    own.load("scalable", &[("md_shift", "4")]).unwrap();
    let path = Path::new(100_000_000, 2_000_000, 0.0);
    let (mut near, mut far) = path.connection(&own.name("scalable"), 6);
    send(&mut near, &mut far, 100_000);
    let given = [("ai_packets".to_owned(), "50".to_owned())];
    let done = own
        .store
        .load(Program::find("scalable").unwrap(), &given)
        .unwrap();
    assert_eq!((done.action, done.moved), ("swapped", 1));
    let values: Vec<_> = done.settings.iter().map(|setting| setting.value).collect();
    assert_eq!(values, [50, 4]);
    send(&mut near, &mut far, 100_000);
    assert_eq!(tcp_congestion(&near).unwrap(), own.name("scalable"));
    let mut listed = own.store.list().into_iter();
    let scalable = listed.find(|each| each.name == "scalable").unwrap();
    let loaded = scalable.loaded.unwrap();
    assert!(loaded.current && loaded.understood);
    assert_eq!(loaded.settings, done.settings);
}

fn a_program_of_other_maps_is_left_alone_but_can_be_unloaded() {
    let own = Own::new('o');
    own.load("hold", &[]).unwrap();
    let about = own.root.join(own.name("hold")).join("about");
    let map = libbpf_rs::MapHandle::from_pinned_path(about).unwrap();
    let mut value = {
        use libbpf_rs::{MapCore, MapFlags};
        map.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap()
    };
    value[..4].copy_from_slice(&7_u32.to_ne_bytes());
    value[16..24].copy_from_slice(b"0.0.9\0\0\0");
    {
        use libbpf_rs::{MapCore, MapFlags};
        map.update(&[0; 4], &value, MapFlags::ANY).unwrap();
    }
    for refused in [
        said(own.load("hold", &[])),
        said(
            own.store
                .set_target(Target::new(Some(1_000_000), None).unwrap(), None),
        ),
    ] {
        assert!(refused.contains("was loaded by howdah 0.0.9"), "{refused}");
        assert!(refused.contains("howdah cc unload hold"), "{refused}");
    }
    assert!(own.store.shares().unwrap().is_empty());
    own.store.unload(Program::find("hold").unwrap()).unwrap();
}

fn rules_of_other_maps_are_refused_with_the_way_out() {
    use libbpf_rs::{MapHandle, MapType};
    let own = Own::new('p');
    own.load("scalable", &[]).unwrap();
    let folder = own.root.join("attach");
    std::fs::create_dir(&folder).unwrap();
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let rule_bytes = 80;
    for name in ["rules", "prefixes", "link"] {
        let mut map =
            MapHandle::create(MapType::Array, Some(name), 4, rule_bytes, 64, &options).unwrap();
        map.pin(folder.join(name)).unwrap();
    }
    let remove = format!("rm -r {}", folder.display());
    assert!(said(own.store.rules()).contains(&remove));
    let attached = own.store.attach(place("192.0.2.0/24", "1"), "reno", None);
    assert!(said(attached).contains(&remove));
    let scalable = Program::find("scalable").unwrap();
    assert!(said(own.store.unload(scalable)).contains(&remove));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(own.store.rules().unwrap().is_empty());
}

/// Payload per second from one end to the other, over `bytes`.
fn rate(near: &mut TcpStream, far: &mut TcpStream, bytes: usize) -> f64 {
    let began = Instant::now();
    send(near, far, bytes);
    bytes as f64 / began.elapsed().as_secs_f64()
}

fn a_target_is_held_through_loss_and_a_new_one_counts_at_once() {
    let own = Own::new('t');
    own.load("hold", &[]).unwrap();
    let target = |rate_bps| Target::new(Some(rate_bps), None).unwrap();
    own.store.set_target(target(40_000_000), None).unwrap();
    let path = Path::new(100_000_000, 40_000_000, 0.01);
    let (mut near, mut far) = path.connection(&own.name("hold"), 4);
    send(&mut near, &mut far, 1_000_000);
    // 1448 of 1538 bytes on the wire are payload, and one packet in a hundred goes twice.
    let possible = 40_000_000.0 / 8.0 * 1448.0 / 1538.0 * 0.99;
    // A repair that is lost again may cost a timeout, and a busy machine takes its part: never more than it.
    let looks: Vec<f64> = (0..3)
        .map(|_| rate(&mut near, &mut far, 4_000_000))
        .collect();
    assert!(
        looks.iter().any(|held| *held > 0.6 * possible)
            && looks.iter().all(|held| *held < 1.02 * possible),
        "{looks:?} of {possible}"
    );
    let flow = own.connection(&near);
    let hold = flow.hold.unwrap();
    assert_eq!((hold.state, hold.falls), ("held", 0));
    assert!(
        (0.0395..0.08).contains(&hold.base_rtt_s.unwrap()),
        "{hold:?}"
    );
    let packets = 5_000_000.0 * (hold.base_rtt_s.unwrap() + 0.01) / 1538.0;
    assert!(
        (f64::from(flow.window_packets) / packets - 1.01).abs() < 0.02,
        "{packets} {hold:?}"
    );

    let named = format!("{}", near.peer_addr().unwrap());
    let done = own
        .store
        .set_target(target(10_000_000), Some(&named))
        .unwrap();
    assert_eq!(done.flows, Some(1));
    std::thread::sleep(Duration::from_millis(100));
    let slow = rate(&mut near, &mut far, 1_500_000);
    assert!(slow < 1.2 * possible / 4.0, "{slow}");
    assert_eq!(
        own.connection(&near).hold.unwrap().target.unwrap().rate_bps,
        10_000_000
    );

    let window = Target::new(None, Some(20)).unwrap();
    own.store.set_target(window, Some(&named)).unwrap();
    send(&mut near, &mut far, 100_000);
    assert_eq!(own.connection(&near).window_packets, 20);
    for (flow, says) in [
        ("10.78.0.9:5201", "no connection to 10.78.0.9:5201 is here"),
        ("nonsense", "write 10.9.0.2:5201"),
    ] {
        let refused = said(own.store.set_target(window, Some(flow)));
        assert!(refused.contains(says), "{refused}");
    }
}

fn the_guard_falls_back_under_heavy_loss_and_says_so() {
    let own = Own::new('g');
    own.load("hold", &[("guard_loss", "2%"), ("guard_rounds", "4")])
        .unwrap();
    own.store
        .set_target(Target::new(Some(20_000_000), None).unwrap(), None)
        .unwrap();
    let path = Path::new(100_000_000, 10_000_000, 0.08);
    let (mut near, mut far) = path.connection(&own.name("hold"), 4);
    send(&mut near, &mut far, 1_500_000);
    let hold = own.connection(&near).hold.unwrap();
    assert!(hold.falls >= 1, "{hold:?}");
    assert!(hold.rounds_held < hold.rounds, "{hold:?}");
}

fn wrong_targets_are_refused() {
    for (rate, window, says) in [
        (Some(0), None, "below 8 kb/s"),
        (Some(2_000_000_000_000), None, "above 1 Tb/s"),
        (None, Some(1), "from 2 to"),
        (Some(1_000_000), Some(10), "give one of them"),
    ] {
        assert!(said(Target::new(rate, window)).contains(says));
    }
}

fn rules_choose_for_new_connections_move_old_ones_and_leave_others_alone() {
    let own = Own::new('r');
    own.load("scalable", &[]).unwrap();
    let name = own.name("scalable");
    let path = Path::new(100_000_000, 2_000_000, 0.0);
    for (family, to) in [(4, "10.78.0.2/32"), (6, "fd78::2/128")] {
        let listener = path.listener(family);
        let (before, _far_before) = path.connection_to(&listener, "reno");
        let (other, _far_other) = path.connection("reno", family);
        // The rule holds for the whole machine; the port makes it this test's alone.
        let rule = place(to, &listener.local_addr().unwrap().port().to_string());
        let done = own.store.attach(rule.clone(), &name, None).unwrap();
        assert_eq!(done.moved, 1, "{done:?}");
        let (after, _far_after) = path.connection_to(&listener, "reno");
        assert_eq!(tcp_congestion(&before).unwrap(), name);
        assert_eq!(tcp_congestion(&after).unwrap(), name);
        assert_eq!(tcp_congestion(&other).unwrap(), "reno");
        assert_eq!(own.store.rules().unwrap()[0].chosen, 1);
        let refused = said(own.store.unload(Program::find("scalable").unwrap()));
        assert!(refused.contains("howdah cc detach --to"), "{refused}");
        own.store.detach(&rule).unwrap();
        for socket in [&before, &after, &other] {
            assert_eq!(tcp_congestion(socket).unwrap(), "reno");
        }
    }
}

fn a_rule_of_one_namespace_leaves_the_same_addresses_in_another_alone() {
    let own = Own::new('m');
    own.load("scalable", &[]).unwrap();
    let name = own.name("scalable");
    let [one, other] = [(); 2].map(|()| Path::new(100_000_000, 2_000_000, 0.0));
    let (before, _far_before) = one.connection("reno", 4);
    let everywhere = place("10.78.0.2/32", "1-65535");
    let rule = Place {
        namespace: Some(own.connection(&before).namespace),
        ..everywhere.clone()
    };
    assert_eq!(
        own.store.attach(rule.clone(), &name, None).unwrap().moved,
        1
    );
    let (chosen, _far_chosen) = one.connection("reno", 4);
    let (left, _far_left) = other.connection("reno", 4);
    assert_eq!(tcp_congestion(&before).unwrap(), name);
    assert_eq!(tcp_congestion(&chosen).unwrap(), name);
    assert_eq!(tcp_congestion(&left).unwrap(), "reno");

    let beside = Place {
        namespace: Some(own.connection(&left).namespace),
        ..everywhere.clone()
    };
    own.store.attach(beside.clone(), "cubic", None).unwrap();
    assert_eq!(tcp_congestion(&left).unwrap(), "cubic");
    let refused = said(own.store.attach(everywhere.clone(), &name, None));
    assert!(refused.contains("--namespace"), "{refused}");
    assert!(said(own.store.detach(&everywhere)).contains("is not attached"));
    let nowhere = Place {
        namespace: Some(1),
        ..everywhere.clone()
    };
    assert!(said(own.store.attach(nowhere, &name, None)).contains("lsns -t net"));
    for place in [rule, beside] {
        own.store.detach(&place).unwrap();
    }
    for socket in [&before, &chosen, &left] {
        assert_eq!(tcp_congestion(socket).unwrap(), "reno");
    }
}

fn rules_that_cannot_be_are_refused() {
    let own = Own::new('x');
    let attach =
        |to: &str, ports: &str, control: &str| own.store.attach(place(to, ports), control, None);
    attach("192.0.2.0/24", "5000-5100", "reno").unwrap();
    attach("192.0.2.0/24", "6000", "reno").unwrap();
    for (to, ports, control, says) in [
        ("192.0.2.0/24", "5000-5100", "reno", "attached already"),
        ("192.0.2.0/24", "5100-5200", "reno", "overlap those of"),
        ("192.0.2.128/25", "7000", "reno", "overlaps 192.0.2.0/24"),
        ("192.0.0.0/16", "7000", "reno", "overlaps 192.0.2.0/24"),
        (
            "198.51.100.0/24",
            "7000",
            "nonesuch",
            "is not in this kernel",
        ),
        (
            "198.51.100.0/24",
            "7000",
            &own.name("hold"),
            "is not loaded",
        ),
    ] {
        let refused = said(attach(to, ports, control));
        assert!(refused.contains(says), "{refused}");
    }
    let with_rate = Target::new(Some(1_000_000), None).ok();
    let refused = own
        .store
        .attach(place("198.51.100.0/24", "7000"), "reno", with_rate);
    assert!(said(refused).contains("only hold does"));
    let refused = said(own.store.detach(&place("192.0.2.0/24", "7000")));
    assert!(
        refused.contains("is not attached; attached: --to 192.0.2.0/24"),
        "{refused}"
    );
    own.store.detach(&place("192.0.2.0/24", "6000")).unwrap();
    own.store
        .detach(&place("192.0.2.0/24", "5000-5100"))
        .unwrap();
    assert!(said(own.store.detach(&place("192.0.2.0/24", "6000"))).contains("no rule is attached"));
}

fn main() -> ExitCode {
    let needing = tests![
        loaded_it_outlives_its_loader_and_unloading_moves_its_connections,
        a_swap_keeps_parameters_and_takes_live_connections_along,
        a_program_of_other_maps_is_left_alone_but_can_be_unloaded,
        rules_of_other_maps_are_refused_with_the_way_out,
        a_target_is_held_through_loss_and_a_new_one_counts_at_once,
        the_guard_falls_back_under_heavy_loss_and_says_so,
        rules_choose_for_new_connections_move_old_ones_and_leave_others_alone,
        a_rule_of_one_namespace_leaves_the_same_addresses_in_another_alone,
        rules_that_cannot_be_are_refused
    ];
    let others = tests![wrong_targets_are_refused];
    privilege::run([(path::missing_privilege(), needing), (None, others)])
}
