//! What people write is read exactly, what is printed is read back, and refusals say what to write.

use howdah_units::{Bytes, Duration, Fraction, Rate};
use proptest::prelude::*;

#[test]
fn rates_as_people_write_them() {
    for (text, rate_bps) in [
        ("10Gbit", 10_000_000_000),
        ("10 Gb/s", 10_000_000_000),
        ("10Gbps", 10_000_000_000),
        ("10gbit/s", 10_000_000_000),
        ("1.25GB/s", 10_000_000_000),
        ("400Mb/s", 400_000_000),
        ("0.5kbit", 500),
        ("7b", 7),
        (" 1Tbit ", 1_000_000_000_000),
    ] {
        assert_eq!(text.parse(), Ok(Rate(rate_bps)), "{text}");
    }
}

#[test]
fn sizes_and_durations_as_people_write_them() {
    for (text, size) in [
        ("125MB", 125_000_000),
        ("4MiB", 4 << 20),
        ("1500B", 1500),
        ("1.5 GiB", 3 << 29),
    ] {
        assert_eq!(text.parse(), Ok(Bytes(size)), "{text}");
    }
    for (text, ns) in [
        ("100ms", 100_000_000),
        ("1.5s", 1_500_000_000),
        ("250us", 250_000),
        ("250µs", 250_000),
        ("2min", 120_000_000_000),
        ("90d", 7_776_000_000_000_000),
        ("1w", 604_800_000_000_000),
        ("11.8 ms", 11_800_000),
    ] {
        assert_eq!(text.parse(), Ok(Duration(ns)), "{text}");
    }
    for (text, value) in [
        ("0.01%", 1e-4),
        ("1e-4", 1e-4),
        ("0", 0.0),
        ("100 %", 1.0),
        (".5", 0.5),
    ] {
        assert_eq!(
            text.parse::<Fraction>().map(Fraction::get),
            Ok(value),
            "{text}"
        );
    }
}

#[test]
fn refusals_say_what_to_write() {
    let rate = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
    assert_eq!(
        rate("10"),
        "rate \"10\" has no unit; write for example 10Gbit or 400Mb/s"
    );
    assert_eq!(
        rate("10G"),
        "rate \"10G\" has the unknown unit \"G\"; write for example 10Gbit or 400Mb/s"
    );
    assert!(rate("fast").contains("is not a number with a unit"));
    assert!(rate("-1Gbit").contains("is not a number with a unit"));
    assert!(rate("1.2.3Gbit").contains("is not a number with a unit"));
    assert!(rate("99999999999Tbit").contains("is outside"));
    assert!(
        rate("1\nGbit\n!").find('\n').is_none(),
        "a message is one line"
    );
    assert!(
        "4M".parse::<Bytes>()
            .unwrap_err()
            .to_string()
            .contains("unknown unit \"M\"")
    );
    assert!("4Mb".parse::<Bytes>().is_err(), "bits are not a size");
    assert!(
        "5m".parse::<Duration>()
            .unwrap_err()
            .to_string()
            .contains("unknown unit \"m\"")
    );
    assert!(
        "101%"
            .parse::<Fraction>()
            .unwrap_err()
            .to_string()
            .contains("0 to 1")
    );
    assert!("nan".parse::<Fraction>().is_err());
    assert!(
        "-0.1"
            .parse::<Fraction>()
            .unwrap_err()
            .to_string()
            .contains("0 to 1")
    );
}

#[test]
fn printed_for_people() {
    assert_eq!(Rate(10_000_000_000).to_string(), "10 Gb/s");
    assert_eq!(Rate(9_412_345_678).to_string(), "9.412345678 Gb/s");
    assert_eq!(format!("{:.3}", Rate(9_412_345_678)), "9.41 Gb/s");
    assert_eq!(format!("{:.3}", Rate(999_999_999)), "1.00 Gb/s");
    assert_eq!(format!("{:.3}", Rate(0)), "0 b/s");
    assert_eq!(Rate::rounded(0.25).unwrap(), "0.25 b/s");
    assert_eq!(Bytes(4 << 30).to_string(), "4 GiB");
    assert_eq!(Bytes(125_000_000).to_string(), "125 MB");
    assert_eq!(format!("{:.3}", Bytes(4 << 30)), "4.29 GB");
    assert_eq!(format!("{:.3}", Bytes(1500)), "1.50 kB");
    assert_eq!(format!("{:.3}", Bytes(999)), "999 B");
    assert_eq!(Duration(11_800_000).to_string(), "11.8 ms");
    assert_eq!(Duration(0).to_string(), "0 s");
    assert_eq!(Duration::rounded(0.0118).unwrap(), "11.8 ms");
    assert_eq!(Duration::rounded(83.4).unwrap(), "1 min 23 s");
    assert_eq!(Duration::rounded(59.97).unwrap(), "1 min 00 s");
    assert_eq!(Duration::rounded(3725.0).unwrap(), "1 h 02 min");
    assert!(Duration::rounded(-1.0).is_err() && Rate::rounded(f64::NAN).is_err());
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(value: u64, fraction in 0.0..=1.0f64) {
        prop_assert_eq!(Rate(value).to_string().parse(), Ok(Rate(value)));
        prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
        prop_assert_eq!(Duration(value).to_string().parse(), Ok(Duration(value)));
        prop_assert_eq!(fraction.to_string().parse::<Fraction>().map(Fraction::get), Ok(fraction));
    }

    #[test]
    fn rounding_errs_by_half_a_digit(value in 1u64..1 << 53) {
        let shown: Rate = format!("{:.3}", Rate(value)).parse().unwrap();
        prop_assert!(shown.0.abs_diff(value) as f64 <= 0.005001 * value as f64 + 0.5);
    }

    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = (text.parse::<Rate>(), text.parse::<Bytes>());
        let _ = (text.parse::<Duration>(), text.parse::<Fraction>());
    }
}
