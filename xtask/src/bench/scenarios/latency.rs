//! How long requests wait when a server has half as much to do as it could.

use super::{EVERYBODY, HELLO};
use crate::bench::contenders::Codings;
use crate::bench::scenario::{Asking, Generator, PLAIN, Point, Scenario, connections};
use crate::bench::site::Site;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "latency",
    title: "Waiting at half the load",
    says: "Requests come at an even rate, the same for everybody: half of what nginx can answer at most, measured in \
           the same run. A wait counts from the moment when the request was due. Whoever cannot answer so many has waits that \
           grow with the run.",
    site: |_| Site::of_files("latency", &[("index.html", HELLO.to_vec())], Some("identity")),
    codings: Codings::Identity,
    flags: &[],
    asking: Asking { generator: Generator::Paced, ..PLAIN },
    points: &POINTS,
    contenders: EVERYBODY,
};

const POINTS: [Point; 1] = [connections(64)];
