//! Shares: found again by name, given by rules, counted, and taken away.

mod own;
mod path;
mod privilege;

use std::{
    net::TcpListener,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use howdah_cc::{Placing, Share, Shares};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use own::{Own, place, said};
use path::{Path, send};
use privilege::tests;
use rustix::net::sockopt::tcp_congestion;

const FOR_EVER: u64 = u64::MAX;

/// The only share of an owner, once `what` is true of it, or as it is after 20 s.
fn once(shares: &Shares, what: impl Fn(&Share) -> bool) -> Share {
    within(Duration::from_secs(20), shares, what)
}

fn within(time: Duration, shares: &Shares, what: impl Fn(&Share) -> bool) -> Share {
    let deadline = Instant::now() + time;
    loop {
        let all = shares.all().unwrap();
        assert_eq!(all.len(), 1);
        if what(&all[0]) || Instant::now() > deadline {
            return all[0].clone();
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// An owner of one share, and its number.
fn images(own: &Own) -> (Shares, u32) {
    own.load("hold", &[]).unwrap();
    let mut shares = Shares::open(&own.store, "one").unwrap();
    let number = shares.define("images", 20_000_000).unwrap().number;
    (shares, number)
}

/// Connections to a listener get it, and no others.
fn place_images(shares: &Shares, to: &str, listener: &TcpListener) -> Placing {
    let port = listener.local_addr().unwrap().port().to_string();
    shares
        .place(&[(place(to, &port), "images".to_owned())])
        .unwrap()
}

fn a_share_stays_as_it_was_set_until_it_is_removed() {
    let own = Own::new('a');
    let refused = said(Shares::open(&own.store, "one"));
    assert!(refused.contains("howdah cc load hold"), "{refused}");
    own.load("hold", &[]).unwrap();
    let mut shares = Shares::open(&own.store, "one").unwrap();
    let new = shares.define("images", 10_000).unwrap();
    assert_eq!((new.rate_bps, new.minimum_bps), (10_000, 10_000));
    assert!(new.left_s == 0.0, "{new:?}");
    shares.set("images", 50_000, 0, FOR_EVER).unwrap();
    own.load("hold", &[("guard_rounds", "9")]).unwrap();

    let mut again = Shares::open(&own.store, "one").unwrap();
    let found = again.define("images", 20_000).unwrap();
    assert_eq!(
        (
            found.number,
            found.rate_bps,
            found.minimum_bps,
            found.until_ns
        ),
        (new.number, 50_000, 0, FOR_EVER)
    );
    let mut other = Shares::open(&own.store, "two").unwrap();
    assert!(other.all().unwrap().is_empty());
    assert_ne!(other.define("images", 0).unwrap().number, new.number);
    assert_eq!(own.store.shares().unwrap().len(), 2);

    again.remove("images").unwrap();
    assert!(said(again.set("images", 50_000, 0, 0)).contains("define it first"));
    let next = again.define("background", 0).unwrap();
    assert_eq!((next.number, next.sent_bytes), (new.number, 0));
}

fn connections_are_counted_where_their_rule_says_and_while_they_live() {
    let own = Own::new('b');
    let (mut shares, number) = images(&own);
    let path = Path::new(100_000_000, 2_000_000, 0.0);
    for (family, to) in [(4, "10.78.0.2/32"), (6, "fd78::2/128")] {
        let before = once(&shares, |_| true);
        let listener = path.listener(family);
        let (mut near, mut far) = path.connection_to(&listener, "reno");
        assert_eq!(place_images(&shares, to, &listener).moved, 1);
        let (idle, _far) = path.connection_to(&listener, "reno");
        let (other, _far_other) = path.connection("reno", family);
        assert_eq!(tcp_congestion(&idle).unwrap(), own.name("hold"));
        assert_eq!(tcp_congestion(&other).unwrap(), "reno");
        let hold = own.connection(&near).hold.unwrap();
        assert_eq!(hold.target.unwrap().share, number);
        assert!(said(shares.remove("images")).contains("howdah cc detach --to"));

        // A kernel may skip the program at the last ACK (docs/design/congestion-control.md). Then the next
        // transmission is counted with what was missed.
        let mut sent_bytes = 0;
        let sent = (0..3)
            .find_map(|_| {
                send(&mut near, &mut far, 300_000);
                sent_bytes += 300_000;
                let all = before.acked_bytes + sent_bytes;
                let share = within(Duration::from_secs(3), &shares, |share| {
                    share.active == 0 && share.acked_bytes >= all
                });
                (share.active == 0 && share.acked_bytes >= all).then_some(share)
            })
            .expect("at the last ACK, all is counted");
        assert_eq!((sent.connections, sent.active), (2, 0));
        assert_eq!(sent.acked_bytes - before.acked_bytes, sent_bytes);
        // 1448 or 1428 bytes of payload in 1538.
        let wire = sent_bytes as f64 * 1538.0 / if family == 4 { 1448.0 } else { 1428.0 };
        let counted = (sent.sent_bytes - before.sent_bytes) as f64;
        assert!((counted / wire - 1.0).abs() < 0.01, "{counted} of {wire}");

        assert_eq!(shares.place(&[]).unwrap().ended, 1);
        assert_eq!(tcp_congestion(&near).unwrap(), "reno");
        assert_eq!(once(&shares, |_| true).connections, 0);
    }
}

fn a_connection_that_ends_or_cannot_send_leaves_the_share_to_others() {
    let own = Own::new('e');
    let (shares, _) = images(&own);
    let path = Path::new(100_000_000, 2_000_000, 0.0);
    let listener = path.listener(4);
    place_images(&shares, "10.78.0.2/32", &listener);
    let (mut near, mut far) = path.connection_to(&listener, "reno");
    send(&mut near, &mut far, 10_000);
    assert_eq!(once(&shares, |share| share.connections == 1).connections, 1);
    drop((near, far));
    assert_eq!(once(&shares, |share| share.connections == 0).connections, 0);

    // The reader is full: data waits, but not for its turn.
    let (near, far) = path.connection_to(&listener, "reno");
    near.set_nonblocking(true).unwrap();
    let block = vec![0; 1 << 16];
    while std::io::Write::write(&mut &near, &block).is_ok() || once(&shares, |_| true).active > 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let full = once(&shares, |share| share.active == 0);
    assert_eq!((full.connections, full.active), (1, 0));
    drop((near, far));
    once(&shares, |share| share.connections == 0);

    // Nobody answers any more.
    let (near, _far) = path.connection_to(&listener, "reno");
    near.set_nonblocking(true).unwrap();
    drop(path);
    while std::io::Write::write(&mut &near, &block).is_ok() {}
    assert_eq!(once(&shares, |share| share.active == 1).active, 1);
    let silent = once(&shares, |share| share.active == 0);
    assert_eq!((silent.connections, silent.active), (1, 0));
    shares.place(&[]).unwrap();
}

/// What a kernel leaves that skipped the program which should have counted a connection out.
fn one_that_went_uncounted_takes_no_part_for_long() {
    let own = Own::new('u');
    let (shares, number) = images(&own);
    let path = Path::new(100_000_000, 2_000_000, 0.0);
    let listener = path.listener(4);
    place_images(&shares, "10.78.0.2/32", &listener);
    let (mut near, mut far) = path.connection_to(&listener, "reno");
    let sender = thread::spawn(move || {
        let block = vec![0; 1 << 16];
        while std::io::Write::write_all(&mut near, &block).is_ok() {}
    });
    let reader = thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(3);
        let mut block = vec![0; 1 << 16];
        while Instant::now() < until {
            std::io::Read::read_exact(&mut far, &mut block).unwrap();
        }
    });
    assert_eq!(once(&shares, |share| share.active == 1).active, 1);
    let counted_in = own.root.join(own.name("hold")).join("uses");
    let uses = MapHandle::from_pinned_path(counted_in).unwrap();
    let key = (number - 1).to_ne_bytes();
    let mut counted = uses.lookup(&key, MapFlags::LOCK).unwrap().unwrap();
    // `active` of struct use; two that are no more.
    let active = u32::from_ne_bytes(counted[12..16].try_into().unwrap());
    counted[12..16].copy_from_slice(&(active + 2).to_ne_bytes());
    uses.update(&key, &counted, MapFlags::LOCK).unwrap();
    assert_eq!(once(&shares, |share| share.active == 1).active, 1);
    reader.join().unwrap();
    sender.join().unwrap();
    assert_eq!(once(&shares, |share| share.active == 0).active, 0);
    shares.place(&[]).unwrap();
}

fn main() -> ExitCode {
    let needing = tests![
        a_share_stays_as_it_was_set_until_it_is_removed,
        connections_are_counted_where_their_rule_says_and_while_they_live,
        a_connection_that_ends_or_cannot_send_leaves_the_share_to_others,
        one_that_went_uncounted_takes_no_part_for_long
    ];
    privilege::run([(path::missing_privilege(), needing)])
}
