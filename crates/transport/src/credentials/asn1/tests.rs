//! Unit tests of ASN.1 times.

use der::SliceReader;

use super::*;

fn parse_time(der: &[u8]) -> Option<i64> {
    let mut reader = SliceReader::new(der).unwrap();
    let seconds = read_time(&mut reader).ok()?;
    reader.is_finished().then_some(seconds)
}

#[test]
fn times_are_parsed_in_both_forms() {
    for (der, expected) in [
        (&b"\x17\x0d700101000000Z"[..], 0),
        (b"\x17\x0d991231235959Z", 946_684_799),
        (b"\x17\x0d000301000000Z", 951_868_800),
        (b"\x18\x0f20240229120000Z", 1_709_208_000),
        (b"\x18\x0f20500101000000Z", 2_524_608_000),
        (b"\x18\x0f99991231235959Z", 253_402_300_799),
    ] {
        assert_eq!(parse_time(der), Some(expected), "{}", der.escape_ascii());
    }
}

#[test]
fn malformed_times_are_refused() {
    for der in [
        &b"\x17\x0d701301000000Z"[..],
        b"\x17\x0d700101000000+",
        b"\x17\x0d7001010000",
        b"\x17\x0d70010100000-Z",
        b"\x17\x05+1+1Z",
        b"\x18\x03202",
        b"",
    ] {
        assert_eq!(parse_time(der), None, "{}", der.escape_ascii());
    }
}
