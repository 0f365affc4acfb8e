//! Datagrams and packets: of background traffic, of probes, of an emulated host.

pub mod traffic {
    //! Datagrams of a source, and what a sink says is missing.

    use howdah_traffic::{Account, Arrival, Blast, Gathering, Header, Missing, Shape};

    use crate::input::Input;

    pub fn run(data: &[u8]) {
        let mut input = Input::new(data);
        let mut token = [0; 16];
        let shown = input.bytes(16);
        token[..shown.len()].copy_from_slice(shown);
        let (object_bytes, piece_bytes) = (1 + u64::from(input.u16()), 1 + input.below(64));
        let Ok(shape) = Shape::new(object_bytes, piece_bytes) else {
            panic!("an object of {object_bytes} bytes is refused");
        };
        let count = input.below(64);
        again(shape, input.bytes(count));
        let mut account = Account::default();
        let mut gathering = Gathering::new(shape);
        let mut here = std::collections::BTreeSet::new();
        let mut come = std::collections::BTreeSet::new();
        while !input.is_empty() {
            let length = input.below(96);
            let datagram = input.bytes(length);
            let Some((header, piece)) = Header::take(&token, datagram) else {
                assert!(datagram.len() < Header::BYTES || datagram[..16] != token);
                continue;
            };
            let mut again = datagram.to_vec();
            again[..Header::BYTES].fill(0);
            header.put(&token, &mut again);
            assert_eq!(again, datagram);
            let fits = shape.length(header.number) == Some(piece.len());
            assert_eq!(
                gathering.take(header.number, piece),
                fits && here.insert(header.number)
            );
            let new = come.insert(header.number);
            let arrival = account.take(header.number);
            assert!(arrival == Arrival::TooLate || new != (arrival == Arrival::Doubled));
        }
        let missing = gathering.missing();
        assert_eq!(missing.pieces() + here.len() as u64, shape.pieces());
        assert_eq!(gathering.whole(), missing.0.is_empty());
        Blast::new(shape)
            .again(missing)
            .expect("what is missing fits");
    }

    fn again(shape: Shape, json: &[u8]) {
        let Ok(missing) = serde_json::from_slice::<Missing>(json) else {
            return;
        };
        let mut blast = Blast::new(shape);
        if blast.again(missing.clone()).is_ok() {
            assert_eq!(blast.left(), missing.pieces());
            let mut count = 0;
            let mut last = None;
            for piece in blast {
                assert!(piece.number < shape.pieces() && last < Some(piece.number));
                assert_eq!(shape.length(piece.number), Some(piece.length));
                last = Some(piece.number);
                count += 1;
            }
            assert_eq!(count, missing.pieces());
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let token = [7; 16];
        let datagram = |blast: u32, number: u64, piece: usize| {
            let mut bytes = vec![1; Header::BYTES + piece];
            Header { blast, number }.put(&token, &mut bytes);
            [vec![bytes.len() as u8], bytes].concat()
        };
        let json = b"[[0,2],[3,1]]";
        let head = [&token[..], &[200, 0, 63, json.len() as u8], json].concat();
        vec![
            [
                head.clone(),
                datagram(0, 5, 36),
                datagram(0, 4, 36),
                datagram(0, 5, 36),
            ]
            .concat(),
            [
                head.clone(),
                datagram(1, 0, 64),
                datagram(1, 3, 9),
                datagram(1, 1, 64),
                datagram(1, 2, 64),
            ]
            .concat(),
            [head, datagram(u32::MAX, u64::MAX, 0)].concat(),
        ]
    }
}

pub mod probes {
    //! Probes, answers and ICMP messages, as sockets hand them over.

    use howdah_probe::Token;
    use howdah_probe::packet::{
        Echo, Icmp, icmp_probe, read_icmp, read_udp_answer, read_udp_probe, udp_answer, udp_probe,
        without_ipv4_header,
    };

