use super::*;

/// `struct tcp_info` with every 32-bit word telling its own offset.
fn numbered(length: usize) -> Vec<u8> {
    (0..length as u32)
        .step_by(4)
        .flat_map(u32::to_ne_bytes)
        .collect()
}

fn with(mut bytes: Vec<u8>, offset: usize, field: &[u8]) -> Vec<u8> {
    bytes[offset..offset + field.len()].copy_from_slice(field);
    bytes
}

#[test]
fn fields_come_from_their_offsets() {
    let info = Info::parse(&numbered(248)).unwrap();
    assert_eq!(info.rtt, Some(Duration::from_micros(68)));
    assert_eq!(info.min_rtt, Some(Duration::from_micros(148)));
    assert_eq!(info.heard_ago, Duration::from_millis(52));
    assert_eq!(info.cwnd_segments, 80);
    assert_eq!(info.ssthresh_segments, Some(76));
    assert_eq!(info.retransmissions, 100);
    let doubled = |offset: u64| {
        if cfg!(target_endian = "little") {
            offset | (offset + 4) << 32
        } else {
            offset << 32 | (offset + 4)
        }
    };
    assert_eq!(info.bytes_acked, doubled(120));
    assert_eq!(info.delivery_bps, Some(doubled(160) * 8));
    assert_eq!(info.busy, Duration::from_micros(doubled(168)));
    assert_eq!(info.bytes_retransmitted, Some(doubled(208)));
    assert_eq!(info.send_window_bytes, Some(228));
}

#[test]
fn an_older_kernel_leaves_later_fields_out() {
    let info = Info::parse(&numbered(192)).unwrap();
    assert_eq!(info.bytes_retransmitted, None);
    assert_eq!(info.out_of_order_segments, None);
    assert_eq!(info.send_window_bytes, None);
    assert_eq!(Info::parse(&numbered(188)), None);
    assert_eq!(Info::parse(&[]), None);
}

#[test]
fn values_that_mean_nothing_are_absent() {
    let bytes = with(numbered(232), 148, &u32::MAX.to_ne_bytes());
    let bytes = with(bytes, 76, &INFINITE_SSTHRESH.to_ne_bytes());
    let bytes = with(bytes, 104, &u64::MAX.to_ne_bytes());
    let bytes = with(bytes, 160, &0_u64.to_ne_bytes());
    let info = Info::parse(&bytes).unwrap();
    assert_eq!(info.min_rtt, None);
    assert_eq!(info.ssthresh_segments, None);
    assert_eq!(info.pacing_bps, None);
    assert_eq!(info.delivery_bps, None);
}

#[test]
fn the_largest_share_of_time_names_the_limit() {
    let at = |busy: u64, rwnd: u64, sndbuf: u64, app: u8| {
        let mut bytes = with(vec![0; 232], 7, &[app]);
        for (offset, ms) in [(168, busy), (176, rwnd), (184, sndbuf)] {
            bytes = with(bytes, offset, &(ms * 1000).to_ne_bytes());
        }
        Info::parse(&bytes).unwrap()
    };
    let start = at(500, 100, 100, 0);
    let elapsed = Duration::from_millis(100);
    let limit = |now: Info| now.limited_by(&start, elapsed);
    assert_eq!(limit(at(600, 100, 100, 0)), Some(Limit::Cwnd));
    assert_eq!(limit(at(600, 100, 100, 1)), Some(Limit::App));
    assert_eq!(limit(at(600, 180, 100, 0)), Some(Limit::Rwnd));
    assert_eq!(limit(at(600, 110, 180, 1)), Some(Limit::Sndbuf));
    assert_eq!(limit(at(520, 110, 100, 0)), Some(Limit::App));
    assert_eq!(at(600, 0, 0, 0).limited_by(&start, Duration::ZERO), None);
}
