//! Pieces of an offloaded packet against the same data sent as single segments, checksums and all.

use howdah_emulator::{HEAD_BYTES, Packet, Piece, VNET_BYTES};
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct Sent {
    v6: bool,
    udp: bool,
    mss: usize,
    options: usize,
    flags: u8,
    id: u16,
    sequence: u32,
    payload: Vec<u8>,
}

const FIN: u8 = 1;
const PSH: u8 = 8;
const ACK: u8 = 16;
const CWR: u8 = 128;

impl Sent {
    fn transport_at(&self) -> usize {
        if self.v6 { 40 } else { 20 }
    }

    fn header(&self) -> usize {
        if self.udp { 8 } else { 20 + self.options }
    }

    fn protocol(&self) -> u8 {
        if self.udp { 17 } else { 6 }
    }

    /// An IP packet holding `payload` from `from` on, its transport checksum left to be finished.
    fn packet(&self, from: usize, to: usize, offloaded: bool) -> Vec<u8> {
        let transport_bytes = self.header() + to - from;
        let (first, last) = (from == 0, to == self.payload.len());
        let mut ip = vec![0; self.transport_at()];
        if self.v6 {
            ip[0] = 0x60;
            ip[4..6].copy_from_slice(&(transport_bytes as u16).to_be_bytes());
            ip[6] = self.protocol();
            (8..40).for_each(|i| ip[i] = i as u8 * 7);
        } else {
            ip[0] = 0x45;
            ip[2..4].copy_from_slice(&((20 + transport_bytes) as u16).to_be_bytes());
            let id = self.id.wrapping_add((from / self.mss) as u16);
            ip[4..6].copy_from_slice(&id.to_be_bytes());
            (ip[6], ip[8], ip[9]) = (0x40, 64, self.protocol());
            (12..20).for_each(|i| ip[i] = i as u8 * 13);
            let checksum = !sum(&ip);
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        let mut transport = vec![0x11; self.header()];
        let pseudo = sum(&self.pseudo(transport_bytes)).to_be_bytes();
        if self.udp {
            transport[4..6].copy_from_slice(&(transport_bytes as u16).to_be_bytes());
            transport[6..8].copy_from_slice(&pseudo);
        } else {
            transport[4..8].copy_from_slice(&self.sequence.wrapping_add(from as u32).to_be_bytes());
            transport[12] = (self.header() as u8 / 4) << 4;
            let clear = if last { 0 } else { FIN | PSH } | if first { 0 } else { CWR };
            transport[13] = (self.flags | ACK) & !clear;
            transport[16..18].copy_from_slice(&pseudo);
        }
        let gso = match (self.udp, self.v6) {
            (true, _) => 5,
            (_, true) => 4,
            (_, false) => 1 | (self.flags & CWR),
        };
        let mut packet = vec![1, if offloaded { gso } else { 0 }, 0, 0];
        packet.extend(if offloaded { self.mss as u16 } else { 0 }.to_le_bytes());
        packet.extend((self.transport_at() as u16).to_le_bytes());
        packet.extend([if self.udp { 6 } else { 16 }, 0]);
        packet.extend([ip, transport, self.payload[from..to].to_vec()].concat());
        packet
    }

    /// The pseudo-header of a segment of `bytes`, RFC 9293 §3.1 and RFC 8200 §8.1.
    fn pseudo(&self, bytes: usize) -> Vec<u8> {
        let addresses: Vec<u8> = match self.v6 {
            true => (8..40u8).map(|i| i.wrapping_mul(7)).collect(),
            false => (12..20u8).map(|i| i.wrapping_mul(13)).collect(),
        };
        [
            addresses,
            vec![0, self.protocol()],
            (bytes as u16).to_be_bytes().to_vec(),
        ]
        .concat()
    }
}

fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Finishes the checksum as the receiver's kernel would and compares with one over the whole segment.
fn checksum_is_right(sent: &Sent, packet: &[u8]) -> bool {
    let transport = &packet[VNET_BYTES + sent.transport_at()..];
    let at = if sent.udp { 6 } else { 16 };
    let finished = !sum(transport);
    let mut plain = transport.to_vec();
    plain[at..at + 2].copy_from_slice(&finished.to_be_bytes());
    sum(&[sent.pseudo(plain.len()), plain].concat()) == 0xffff
}

fn sent() -> impl Strategy<Value = Sent> {
    let shape = (
        any::<bool>(),
        any::<bool>(),
        8usize..1500,
        0usize..11,
        1usize..46,
        0.0..1.0f64,
    );
    (shape, any::<(u8, u16, u32)>()).prop_map(|(shape, (flags, id, sequence))| {
        let (v6, udp, mss, words, segments, last) = shape;
        let bytes = ((segments as f64 - last) * mss as f64)
            .ceil()
            .clamp(1.0, 64_000.0);
        let payload = (0..bytes as usize).map(|i| ((i * 31) >> 3) as u8).collect();
        Sent {
            v6,
            udp,
            mss,
            options: words * 4,
            flags,
            id,
            sequence,
            payload,
        }
    })
}

proptest! {
    #[test]
    fn single_segments_are_what_a_host_would_have_sent(sent in sent()) {
        let whole = sent.packet(0, sent.payload.len(), true);
        let packet = Packet::new(&whole);
        let burst = packet.burst(38);
        let segments = sent.payload.len().div_ceil(sent.mss);
        prop_assert_eq!(burst.segments as usize, segments);
        for index in 0..segments {
            let (from, to) = (index * sent.mss, ((index + 1) * sent.mss).min(sent.payload.len()));
            let mut expected = sent.packet(from, to, false);
            let headers = sent.transport_at() + sent.header();
            expected[2..4].copy_from_slice(&(headers as u16).to_le_bytes());
            let mut head = [0; HEAD_BYTES];
            let piece = packet.piece(index as u32, 1, &mut head);
            let made = [piece.head, piece.payload].concat();
            prop_assert!(checksum_is_right(&sent, &made));
            let wire = made.len() - VNET_BYTES + 38;
            prop_assert_eq!(burst.wire_bytes_of(index as u32, 1) as usize, wire);
            // One's complement has two zeros, so the unfinished sum is compared by what it finishes to.
            let at = VNET_BYTES + sent.transport_at() + if sent.udp { 6 } else { 16 };
            expected[at..at + 2].copy_from_slice(&made[at..at + 2]);
            prop_assert_eq!(made, expected);
        }
    }

    #[test]
    fn pieces_cut_further_are_the_same_segments(sent in sent(), cut in 0.0..1.0f64) {
        let whole = sent.packet(0, sent.payload.len(), true);
        let packet = Packet::new(&whole);
        let segments = packet.burst(38).segments;
        let cut = (f64::from(segments) * cut) as u32;
        for (first, count) in [(0, cut), (cut, segments - cut)] {
            if count == 0 {
                continue;
            }
            let mut head = [0; HEAD_BYTES];
            let piece = packet.piece(first, count, &mut head);
            let made = [piece.head, piece.payload].concat();
            let again = Packet::new(&made);
            prop_assert_eq!(again.burst(38).segments, count);
            let clears_cwr_after_first = made[1] & 0x80 != 0;
            prop_assert!(!clears_cwr_after_first || first == 0 && sent.flags & CWR != 0);
            for index in 0..count {
                let (mut direct, mut twice) = ([0; HEAD_BYTES], [0; HEAD_BYTES]);
                let direct = packet.piece(first + index, 1, &mut direct);
                let twice = again.piece(index, 1, &mut twice);
                let at = VNET_BYTES + sent.transport_at() + if sent.udp { 6 } else { 16 };
                let bare = |piece: Piece<'_>| {
                    let bytes = [piece.head, piece.payload].concat();
                    [&bytes[..at], &bytes[at + 2..]].concat()
                };
                prop_assert_eq!(bare(direct), bare(twice));
            }
        }
    }

