//! 89 kB as they are: what sending costs.

use super::{EVERYBODY_AND_RING, jquery};
use crate::bench::contenders::Codings;
use crate::bench::scenario::{PLAIN, Point, Scenario, connections};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "w3",
    title: "jQuery, 89 kB, not compressed",
    says: "The kernel copies ninety thousand bytes for each request, so that little is left in which servers can \
           differ. The others may use sendfile.",
    site: |_| jquery("w3", Some("identity")),
    codings: Codings::Identity,
    flags: &[],
    asking: PLAIN,
    points: &POINTS,
    contenders: EVERYBODY_AND_RING,
};

const POINTS: [Point; 3] = [connections(64), connections(250), connections(1000)];