    pub fn run(data: &[u8]) {
        let token = Token(
            *data
                .get(4..)
                .and_then(|rest| rest.first_chunk())
                .unwrap_or(&[9; 16]),
        );
        if let Some(number) = read_udp_probe(data, token) {
            assert_eq!(udp_probe(token, number)[..28], data[..28]);
            assert_eq!(read_udp_answer(data, token), None);
        }
        if let Some((number, held_ns)) = read_udp_answer(data, token) {
            assert_eq!(udp_answer(token, number, held_ns)[..36], data[..36]);
        }
        assert_eq!(
            read_udp_probe(data, Token([0xa5; 16])).is_some(),
            data.len() == 64 && data[..4] == *b"HDp1" && data[4..20] == [0xa5; 16]
        );
        let inner = without_ipv4_header(data);
        assert!(inner.len() <= data.len());
        for (bytes, version) in [(inner, Icmp::V4), (data, Icmp::V6)] {
            let token = Token(
                *bytes
                    .get(12..)
                    .and_then(|rest| rest.first_chunk())
                    .unwrap_or(&[9; 16]),
            );
            for raw in [false, true] {
                if let Echo::Answer(number) = read_icmp(bytes, version, token, raw) {
                    let probe = icmp_probe(version, token, number);
                    assert_eq!(probe[8..36], bytes[8..36]);
                    assert!(!raw || bytes[4..6] == token.0[..2]);
                }
            }
        }
        if let Ok(text) = std::str::from_utf8(data)
            && let Some(token) = Token::from_hex(text)
        {
            assert_eq!(token.to_hex(), text.to_ascii_lowercase());
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let token = Token([7; 16]);
        let echo = |version, reply| {
            let mut bytes = icmp_probe(version, token, 3).to_vec();
            bytes[0] = reply;
            bytes
        };
        vec![
            udp_probe(token, 1).to_vec(),
            udp_answer(token, 1, 2).to_vec(),
            [vec![0x45; 20], echo(Icmp::V4, 0)].concat(),
            echo(Icmp::V6, 129),
            token.to_hex().into_bytes(),
        ]
    }
}

pub mod offload {
    //! Packets as a TUN device hands them over, cut into segments.

    use howdah_emulator::{HEAD_BYTES, Packet, VNET_BYTES};

    /// The last byte says how many segments a piece takes.
    pub fn run(data: &[u8]) {
        let Some((each, bytes)) = data.split_last() else {
            return;
        };
        let packet = Packet::new(bytes);
        let burst = packet.burst(38);
        assert!(burst.segments >= 1 && burst.last_wire_bytes <= burst.wire_bytes);
        let each = 1 + u32::from(*each);
        let mut head = [0; HEAD_BYTES];
        let (mut first, mut payload, mut wire_bytes) = (0, Vec::new(), 0);
        let mut head_bytes = 0;
        while first < burst.segments {
            let count = each.min(burst.segments - first);
            let piece = packet.piece(first, count, &mut head);
            payload.extend_from_slice(piece.payload);
            head_bytes = piece.head.len();
            let whole = [piece.head, piece.payload].concat();
            let again = Packet::new(&whole).burst(38);
            wire_bytes += again.wire_bytes_of(0, again.segments);
            assert_eq!(
                again.segments, count,
                "a piece holds the segments asked for"
            );
            first += count;
        }
        let all = bytes.len().saturating_sub(payload.len());
        assert_eq!(head_bytes, all);
        assert!(
            payload == bytes[all..],
            "the payload of the pieces is that of the packet"
        );
        assert_eq!(wire_bytes, burst.wire_bytes_of(0, burst.segments));
        assert!(all == bytes.len() || bytes.len() > VNET_BYTES);
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let vnet = |kind, segment: u16, transport: u16| {
            let (segment, transport) = (segment.to_le_bytes(), transport.to_le_bytes());
            vec![
                1,
                kind,
                0,
                0,
                segment[0],
                segment[1],
                transport[0],
                transport[1],
                16,
                0,
            ]
        };
        let ip = |first: u8, length: usize| {
            let mut header = vec![0; length];
            header[0] = first;
            header
        };
        let mut tcp = vec![0; 20];
        (tcp[12], tcp[13]) = (0x50, 0x19);
        let payload: Vec<u8> = (0..100).collect();
        vec![
            [
                vnet(1, 30, 20),
                ip(0x45, 20),
                tcp.clone(),
                payload.clone(),
                vec![0],
            ]
            .concat(),
            [
                vnet(0x84, 30, 40),
                ip(0x60, 40),
                tcp,
                payload.clone(),
                vec![1],
            ]
            .concat(),
            [
                vnet(5, 33, 20),
                ip(0x45, 20),
                vec![0; 8],
                payload.clone(),
                vec![0],
            ]
            .concat(),
            [vnet(0, 0, 0), ip(0x45, 20), payload, vec![0]].concat(),
        ]
    }
}
