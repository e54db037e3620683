//! Header fields and their grammar: RFC 9110, sections 5 to 7.

use super::{site, status, statuses};
use crate::harness::Response;

#[test]
fn field_names_are_case_insensitive() {
    let server = site();
    assert_eq!(statuses(&server, b"GET /a.txt HTTP/1.1\r\nhOST: h\r\nCONNECTION: close\r\n\r\n"), [200]);
    let coded = server.request("GET", "/page.html", "aCCEPT-eNCODING: gzip\r\n");
    assert_eq!(coded.field("Content-Encoding"), Some("gzip"));
    assert_eq!(status(&server, "IF-NONE-MATCH: *\r\n"), 304);
    assert_eq!(status(&server, "rANGE: bytes=0-0\r\n"), 206);
}

#[test]
fn whitespace_around_values_is_ignored() {
    let server = site();
    for value in ["bytes=0-0", "  bytes=0-0", "\tbytes=0-0 \t "] {
        assert_eq!(status(&server, &format!("Range:{value}\r\n")), 206, "{value:?}");
    }
    for value in ["gzip", " gzip\t", "  gzip ; q=1", "gzip;q=1 ,br;q=0"] {
        let response = server.request("GET", "/page.html", &format!("Accept-Encoding:{value}\r\n"));
        assert_eq!(response.field("Content-Encoding"), Some("gzip"), "{value:?}");
    }
}

#[test]
fn empty_list_elements_are_ignored() {
    let server = site();
    let tag = server.get("/a.txt").field("ETag").unwrap().to_owned();
    assert_eq!(status(&server, &format!("If-None-Match: , ,{tag},,\r\n")), 304);
    assert_eq!(status(&server, &format!("If-Match: ,,{tag} ,\r\n")), 200);
    assert_eq!(status(&server, "Range: bytes=,0-0, ,\r\n"), 206);
    let response = server.request("GET", "/page.html", "Accept-Encoding: ,, gzip ,\r\n");
    assert_eq!(response.field("Content-Encoding"), Some("gzip"));
}

#[test]
fn repeated_fields_form_one_list() {
    let server = site();
    let response =
        server.request("GET", "/page.html", "Accept-Encoding: br;q=0\r\nAccept-Encoding: gzip\r\n");
    assert_eq!(response.field("Content-Encoding"), Some("gzip"));
    let bytes =
        b"GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: x\r\nConnection: close\r\n\r\nGET / HTTP/1.0\r\n\r\n";
    assert_eq!(statuses(&server, bytes), [200]);
}

#[test]
fn irrelevant_fields_are_ignored() {
    let server = site();
    let without_date = |mut response: Response| {
        response.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("Date"));
        response
    };

    let plain = without_date(server.get("/a.txt"));
    for lines in [
        "X-Unknown: value\r\n",
        "Upgrade: h2c, websocket\r\nConnection: upgrade, http2-settings\r\nHTTP2-Settings: AAMAAABkAAQ\r\n",
        "TE: trailers, gzip;q=0.5\r\nConnection: TE\r\n",
        "Content-Range: bytes 0-3/7\r\n",
        "Content-Location: /docs/\r\nContent-Type: text/html\r\n",
        "From: someone@example.com\r\nReferer: http://example.com/\r\n",
        "Authorization: Basic dXNlcjp3b3Jk\r\nCookie: a=b\r\n",
        "Accept: image/*;q=0.1, */*;q=0\r\nAccept-Language: xx\r\nAccept-Charset: iso-8859-5\r\n",
        "Max-Forwards: 0\r\nVia: 1.0 other\r\nDate: yesterday\r\n",
        "If-Range: \"x\"\r\n",
        "Keep-Alive: timeout=0\r\n",
        "Prefer: return=minimal\r\n",
    ] {
        assert_eq!(without_date(server.request("GET", "/a.txt", lines)), plain, "{lines}");
    }
}

#[test]
fn upgrade_in_http_1_0_is_ignored() {
    let bytes = b"GET /a.txt HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n";
    assert_eq!(statuses(&site(), bytes), [200]);
}

#[test]
fn values_may_contain_obs_text() {
    let bytes = b"GET /a.txt HTTP/1.1\r\nHost: h\r\nUser-Agent: \xe4\xff\x80\r\nConnection: close\r\n\r\n";
    assert_eq!(statuses(&site(), bytes), [200]);
}

#[test]
fn too_many_or_too_large_fields_get_431() {
    let server = site();
    for lines in [
        "A: b\r\n".repeat(200),
        format!("A: {}\r\n", "b".repeat(20_000)),
        format!("{}: b\r\n", "A".repeat(20_000)),
    ] {
        let bytes = format!("GET /a.txt HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        assert_eq!(statuses(&server, bytes.as_bytes()), [431], "{lines:.40}");
    }
}

#[test]
fn too_many_lines_of_a_list_get_431() {
    let server = site();
    for line in ["Accept-Encoding: gzip\r\n", "If-None-Match: \"x\"\r\n"] {
        assert_eq!(status(&server, &line.repeat(50)), 431, "{line}");
    }
}

#[test]
fn response_fields_are_unique_and_well_formed() {
    let server = site();
    let requests = [
        ("GET", "/page.html", "Accept-Encoding: br\r\n"),
        ("GET", "/page.html", "If-None-Match: *\r\n"),
        ("GET", "/page.html", "Range: bytes=0-9\r\n"),
        ("GET", "/page.html", "Range: bytes=0-9,50-59\r\n"),
        ("GET", "/page.html", "Range: bytes=1000000-\r\n"),
        ("GET", "/page.html", "If-Match: \"x\"\r\n"),
        ("GET", "/old", ""),
        ("GET", "/docs", ""),
        ("GET", "/gone/x", ""),
        ("GET", "/nothing", ""),
        ("GET", "/%zz", ""),
        ("OPTIONS", "*", ""),
        ("POST", "/", ""),
        ("BREW", "/", ""),
        ("GET", "/a.txt", "Expect: miracles\r\n"),
    ];

    for (method, target, lines) in requests {
        let response = server.request(method, target, lines);
        for (name, value) in &response.fields {
            // Panics if the field is repeated.
            assert_eq!(response.field(name), Some(value.as_str()), "{method} {target}");
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            assert!(name.bytes().all(is_token), "{name:?}");
            assert!(value.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{name}: {value:?}");
            assert_eq!(value.trim(), value, "{name}");
            assert!(
                !value.contains(", ,") && !value.starts_with(',') && !value.ends_with(','),
                "{name}: {value:?}"
            );
        }

        for name in ["Transfer-Encoding", "Trailer", "Upgrade", "Server", "Age"] {
            assert_eq!(response.field(name), None, "{method} {target}");
        }
        let date = response.field("Date").unwrap_or_else(|| panic!("{method} {target} has no date"));
        assert!(is_imf_fixdate(date), "{date}");
    }
}

/// Returns `true` for a date in the preferred form, such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section 5.6.7).
fn is_imf_fixdate(date: &str) -> bool {
    let pattern = "Aaa, 00 Aaa 0000 00:00:00 GMT";
    date.len() == pattern.len()
        && date.chars().zip(pattern.chars()).all(|(letter, expected)| match expected {
            'A' => letter.is_ascii_uppercase(),
            'a' => letter.is_ascii_lowercase(),
            '0' => letter.is_ascii_digit(),
            other => letter == other,
        })
}
