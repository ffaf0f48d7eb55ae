//! Quantities as Kubernetes writes and reads them.

use muster_scheduling::model::Resource;
use proptest::prelude::*;

use super::{QuantityError, format, parse, parse_units};

#[test]
fn cpu_is_read_in_millicores() {
    for (text, millicores) in [
        ("940m", 940),
        ("2", 2000),
        ("+2", 2000),
        ("0.5", 500),
        (".5", 500),
        ("5.", 5000),
        ("1.0005", 1001),
        ("1u", 1),
        ("1e3", 1_000_000),
        ("1E-3", 1),
        ("1k", 1_000_000),
        ("0", 0),
        ("-0", 0),
        ("1Ki", 1_024_000),
    ] {
        assert_eq!(parse(&Resource::Cpu, text), Ok(millicores), "{text}");
    }
}

#[test]
fn bytes_are_read_exactly() {
    for (text, bytes) in [
        ("2147483648", 2_147_483_648),
        ("8Gi", 8 << 30),
        ("10M", 10_000_000),
        ("1E", 1_000_000_000_000_000_000),
        ("1E3", 1000),
        ("1.5Gi", 3 << 29),
        ("0.1Ki", 103),
        ("128974848000m", 128_974_848),
        ("1m", 1),
        ("1n", 1),
        ("0.000000000000000000000000000001Ei", 1),
        ("7.9999999999999999999Ei", i64::MAX),
        ("8Ei", i64::MAX),
        ("1e400", i64::MAX),
        ("1e-400", 1),
        ("1e99999999999999999999", i64::MAX),
        ("1e-99999999999999999999", 1),
        ("0.00001e-9223372036854775808", 1),
        ("00000000000000000000000000000000000000001", 1),
        ("1.0000000000000000000000000000000000000000", 1),
        ("1.0000000000000000000000000000000000000001", 2),
        ("0.9999999999999999999999999999999999999999", 1),
        ("1234567890123456789012345678901", i64::MAX),
        ("0.000000000999999999999999999999999999999Ei", 1_152_921_505),
        ("0.00000000000000000000000000000000000000000001Ei", 1),
        ("9223372036854775807", i64::MAX),
        ("9223372036854775808", i64::MAX),
        ("0e99999999999999999999", 0),
        ("1500m", 2),
    ] {
        assert_eq!(parse_units(text), Ok(bytes), "{text}");
    }
}

#[test]
fn anything_else_is_refused() {
    for text in [
        "", ".", "+", "-", "Gi", "1gi", "1 Gi", " 1", "1K", "1e", "1e+", "1e1.5", "1.2.3", "0x10", "--1", "1mm", "½",
        "١", "1GiB",
    ] {
        assert_eq!(parse_units(text), Err(QuantityError::Malformed), "{text}");
    }
    assert_eq!(parse_units("-1"), Err(QuantityError::Negative));
    assert_eq!(parse_units("-0.1Gi"), Err(QuantityError::Negative));
    assert_eq!(parse_units("-1e400"), Err(QuantityError::Negative));
}

proptest! {
    #[test]
    fn what_is_written_reads_back(amount in 0..=i64::MAX, shift in 0_u32..40) {
        let amount = amount >> shift << shift;
        for name in ["cpu", "memory", "ephemeral-storage", "pods", "hugepages-2Mi", "nvidia.com/gpu"] {
            let resource = Resource::new(name);
            prop_assert_eq!(parse(&resource, &format(&resource, amount)), Ok(amount));
        }
    }

    #[test]
    fn nothing_panics(text in "[+-]?[0-9]{0,40}\\.?[0-9]{0,40}([eE][+-]?[0-9]{0,25}|[numkMGTPE]i?)?|.*") {
        let _ = parse(&Resource::Cpu, &text);
        let _ = parse_units(&text);
    }
}
