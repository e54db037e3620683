//! HTTP/1.1 over TLS on connections that are kept: what the cipher adds.

use super::{ENGINE_AND_SERVERS, HELLO, SERVERS, jquery};
use crate::bench::contenders::Codings;
use crate::bench::scenario::{Asking, PLAIN, Point, Scenario, connections};
use crate::bench::site::Site;
use crate::bench::wire;

/// The smallest useful answer.
pub(crate) const SMALL: Scenario = Scenario {
    name: "tls",
    title: "TLS, HTTP/1.1, 13 bytes",
    says: "The same as in the clear, with a record around each request and each answer.",
    site: |_| Site::of_files("tls", &[("index.html", HELLO.to_vec())], Some("identity")),
    codings: Codings::Identity,
    flags: &[],
    asking: TLS,
    points: &POINTS,
    contenders: ENGINE_AND_SERVERS,
};

/// Where the cipher counts.
pub(crate) const LARGE: Scenario = Scenario {
    name: "tls-large",
    title: "TLS, HTTP/1.1, jQuery, 89 kB, not compressed",
    says: "Every byte is enciphered and copied by the server itself; nobody can leave that to the kernel here.",
    site: |_| jquery("tls-large", Some("identity")),
    codings: Codings::Identity,
    flags: &[],
    asking: TLS,
    points: &POINTS,
    contenders: SERVERS,
};

const TLS: Asking = Asking { wire: wire::TLS, ..PLAIN };

const POINTS: [Point; 1] = [connections(64)];
