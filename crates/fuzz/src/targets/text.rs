//! Text: what other hosts say, quantities, the login's addresses, descriptions of links.

pub mod printable {
    //! Anything, as one line for a terminal.

    use howdah_wire::{printable, printable_within};

    pub fn run(data: &[u8]) {
        let line = printable(data);
        assert!(line.chars().all(|one| !one.is_control()), "{line:?}");
        let directions = ['\u{200e}', '\u{200f}', '\u{61c}'];
        let turns = |one: char| {
            ('\u{202a}'..='\u{202e}').contains(&one) || ('\u{2066}'..='\u{2069}').contains(&one)
        };
        assert!(
            !line
                .chars()
                .any(|one| turns(one) || directions.contains(&one))
        );
        assert!(!line.contains(['\u{2028}', '\u{2029}', '\u{feff}', '\u{200b}']));
        assert_eq!(printable(line.as_bytes()), line);
        if data.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            assert_eq!(line.as_bytes(), data);
        }
        let most = 3 + data.len() / 2;
        let cut = printable_within(data, most);
        assert!(cut.len() <= most);
        assert_eq!(line.len() <= most, cut == line);
        assert_eq!(printable_within(cut.as_bytes(), most), cut);
        // SSH_CONNECTION is what sshd says. A device is asked of the kernel; that is no parser.
        if let Ok(text) = std::str::from_utf8(data)
            && !text.contains('%')
            && let Some((local, remote)) = howdah_tcp::ssh_ends(text)
        {
            assert_eq!(local.is_ipv4(), remote.is_ipv4());
            let (client, server) = (remote.ip(), local.ip());
            let again = format!("{client} {} {server} {}", remote.port(), local.port());
            assert_eq!(howdah_tcp::ssh_ends(&again), Some((local, remote)));
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        [
            &b"a b.txt"[..],
            b"a\nb\x1b[31m",
            b"\xff\xc3x",
            "naïve/Ω e\u{301}\u{202e}gpj.exe\u{2066}\u{200b}".as_bytes(),
            "🚀\u{2028}\u{e000}\u{e0041}\u{3164}".as_bytes(),
            b"198.51.100.7 50022 203.0.113.5 22",
            b"::ffff:198.51.100.7 50022 ::1 22",
        ]
        .map(<[u8]>::to_vec)
        .to_vec()
    }
}

pub mod units {
    //! Quantities as people write them.

    use std::fmt::Display;
    use std::str::FromStr;

    use howdah_units::{Bytes, Duration, Fraction, Rate, UnitError};

    pub fn run(data: &[u8]) {
        let Ok(text) = std::str::from_utf8(data) else {
            return;
        };
        if let Some(rate) = read::<Rate>(text) {
            Rate::rounded(rate.0 as f64).expect("it is finite");
        }
        if let Some(duration) = read::<Duration>(text) {
            Duration::rounded(duration.0 as f64 / 1e9).expect("it is finite");
        }
        read::<Bytes>(text);
        if let Some(fraction) = read::<Fraction>(text) {
            assert!((0.0..=1.0).contains(&fraction.get()));
        }
        if let Some(bits) = data.first_chunk() {
            let value = f64::from_bits(u64::from_le_bytes(*bits));
            let good = value.is_finite() && value >= 0.0;
            assert_eq!(Rate::rounded(value).is_ok(), good);
            assert_eq!(Duration::rounded(value).is_ok(), good);
        }
    }

