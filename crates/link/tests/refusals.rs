//! What is out of range is refused with the place, the value and what would be right.

use howdah_link::{Change, DirectionSpec, GilbertElliott, Spec};

fn good() -> Spec {
    let direction = DirectionSpec {
        rate_bps: Some(10_000_000_000),
        delay_ns: 50_000_000,
        jitter_ns: 0,
        queue_bytes: None,
        loss: 0.0,
        burst: None,
        changes: vec![],
    };
    Spec {
        mtu: 1500,
        frame_overhead_bytes: 38,
        seed: 1,
        near_to_far: direction.clone(),
        far_to_near: direction,
    }
}

fn refusal(spoil: impl FnOnce(&mut Spec)) -> String {
    let mut spec = good();
    spoil(&mut spec);
    spec.check().expect_err("must be refused").to_string()
}

#[test]
fn a_good_link_passes_with_a_queue_of_one_bdp() {
    let spec = good();
    assert_eq!(spec.check(), Ok(()));
    assert_eq!(spec.queue_limit_bytes(&spec.near_to_far), 125_000_000);
}

#[test]
fn each_parameter_has_its_range() {
    assert_eq!(
        refusal(|spec| spec.near_to_far.loss = 1.5),
        "link: near_to_far.loss is 1.5; it must be 0 to 1"
    );
    assert_eq!(
        refusal(|spec| spec.mtu = 100),
        "link: mtu is 100 bytes; it must be 576 bytes to 65535 bytes"
    );
    assert_eq!(
        refusal(|spec| spec.far_to_near.rate_bps = Some(0)),
        "link: far_to_near.rate_bps is 0 b/s; it must be 1 kb/s to 1 Tb/s"
    );
    assert!(
        refusal(|spec| spec.near_to_far.queue_bytes = Some(1000)).contains("queue_bytes is 1 kB")
    );
    let change = Change {
        drop: Some(0),
        ..Change::default()
    };
    assert_eq!(
        refusal(|spec| spec.near_to_far.changes = vec![change]),
        "link: near_to_far.changes[0].drop is 0 segments; it must be 1 segments to 1000000 segments"
    );
    assert!(refusal(|spec| spec.near_to_far.delay_ns = 1 << 60).contains("to 100 s"));
    assert!(refusal(|spec| spec.near_to_far.jitter_ns = 1 << 60).contains("jitter_ns"));
    assert!(refusal(|spec| spec.frame_overhead_bytes = 5000).contains("frame_overhead_bytes"));
    let burst = GilbertElliott {
        enter: -0.1,
        leave: 0.1,
        loss_good: 0.0,
        loss_bad: 1.0,
    };
    assert!(
        refusal(|spec| spec.near_to_far.burst = Some(burst))
            .contains("near_to_far.burst.enter is -0.1")
    );
    assert!(refusal(|spec| spec.near_to_far.loss = f64::NAN).contains("NaN"));
}

#[test]
fn changes_are_in_order_and_of_something_that_is_there() {
    let at = |at_ns| Change {
        at_ns,
        ..Change::default()
    };
    assert_eq!(
        refusal(|spec| spec.near_to_far.changes = vec![at(2_000_000_000), at(1_000_000_000)]),
        "link: near_to_far.changes[1].at_ns is 1 s; changes must be in order of time, so not before 2 s"
    );
    let faster = Change {
        rate_bps: Some(1_000_000),
        ..at(5)
    };
    let message = refusal(|spec| {
        spec.near_to_far.rate_bps = None;
        spec.near_to_far.changes = vec![faster];
    });
    assert!(
        message.contains("changes[0].rate_bps is 1 Mb/s"),
        "{message}"
    );
}
