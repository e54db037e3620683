//! Pinned inputs of the counts: requests and archives.
//!
//! A change here changes counts without a change of the product, so the same commit has a new table. Therefore we encode the
//! few HTTP/2 frames here, and not with the testkit, which changes with the tests.

#![forbid(unsafe_code)]

mod http3;

pub use http3::Http3Client;

use std::path::PathBuf;

/// The number of records of the large archive.
pub const RECORDS: usize = 250_000;

/// A path near the middle of the large archive.
pub const HELD: &[u8] = b"/14/8511/5466.png";

/// A similar path that the large archive doesn't have.
pub const NOT_HELD: &[u8] = b"/14/8511/5466.jpg";

/// A request of curl.
pub const CURL: &[u8] = b"GET /hello.txt HTTP/1.1\r\n\
    Host: localhost:8080\r\n\
    User-Agent: curl/7.88.1\r\n\
    Accept: */*\r\n\r\n";

/// A request of Chromium after a click on a link: fifteen headers.
pub const CHROMIUM: &[u8] = b"GET /docs/guide HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    Connection: keep-alive\r\n\
    sec-ch-ua: \"Chromium\";v=\"142\", \"Not_A Brand\";v=\"99\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    sec-ch-ua-platform: \"Linux\"\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-User: ?1\r\n\
    Sec-Fetch-Dest: document\r\n\
    Referer: https://www.example.com/docs/\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n\r\n";

/// A request of a load generator.
pub const PLAIN: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// The header fields of a load generator over HTTP/2.
pub const PLAIN_FIELDS: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/hello.txt"), (":authority", "127.0.0.1:8080")];

/// The header fields of Chromium over HTTP/2.
#[must_use]
pub fn chromium_fields() -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(CHROMIUM).into_owned();
    let mut lines = text.trim_end().split("\r\n");
    let target = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let first = [(":method", "GET"), (":scheme", "http"), (":path", target)];
    let fields = lines.filter_map(|line| line.split_once(": "));
    let fields = fields.filter(|(name, _)| *name != "Connection").map(|(name, value)| match name {
        "Host" => (":authority".into(), value.into()),
        _ => (name.to_ascii_lowercase(), value.into()),
    });
    first.map(|(name, value)| (name.into(), value.into())).into_iter().chain(fields).collect()
}

/// Returns the same request on many streams of an HTTP/2 connection, for each of three loop iterations. The first one begins
/// the connection (RFC 9113 §3.4), and its first request inserts all fields into the server's table; all other requests
/// consist of indices, as for clients that send similar requests.
#[must_use]
pub fn over_http2(fields: &[(impl AsRef<str>, impl AsRef<str>)], streams: u32) -> Vec<Vec<u8>> {
    const DYNAMIC_TABLE_FROM: usize = 62;
    let cold: Vec<u8> =
        fields.iter().flat_map(|(name, value)| added(name.as_ref(), value.as_ref())).collect();
    let warm: Vec<u8> = (0..fields.len())
        .map(|place| u8::try_from(DYNAMIC_TABLE_FROM + fields.len() - 1 - place).expect("few fields") | 0x80)
        .collect();
    let begin = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &frame(SETTINGS, 0, 0, b"")].concat();
    let before = [begin, frame(SETTINGS, ACK, 0, b""), Vec::new()];
    let mut streams_from = 0;
    let requests_of_iteration = |mut requests: Vec<u8>| {
        for number in streams_from..streams_from + streams {
            let block = if number == 0 { &cold } else { &warm };
            requests.extend(frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, block));
        }
        streams_from += streams;
        requests
    };
    before.into_iter().map(requests_of_iteration).collect()
}

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Returns a frame (RFC 9113 §4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns a literal field with incremental indexing (RFC 7541 §6.2.1) and a new name.
fn added(name: &str, value: &str) -> Vec<u8> {
    let string = |text: &str| {
        assert!(text.len() < 127, "its length takes one byte");
        [&[text.len() as u8], text.as_bytes()].concat()
    };
    [vec![0x40], string(name), string(value)].concat()
}

/// Returns a request sixteen times, for pipelining.
#[must_use]
pub fn pipelined() -> Vec<u8> {
    PLAIN.repeat(16)
}

/// Returns a request with one more header.
#[must_use]
pub fn with_field(target: &str, field: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n{field}\r\n\r\n").into_bytes()
}

/// Returns the source folder of the small archive.
#[must_use]
pub fn sources() -> PathBuf {
    here("site")
}

/// Returns the path of the small archive, which the archiver builds from [`sources`].
#[must_use]
pub fn site() -> PathBuf {
    here("target/archives/site.cdb")
}

/// Returns the path of the large archive, which has [`RECORDS`] paths.
#[must_use]
pub fn large() -> PathBuf {
    here("target/archives/large.cdb")
}

fn here(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}
