//! Visitors who come once, over TLS 1.3: a handshake for each answer.

use super::{ENGINE_AND_SERVERS, HELLO, THE_THREE};
use crate::bench::contenders::Codings;
use crate::bench::scenario::{Asking, Generator, PLAIN, Point, Scenario, connections};
use crate::bench::site::Site;
use crate::bench::wire;

/// Whole handshakes with the key of today.
pub(crate) const P256: Scenario = Scenario {
    name: "handshakes",
    title: "Whole handshakes, P-256",
    says: "A connection, a handshake, a request for 13 bytes, the answer, the end: all of it counts as one request. The \
           clients are rustls, 32 at a time.",
    site: |_| site("handshakes"),
    codings: Codings::Identity,
    flags: &[],
    asking: Asking { wire: wire::TLS, ..WHOLE },
    points: &POINTS,
    contenders: ENGINE_AND_SERVERS,
};

/// Whole handshakes with the key of most older certificates.
pub(crate) const RSA: Scenario = Scenario {
    name: "handshakes-rsa",
    title: "Whole handshakes, RSA-2048",
    says: "The same; to sign with such a key takes most of the time.",
    site: |_| site("handshakes-rsa"),
    codings: Codings::Identity,
    flags: &[],
    asking: Asking { wire: wire::TLS_RSA, ..WHOLE },
    points: &POINTS,
    contenders: THE_THREE,
};

/// Handshakes of those who have been there before.
pub(crate) const RESUMED: Scenario = Scenario {
    name: "handshakes-resumed",
    title: "Resumed handshakes, P-256",
    says: "The same for visitors with a ticket of their last visit: nothing is signed, and a new secret is agreed on. A \
           handshake that turns out to be a whole one is an error.",
    site: |_| site("handshakes-resumed"),
    codings: Codings::Identity,
    flags: &[],
    asking: Asking { wire: wire::TLS, generator: Generator::Handshakes { resumes: true }, ..WHOLE },
    points: &POINTS,
    contenders: ENGINE_AND_SERVERS,
};

const WHOLE: Asking = Asking {
    fields: &[("Connection", "close")],
    generator: Generator::Handshakes { resumes: false },
    ..PLAIN
};

const POINTS: [Point; 1] = [connections(32)];

fn site(name: &str) -> Result<Site, crate::error::Error> {
    Site::of_files(name, &[("index.html", HELLO.to_vec())], Some("identity"))
}
