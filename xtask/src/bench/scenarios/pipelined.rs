//! Sixteen requests at once on each connection.

use super::{EVERYBODY_AND_RING, HELLO};
use crate::bench::contenders::Codings;
use crate::bench::scenario::{Asking, Generator, PLAIN, Point, Scenario, connections};
use crate::bench::site::Site;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "pipelined",
    title: "Pipelined, 16 deep, 13 bytes",
    says: "Whoever gathers the answers sends sixteen with one call. Browsers do not pipeline, but proxies and tools \
           do. How long requests wait is not shown, since wrk cannot tell for requests that are sent together.",
    site: |_| Site::of_files("pipelined", &[("index.html", HELLO.to_vec())], Some("identity")),
    codings: Codings::Identity,
    flags: &["--security-headers-disable"],
    asking: Asking { generator: Generator::Pipelined(16), ..PLAIN },
    points: &POINTS,
    contenders: EVERYBODY_AND_RING,
};

const POINTS: [Point; 1] = [connections(64)];
