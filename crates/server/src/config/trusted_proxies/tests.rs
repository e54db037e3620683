//! Unit tests of client addresses from proxies.

use super::*;

fn proxies(sources: &[&str], field: ForwardedField) -> TrustedProxies {
    let sources = sources.iter().map(|source| source.parse().unwrap()).collect();
    TrustedProxies { sources, field }
}

fn client(proxies: &TrustedProxies, peer: Option<&str>, lines: &str) -> String {
    let peer = peer.map(|peer| SocketAddr::new(peer.parse().unwrap(), 9));
    let client = proxies.client(peer, lines.as_bytes());
    client.map_or("-".to_owned(), |client| client.ip().to_string())
}

#[test]
fn client_is_the_rightmost_untrusted_address() {
    let proxies = proxies(&["10.0.0.0/8", "2001:db8::/32"], ForwardedField::XForwardedFor);
    for (list, expected) in [
        ("203.0.113.1", "203.0.113.1"),
        ("198.51.100.1, 203.0.113.1", "203.0.113.1"),
        ("198.51.100.1, 203.0.113.1, 10.1.1.1,10.2.2.2", "203.0.113.1"),
        ("198.51.100.1, 10.3.3.3, 203.0.113.1, 10.1.1.1", "203.0.113.1"),
        ("10.5.5.5, 10.1.1.1", "10.5.5.5"),
        ("203.0.113.1:4711", "203.0.113.1"),
        ("[2001:db9::1]:80, 2001:db8::2", "2001:db9::1"),
        ("2001:db9::1", "2001:db9::1"),
        ("::ffff:203.0.113.1", "203.0.113.1"),
        ("203.0.113.1, unknown, 10.1.1.1", "10.1.1.1"),
        ("203.0.113.1, unknown", "10.0.0.1"),
        ("", "10.0.0.1"),
        ("evil\", 1", "10.0.0.1"),
    ] {
        let lines = format!("Host: h\r\nX-FORWARDED-FOR: {list}\r\nForwarded: for=192.0.2.9\r\n\r\n");
        assert_eq!(client(&proxies, Some("10.0.0.1"), &lines), expected, "{list}");
    }
    let two = "X-Forwarded-For: 198.51.100.1\r\nA: b\r\nX-Forwarded-For: 203.0.113.1\r\nx-forwarded-for: 10.1.1.1\r\n";
    assert_eq!(client(&proxies, Some("10.0.0.1"), two), "203.0.113.1");
    assert_eq!(client(&proxies, Some("::ffff:10.0.0.1"), two), "203.0.113.1");
    assert_eq!(client(&proxies, Some("11.0.0.1"), two), "11.0.0.1");
    assert_eq!(client(&proxies, None, two), "-");
}

#[test]
fn forwarded_follows_rfc_7239() {
    let proxies = proxies(&["unix"], ForwardedField::Forwarded);
    for (list, expected) in [
        ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
        ("For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
        ("for=192.0.2.43, for=198.51.100.17", "198.51.100.17"),
        ("for=192.0.2.43;host=\"a,b;for=1.2.3.4\\\"\"", "192.0.2.43"),
        ("proto=https ; for = \"192.0.2.43:80\"", "192.0.2.43"),
        ("for=_hidden", "-"),
        ("for=unknown", "-"),
        ("by=1.2.3.4", "-"),
        ("for=\"192.0.2.43", "-"),
        ("for=192.0.2.43, for=unknown;by=\"a\" , for = \"198.51.100.17\" ", "198.51.100.17"),
        // A quote of the client hides what the proxy has appended.
        ("for=6.6.6.6;x=\", for=192.0.2.43", "-"),
        ("for=6.6.6.6;x=\"\\, for=192.0.2.43", "-"),
        ("for=6.6.6.6;x=\", for=\"[2001:db9::1]:80\"", "-"),
        ("for=6.6.6.6;x=\", for=192.0.2.43;host=\"a\\\"b\"", "-"),
        ("for=6.6.6.6;x=\", for=192.0.2.43;host=\",x=\\\"b\"", "-"),
        ("for=6.6.6.6;\", for=192.0.2.43", "-"),
        // A line of its own is complete again.
        ("for=6.6.6.6;x=\"\r\nForwarded: for=192.0.2.43", "192.0.2.43"),
        ("for=192.0.2.43\r\nForwarded: for=6.6.6.6;x=\"", "-"),
    ] {
        let lines = format!("X-Forwarded-For: 1.1.1.1\r\nForwarded: {list}\r\n");
        assert_eq!(client(&proxies, None, &lines), expected, "{list}");
    }
}

#[test]
fn networks_are_compared_by_prefix() {
    let contains = |source: &str, address: &str| {
        source.parse::<ProxySource>().unwrap().contains(address.parse().unwrap())
    };
    assert!(contains("10.1.2.3", "10.1.2.3") && !contains("10.1.2.3", "10.1.2.4"));
    assert!(contains("10.1.2.3/23", "10.1.3.255") && !contains("10.1.2.0/24", "10.1.3.0"));
    assert!(contains("0.0.0.0/0", "255.1.2.3") && !contains("0.0.0.0/0", "::1"));
    assert!(contains("::/0", "2001::1") && contains("::1", "::1") && !contains("fd00::/8", "fe00::1"));
    assert!(contains("::ffff:10.0.0.0/104", "10.9.9.9"));
    for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/+8", "localhost", "/8"] {
        assert!(text.parse::<ProxySource>().is_err(), "{text}");
    }
}

#[test]
fn malformed_fields_do_not_panic() {
    let proxies = proxies(&["unix"], ForwardedField::Forwarded);
    for list in
        ["=", ";", ",", "for", "for=", "\"", "\\", "for=\"", "for=\"\"", "for=[", "for=[]:1", "\u{e9}=\u{e9}"]
    {
        assert_eq!(client(&proxies, None, &format!("forwarded:{list}")), "-", "{list}");
    }
    assert_eq!(client(&proxies, None, "forwarded"), "-");
}