    #[test]
    fn whatever_asks_to_be_cut_comes_out_once_and_in_order(bytes in offloaded()) {
        let packet = Packet::new(&bytes);
        let burst = packet.burst(38);
        prop_assert!(burst.segments >= 1 && burst.last_wire_bytes <= burst.wire_bytes);
        let mut made = Vec::new();
        let mut head_bytes = 0;
        for index in 0..burst.segments {
            let mut head = [0; HEAD_BYTES];
            let piece = packet.piece(index, 1, &mut head);
            let wire_bytes = piece.head.len() + piece.payload.len() - VNET_BYTES + 38;
            prop_assert_eq!(burst.wire_bytes_of(index, 1) as usize, wire_bytes);
            head_bytes = piece.head.len();
            made.extend(piece.payload);
        }
        prop_assert_eq!(head_bytes + made.len(), bytes.len());
        prop_assert!(bytes.ends_with(&made));
    }

    #[test]
    fn anything_shorter_than_a_header_is_one_segment(bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
        let burst = Packet::new(&bytes).burst(38);
        prop_assert_eq!(burst.segments, 1);
        prop_assert_eq!(burst.wire_bytes as usize, bytes.len().saturating_sub(VNET_BYTES) + 38);
    }

    #[test]
    fn a_tcp_header_too_short_for_tcp_is_left_alone(sent in sent(), words in 0u8..5) {
        let mut whole = Sent { udp: false, ..sent.clone() }.packet(0, sent.payload.len(), true);
        whole[VNET_BYTES + sent.transport_at() + 12] = words << 4;
        let packet = Packet::new(&whole);
        prop_assert_eq!(packet.burst(38).segments, 1);
        let mut head = [0; HEAD_BYTES];
        let piece = packet.piece(0, 1, &mut head);
        prop_assert_eq!((piece.head, piece.payload), (&whole[..], &[][..]));
    }
}

/// Any bytes behind a virtio header that asks to cut them somewhere near.
fn offloaded() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![Just(1u8), Just(4), Just(5), Just(0x81), any::<u8>()];
    let version = prop_oneof![Just(4u8), Just(6), 0u8..16];
    let bytes = proptest::collection::vec(any::<u8>(), VNET_BYTES + 1..700);
    (kind, version, 1u16..200, 0u16..120, bytes).prop_map(
        |(kind, version, segment_bytes, transport, mut bytes)| {
            bytes[0] |= 1;
            bytes[1] = kind;
            bytes[4..6].copy_from_slice(&segment_bytes.to_le_bytes());
            bytes[6..8].copy_from_slice(&transport.to_le_bytes());
            bytes[VNET_BYTES] = version << 4 | bytes[VNET_BYTES] & 15;
            bytes
        },
    )
}
