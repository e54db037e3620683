//! The smallest useful answer, on few and on very many connections.

use super::{EVERYBODY_AND_RING, HELLO};
use crate::bench::contenders::Codings;
use crate::bench::scenario::{PLAIN, Point, Scenario, connections};
use crate::bench::site::Site;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "k1",
    title: "13 bytes, 16 to 16,384 connections",
    says: "The smallest useful answer shows what a server does beside sending, and the number of connections what \
           each of them costs. Our archive is in memory, without security headers and time limits, as in the \
           published run of this workload.",
    site: |_| Site::of_files("k1", &[("index.html", HELLO.to_vec())], Some("identity")),
    codings: Codings::Identity,
    flags: &["--archive-inmem", "--security-headers-disable", "--timeout-disable"],
    asking: PLAIN,
    points: &POINTS,
    contenders: EVERYBODY_AND_RING,
};

const POINTS: [Point; 7] = [
    connections(16),
    connections(64),
    connections(128),
    connections(512),
    connections(2048),
    connections(4096),
    connections(16384),
];
