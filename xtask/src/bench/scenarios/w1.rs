//! Four bytes on one thread and on more: whether threads stand in each other's way.

use super::EVERYBODY_AND_RING;
use crate::bench::contenders::Codings;
use crate::bench::scenario::{PLAIN, Point, Scenario};
use crate::bench::site::Site;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "w1",
    title: "4 bytes on 1, 2 and 3 threads",
    says: "As many processors as threads, and what is left for the generator. It soon is the limit, so that requests \
           a second cannot show how much more the threads could do; CPU time for a request can: where it stays the \
           same, each thread adds as much as the first.",
    site: |_| Site::of_files("w1", &[("index.html", b"test".to_vec())], Some("identity")),
    codings: Codings::Identity,
    flags: &["--security-headers-disable"],
    asking: PLAIN,
    points: &POINTS,
    contenders: EVERYBODY_AND_RING,
};

const CONNECTIONS: u32 = 400;

const POINTS: [Point; 3] = [
    Point { connections: CONNECTIONS, threads: 1 },
    Point { connections: CONNECTIONS, threads: 2 },
    Point { connections: CONNECTIONS, threads: 3 },
];
