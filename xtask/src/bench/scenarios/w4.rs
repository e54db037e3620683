//! The same file to those who accept gzip: compressed for every request, or before.

use super::{EVERYBODY, jquery};
use crate::bench::contenders::Codings;
use crate::bench::scenario::{Asking, PLAIN, Point, Scenario, connections};

/// As a server does that knows only the files.
pub(crate) const COMPRESSING: Scenario = Scenario {
    name: "w4-compressing",
    title: "jQuery, gzip, compressed by the others for every request",
    says: "The others compress at their fastest level for every request, as they do out of the box or with a line of \
           configuration. Cannery sends what the archiver compressed once.",
    site: |_| jquery("w4-compressing", Some("identity,gzip")),
    codings: Codings::Compressing,
    flags: &[],
    asking: GZIP,
    points: &POINTS,
    contenders: EVERYBODY,
};

/// As it is done by those who care.
pub(crate) const PRECOMPRESSED: Scenario = Scenario {
    name: "w4-precompressed",
    title: "jQuery, gzip, compressed beforehand everywhere",
    says: "Beside the file lies one that gzip -9 has made, for the servers that look for it; lighttpd keeps what it \
           has compressed itself.",
    site: |_| jquery("w4-precompressed", Some("identity,gzip"))?.with_siblings("w4-precompressed"),
    codings: Codings::Precompressed,
    flags: &[],
    asking: GZIP,
    points: &POINTS,
    contenders: EVERYBODY,
};

const GZIP: Asking = Asking { fields: &[("Accept-Encoding", "gzip")], ..PLAIN };

const POINTS: [Point; 1] = [connections(64)];
