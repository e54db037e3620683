//! Tests for the grammar that all HTTP versions share.

use super::*;

#[test]
fn hosts_follow_rfc_3986() {
    for host in [
        "",
        "h",
        "h:80",
        "h:",
        ":80",
        "127.0.0.1:8080",
        "a_b!$&'()*+,;=~.-",
        "%61b%C3%A4:80",
        "[::1]",
        "[::ffff:192.0.2.1]:80",
        "[2001:DB8::1]:",
        "[v1.fe80::a+en1]",
        "[VF.x]",
    ] {
        assert!(is_host(host.as_bytes()), "{host}");
    }

    for host in [
        "a%zz",
        "a%",
        "%4",
        "a%4g",
        "%41%",
        "[::zz]",
        "[::1",
        "::1",
        "[]",
        "[::1]x",
        "[::1]:x",
        "[fe80::1%25eth0]",
        "[1:2:3:4:5:6:7:8:9]",
        "[1.2.3.4]",
        "[::1]:80:80",
        "[v.x]",
        "[v1.]",
        "[vg.x]",
        "[v1]",
        "a b",
        "a/b",
        "a@b",
        "a:b",
        "a#b",
        "a?b",
        "a\\b",
        "a[b",
        "b\u{e4}",
    ] {
        assert!(!is_host(host.as_bytes()), "{host}");
    }
}
