//! What the kernel answers about connections: `struct tcp_info` and netlink messages.

pub mod tcp_info {
    //! Two looks at a connection, and what held its sender back between them.

    use std::time::Duration;

    use howdah_tcp::Info;

    use crate::input::Input;

    pub fn run(data: &[u8]) {
        let mut input = Input::new(data);
        let (elapsed, length) = (input.u64(), usize::from(input.u16()) % 513);
        let (earlier, later) = (input.bytes(length), input.rest());
        let (Some(earlier), Some(later)) = (Info::parse(earlier), Info::parse(later)) else {
            assert!(earlier.len() < 192 || later.len() < 192);
            return;
        };
        let elapsed = Duration::from_nanos(elapsed);
        for (one, other) in [(&earlier, &later), (&later, &earlier)] {
            assert_eq!(one.limited_by(other, elapsed).is_none(), elapsed.is_zero());
        }
        assert!(
            later
                .ssthresh_segments
                .is_none_or(|segments| segments < i32::MAX.cast_unsigned())
        );
        assert!(later.rtt != Some(Duration::ZERO) && later.min_rtt != Some(Duration::ZERO));
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let info = |byte: u8, length: usize| vec![byte; length];
        let head =
            |length: u16| [&1_000_000_000_u64.to_le_bytes()[..], &length.to_le_bytes()].concat();
        vec![
            [head(192), info(1, 192), info(2, 192)].concat(),
            [head(232), info(0, 232), info(255, 248)].concat(),
        ]
    }
}

pub mod sock_diag {
    //! Answers of sock_diag(7).

    use std::collections::BTreeMap;

    use howdah_tcp::{parse_answer, tally};

    pub fn run(data: &[u8]) {
        let info = parse_answer(data);
        assert!(info.is_none() || data.len() >= 16 + 72 + 4 + 192);
        let mut counts = BTreeMap::new();
        let first = tally(data, &mut counts);
        // A message with a name takes its header, its socket and the header of an attribute.
        assert!(counts.values().sum::<usize>() * (16 + 72 + 4) <= data.len());
        assert!(counts.keys().all(|name| !name.contains('\0')));
        let mut again = counts.clone();
        assert_eq!(tally(data, &mut again), first);
        assert!(again.iter().all(|(name, count)| *count == 2 * counts[name]));
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let message = |kind: u16, attribute: u16, value: &[u8]| {
            let mut bytes = vec![0; 16 + 72];
            bytes.extend((4 + value.len() as u16).to_ne_bytes());
            bytes.extend(attribute.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            let length = bytes.len() as u32;
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes
        };
        vec![
            message(20, 2, &[7; 232]),
            [
                message(20, 4, b"cubic\0"),
                message(20, 4, b"bbr\0"),
                message(3, 0, &[]),
            ]
            .concat(),
            message(2, 0, &[]),
        ]
    }
}
