//! Published workloads of ab over TLS: a page on connections that are kept and on new ones, and a short document with a
//! handshake, or a connection in the clear, for each request.

use super::w2::PAGE;
use super::{SERVERS_AND_DEFERRED, THE_THREE};
use crate::bench::contenders::Codings;
use crate::bench::scenario::{Asking, Generator, PLAIN, Point, Scenario, connections};
use crate::bench::site::Site;
use crate::bench::wire::{self, Wire};

/// W2 over TLS.
pub(crate) const KEPT: Scenario = Scenario {
    name: "w5",
    title: "A page of 102 bytes over TLS, by ab",
    says: "The same page as in the clear. ab is one thread and deciphers every answer, so that it is the limit; CPU time \
           tells servers apart.",
    site: |_| Site::of_files("w5", &[("index.html", PAGE.to_vec())], Some("identity")),
    codings: Codings::Identity,
    flags: &[],
    asking: by_ab(wire::TLS, true),
    points: &POINTS,
    contenders: THE_THREE,
};

/// W2 over TLS, each request on a connection of its own.
pub(crate) const NEW: Scenario = Scenario {
    name: "w5-new",
    title: "A page of 102 bytes over TLS on new connections, by ab",
    says: "A whole handshake for each request, in a number that ab can still make.",
    site: |_| Site::of_files("w5-new", &[("index.html", PAGE.to_vec())], Some("identity")),
    codings: Codings::Identity,
    flags: &[],
    asking: by_ab(wire::TLS, false),
    points: &POINTS,
    contenders: THE_THREE,
};

/// The handshakes of W6.
pub(crate) const WEATHER: Scenario = Scenario {
    name: "w6",
    title: "A forecast over TLS on new connections, P-256, by ab",
    says: "The transport of a published workload: 1,000 clients, a handshake for each request. The published servers \
           computed the document, here it is a file, so that only what TLS costs can be compared.",
    site: |_| weather("w6"),
    codings: Codings::Identity,
    flags: &[],
    asking: by_ab(wire::TLS, false),
    points: &THOUSAND,
    contenders: THE_THREE,
};

/// The same with the other key.
pub(crate) const WEATHER_RSA: Scenario = Scenario {
    name: "w6-rsa",
    title: "A forecast over TLS on new connections, RSA-2048, by ab",
    says: "The same with a key that takes longer to sign with.",
    site: |_| weather("w6-rsa"),
    codings: Codings::Identity,
    flags: &[],
    asking: by_ab(wire::TLS_RSA, false),
    points: &THOUSAND,
    contenders: THE_THREE,
};

/// The connections of W7.
pub(crate) const WEATHER_CLEAR: Scenario = Scenario {
    name: "w7",
    title: "A forecast in the clear on new connections, by ab",
    says: "The same without TLS, which tells what of it is the connection. With `--defer-accept` our server is handed a \
           connection when something was asked on it, as h2o is without being told.",
    site: |_| weather("w7"),
    codings: Codings::Identity,
    flags: &[],
    asking: by_ab(wire::CLEAR, false),
    points: &THOUSAND,
    contenders: SERVERS_AND_DEFERRED,
};

/// The published steps go on to 1,000, where a short run of ab consists of handshakes; W6 has those.
const POINTS: [Point; 2] = [connections(50), connections(250)];

const THOUSAND: [Point; 1] = [connections(1000)];

const fn by_ab(wire: Wire, keeps: bool) -> Asking {
    Asking { generator: Generator::Ab { keeps }, wire, ..PLAIN }
}

/// One answer of the published service.
fn weather(name: &str) -> Result<Site, crate::error::Error> {
    Site::of_files(name, &[("index.html", FORECAST.to_vec())], Some("identity"))
}

const FORECAST: &[u8] = br#"[{"date":"2026-11-22T10:00:00.0000000+00:00","temperatureC":16,"summary":"Mild","temperatureF":60.79769618430525},{"date":"2026-11-23T10:00:00.0000000+00:00","temperatureC":11,"summary":"Cool","temperatureF":51.79841612670987},{"date":"2026-11-24T10:00:00.0000000+00:00","temperatureC":-14,"summary":"Freezing","temperatureF":6.802015838732899},{"date":"2026-11-25T10:00:00.0000000+00:00","temperatureC":39,"summary":"Scorching","temperatureF":102.19438444924407},{"date":"2026-11-26T10:00:00.0000000+00:00","temperatureC":2,"summary":"Chilly","temperatureF":35.59971202303816}]"#;
