//! Tests for PROXY protocol headers, version 1.

use super::*;

fn source_of(line: &str) -> Option<Source> {
    match crate::proxy::parse(line.as_bytes()) {
        Parsed::Header(source, length) => {
            assert_eq!(length, line.len());
            Some(source)
        }
        Parsed::More => panic!("{line:?} is whole"),
        Parsed::Malformed => None,
    }
}

#[test]
fn line_names_the_client() {
    for (line, client) in [
        ("PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n", "192.168.0.1:56324"),
        ("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535"),
        ("PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n", "0.0.0.0:0"),
        ("PROXY TCP6 2001:db8::1 ::1 1 2\r\n", "[2001:db8::1]:1"),
        ("PROXY TCP6 ::ffff:10.0.0.1 ::1 1 2\r\n", "[::ffff:10.0.0.1]:1"),
    ] {
        assert_eq!(source_of(line), Some(Source::Internet(client.parse().unwrap())), "{line:?}");
    }
}

#[test]
fn unknown_source_is_the_connection() {
    let longest = format!(
        "PROXY UNKNOWN {address} {address} 65535 65535\r\n",
        address = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
    );
    assert_eq!(longest.len(), PROXY_LINE_BYTES_MAX);
    for line in ["PROXY UNKNOWN\r\n", "PROXY UNKNOWN \r\n", "PROXY UNKNOWN any thing\r\n", &longest] {
        assert_eq!(source_of(line), Some(Source::Connection), "{line:?}");
    }
}

#[test]
fn invalid_lines_are_refused() {
    for line in [
        "PROXY UNKNOWNS\r\n",
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY tcp4 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1\n2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
        "PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 -1 2\r\n",
        "PROXY TCP4 01.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.256 1.2.3.4 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP6 ::1 1::2::3 1 2\r\n",
        "PROXY TCP6 [::1] [::1] 1 2\r\n",
        "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
    ] {
        assert_eq!(source_of(line), None, "{line:?}");
    }
}