    /// What `text` says. Its own words for it mean the same.
    fn read<T>(text: &str) -> Option<T>
    where
        T: FromStr<Err = UnitError> + Display + PartialEq + std::fmt::Debug,
    {
        match text.parse::<T>() {
            Ok(value) => {
                let words = value.to_string();
                assert_eq!(words.parse::<T>().expect("it reads what it writes"), value);
                // Rounded up, the largest may lie outside.
                let rounded = format!("{value:.3}").parse::<T>();
                assert!(matches!(rounded, Ok(_) | Err(UnitError::OutOfRange { .. })));
                Some(value)
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                None
            }
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        [
            "10Gbit",
            "400 Mb/s",
            "1.5Kbps",
            "4MiB",
            "1500B",
            "18EB",
            "100ms",
            "1.5s",
            "250µs",
            "584 d",
            "0.01%",
            "1e-4",
            "-0",
            "18446744073709551615 b/s",
            "0.00000000000000000001 TB",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
    }
}

pub mod link {
    //! A link as JSON, then segments that go over it.

    use howdah_link::{Burst, Direction, Spec, Verdict};

    use crate::input::Input;

    /// Segments offered.
    const MOST_OFFERS: usize = 200;

    pub fn run(data: &[u8]) {
        let end = data
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(data.len());
        let Ok(spec) = serde_json::from_slice::<Spec>(&data[..end]) else {
            return;
        };
        let json = serde_json::to_vec(&spec).expect("numbers are JSON");
        let again: Spec = serde_json::from_slice(&json).expect("it reads what it writes");
        assert_eq!(again, spec);
        if spec.check().is_err() {
            return;
        }
        let mut input = Input::new(&data[end..]);
        let frame_bytes = spec.mtu + spec.frame_overhead_bytes;
        let [mut one, mut other] = Direction::pair(&spec);
        let (mut now_ns, mut last_ns, mut offered) = (0_u64, [0_u64; 2], 0_u64);
        for _ in 0..MOST_OFFERS {
            if input.is_empty() {
                break;
            }
            let step_ns = match input.byte() {
                255 => u64::from(input.u16()) << 20,
                step => u64::from(step) << (step % 16),
            };
            now_ns += step_ns;
            let wire_bytes = 1 + u32::from(input.u16()) % frame_bytes;
            match one.offer(now_ns, wire_bytes) {
                Verdict::Arrives(at_ns) => {
                    assert!(at_ns >= now_ns && at_ns >= last_ns[0], "nothing overtakes");
                    last_ns[0] = at_ns;
                }
                Verdict::Dropped(_) => {}
            }
            let burst = Burst {
                segments: 1 + u32::from(input.byte()) % 45,
                wire_bytes: frame_bytes,
                last_wire_bytes: wire_bytes,
            };
            offered += u64::from(burst.segments);
            let (mut next, mut arrived) = (0_u32, 0_u64);
            let spread_ns = u64::from(input.byte()) << 10;
            other.offer_burst(now_ns, burst, spread_ns, |run| {
                assert!(run.first >= next && run.first + run.count <= burst.segments);
                assert!(run.arrival_ns >= now_ns && run.arrival_ns >= last_ns[1]);
                last_ns[1] = run.arrival_ns;
                next = run.first + run.count;
                arrived += u64::from(run.count);
            });
            offered -= arrived;
            assert_eq!(
                other.drops().total(),
                offered,
                "a segment arrives or is dropped"
            );
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let link = |direction: &str| {
            format!(
                "{{\"mtu\":1500,\"frame_overhead_bytes\":38,\"seed\":1,\"near_to_far\":{direction},\"far_to_near\":{direction}}}\0\
                 aaaabbbbccccddddeeeeffff\u{1}\u{2}\u{3}\u{4}zzzzzzzzzzzz"
            )
            .into_bytes()
        };
        vec![
            link(r#"{"rate_bps":1000000,"delay_ns":50000,"queue_bytes":null}"#),
            link(r#"{"rate_bps":null,"delay_ns":5,"jitter_ns":9,"loss":0.5,"queue_bytes":9000}"#),
            // It has to be read to its last digit.
            link(
                r#"{"rate_bps":null,"delay_ns":5,"loss":7.777777777777777e87,"queue_bytes":9000}"#,
            ),
            link(
                r#"{"rate_bps":9000000,"delay_ns":5,"queue_bytes":null,"burst":{"enter":0.1,"leave":0.2,"loss_good":0,"loss_bad":1},"changes":[{"at_ns":5,"rate_bps":1000},{"at_ns":900000,"outage":true},{"at_ns":9000000,"outage":false,"drop":3,"loss":0.1,"delay_ns":7}]}"#,
            ),
        ]
    }
}
