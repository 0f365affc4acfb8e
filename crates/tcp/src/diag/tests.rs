use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn v4(octets: [u8; 4], port: u16) -> SocketAddr {
    (Ipv4Addr::from(octets), port).into()
}

#[test]
fn the_server_of_ssh_connection_is_this_host() {
    let parsed = ssh_ends("198.51.100.7 50022 203.0.113.5 22");
    assert_eq!(
        parsed,
        Some((v4([203, 0, 113, 5], 22), v4([198, 51, 100, 7], 50022)))
    );
}

#[test]
fn mapped_addresses_become_ipv4_ones() {
    let parsed = ssh_ends("::ffff:198.51.100.7 50022 ::ffff:203.0.113.5 22");
    assert_eq!(
        parsed,
        Some((v4([203, 0, 113, 5], 22), v4([198, 51, 100, 7], 50022)))
    );
}

#[test]
fn a_link_local_address_keeps_its_device() {
    let (local, remote) = ssh_ends("fe80::2%7 50022 fe80::1%lo 22").unwrap();
    let lo = device_index("lo").unwrap();
    assert_eq!(
        local,
        SocketAddrV6::new("fe80::1".parse().unwrap(), 22, 0, lo).into()
    );
    assert_eq!(
        remote,
        SocketAddrV6::new("fe80::2".parse().unwrap(), 50022, 0, 7).into()
    );
}

#[test]
fn what_is_no_ssh_connection_is_refused() {
    for text in [
        "",
        "198.51.100.7 50022 203.0.113.5",
        "198.51.100.7 50022 203.0.113.5 22 1",
        "198.51.100.7 65536 203.0.113.5 22",
        "198.51.100.7 50022 2001:db8::1 22",
        "198.51.100.7 50022 fe80::1%nosuchdevice 22",
        "UNKNOWN 65535 UNKNOWN 65535",
    ] {
        assert_eq!(ssh_ends(text), None, "{text:?}");
        assert_eq!(ssh_rtt(text), None, "{text:?}");
    }
}

#[test]
fn the_request_has_the_layout_of_inet_diag_req_v2() {
    let local = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 0x1234);
    let remote = SocketAddr::new("2001:db8::9".parse().unwrap(), 0x5678);
    let bytes = request(local, remote);
    assert_eq!(bytes[..4], 72_u32.to_ne_bytes());
    assert_eq!(bytes[16..20], [libc::AF_INET6 as u8, 6, 0b10, 0]);
    assert_eq!(bytes[24..28], [0x12, 0x34, 0x56, 0x78]);
    assert_eq!(bytes[28..44], Ipv6Addr::LOCALHOST.octets());
    assert_eq!(bytes[44..46], [0x20, 0x01]);
    assert_eq!(bytes[64..72], [0xff; 8]);
}

/// An answer with one attribute of another kind before INET_DIAG_INFO.
fn answer(info: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES + DIAG_MESSAGE_BYTES];
    for (kind, value) in [(15_u16, &[1_u8][..]), (2, info)] {
        bytes.extend(((ATTRIBUTE_HEADER_BYTES + value.len()) as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes
}

#[test]
fn info_is_found_behind_other_attributes() {
    let mut info = vec![0; 232];
    info[68..72].copy_from_slice(&20_000_u32.to_ne_bytes());
    let parsed = parse_answer(&answer(&info)).unwrap();
    assert_eq!(parsed.rtt, Some(Duration::from_millis(20)));
}

#[test]
fn an_error_message_carries_no_info() {
    let mut bytes = answer(&[0; 232]);
    bytes[4..6].copy_from_slice(&2_u16.to_ne_bytes());
    assert_eq!(parse_answer(&bytes), None);
}

proptest! {
    #[test]
    fn cut_or_wild_answers_never_panic(cut in 0_usize..400, at in 0_usize..400, with: u8) {
        let mut bytes = answer(&[7; 232]);
        if let Some(byte) = bytes.get_mut(at) {
            *byte = with;
        }
        bytes.truncate(cut);
        let _ = parse_answer(&bytes);
    }
}
