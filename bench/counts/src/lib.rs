//! The pinned inputs: what is asked, and of which archives.
//!
//! A change here changes counts without any change of the product, so it goes with a new table in the same commit.

#![forbid(unsafe_code)]

use std::path::PathBuf;

/// Records of the large archive.
pub const RECORDS: usize = 250_000;

/// A path of the large archive, about its middle.
pub const HELD: &[u8] = b"/14/8511/5466.png";

/// A path like it that the large archive does not hold.
pub const NOT_HELD: &[u8] = b"/14/8511/5466.jpg";

/// What curl asks.
pub const CURL: &[u8] = b"GET /hello.txt HTTP/1.1\r\n\
    Host: localhost:8080\r\n\
    User-Agent: curl/7.88.1\r\n\
    Accept: */*\r\n\r\n";

/// What Chromium asks when a link is followed: fifteen fields.
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

/// What load generators ask.
pub const PLAIN: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// The same sixteen times, in one piece.
#[must_use]
pub fn pipelined() -> Vec<u8> {
    PLAIN.repeat(16)
}

/// A request with one more field.
#[must_use]
pub fn with_field(target: &str, field: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n{field}\r\n\r\n").into_bytes()
}

/// The folder that the small archive is made of.
#[must_use]
pub fn sources() -> PathBuf {
    here("site")
}

/// Where the small archive is, as the archiver makes it of [`sources`].
#[must_use]
pub fn site() -> PathBuf {
    here("target/archives/site.cdb")
}

/// Where the large archive is, with [`RECORDS`] paths.
#[must_use]
pub fn large() -> PathBuf {
    here("target/archives/large.cdb")
}

fn here(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}
