//! HTTP/2 over TLS: small answers by many streams and by one, large ones, and a site's pages.

use super::sites::documentation;
use super::{ENGINE_AND_SERVERS, HELLO, SERVERS, jquery};
use crate::bench::contenders::Codings;
use crate::bench::scenario::{Asking, Generator, PLAIN, Point, Scenario, connections};
use crate::bench::site::Site;
use crate::bench::wire;

/// The smallest useful answer, to clients that want many things at a time.
pub(crate) const SMALL: Scenario = Scenario {
    name: "h2",
    title: "HTTP/2, 13 bytes, 32 streams on each connection",
    says: "Many answers leave with one record and one call, so that this is what a server itself does for each: reading \
           a head, finding the file, spelling a head.",
    site: |_| Site::of_files("h2", &[("index.html", HELLO.to_vec())], Some("identity")),
    codings: Codings::Identity,
    flags: &[],
    asking: Asking { generator: Generator::Streams(32), ..HTTP2 },
    points: &SIXTEEN,
    contenders: ENGINE_AND_SERVERS,
};

/// The same to clients that want one thing after the other.
pub(crate) const SINGLE: Scenario = Scenario {
    name: "h2-single",
    title: "HTTP/2, 13 bytes, one stream on each connection",
    says: "Every answer has a record and a call to itself, as over HTTP/1.",
    site: |_| Site::of_files("h2-single", &[("index.html", HELLO.to_vec())], Some("identity")),
    codings: Codings::Identity,
    flags: &[],
    asking: Asking { generator: Generator::Streams(1), ..HTTP2 },
    points: &[connections(64)],
    contenders: ENGINE_AND_SERVERS,
};

/// Answers that share a window.
pub(crate) const LARGE: Scenario = Scenario {
    name: "h2-large",
    title: "HTTP/2, jQuery, 89 kB, 8 streams on each connection",
    says: "Eight answers share a connection, and are cut into frames and records; the cipher takes its part of every \
           byte.",
    site: |_| jquery("h2-large", Some("identity")),
    codings: Codings::Identity,
    flags: &[],
    asking: Asking { generator: Generator::Streams(8), ..HTTP2 },
    points: &SIXTEEN,
    contenders: SERVERS,
};

/// What most visitors of a documentation do.
pub(crate) const DOCUMENTATION: Scenario = Scenario {
    name: "h2-docs",
    title: "HTTP/2, Python's documentation in brotli, as Chromium asks",
    says: "Every file in turn, with all the fields that Chromium sends. Whoever takes files that were compressed before \
           has the smallest that brotli makes.",
    site: documentation,
    codings: Codings::Precompressed,
    flags: &[],
    asking: Asking { fields: &CHROMIUM, generator: Generator::Streams(8), ..HTTP2 },
    points: &SIXTEEN,
    contenders: SERVERS,
};

const HTTP2: Asking = Asking { wire: wire::HTTP2, ..PLAIN };

const SIXTEEN: [Point; 1] = [connections(16)];

/// What Chromium says of itself with a click on a link, but that it knows no zstd: all have brotli then.
const CHROMIUM: [(&str, &str); 12] = [
    ("sec-ch-ua", "\"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\""),
    ("sec-ch-ua-mobile", "?0"),
    ("sec-ch-ua-platform", "\"Linux\""),
    ("upgrade-insecure-requests", "1"),
    (
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
    ),
    (
        "accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
    ),
    ("sec-fetch-site", "same-origin"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-user", "?1"),
    ("sec-fetch-dest", "document"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-language", "en-GB,en;q=0.9"),
];
