//! Very many very small files, asked for at random.

use super::EVERYBODY;
use crate::bench::contenders::Codings;
use crate::bench::scenario::{Extent, PLAIN, Point, Scenario, connections};
use crate::bench::site::Site;
use crate::bench::tiles;
use crate::error::Error;
use crate::tiles::{COUNT, Pyramid, SEED};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "k2",
    title: "250,000 map tiles, at random",
    says: "Half of the tiles have 103 bytes, the mean is 1.3 KiB. nginx keeps descriptors and sizes of as many files \
           open as it may have descriptors, half of those that the machine allows a process. wrk's first thread begins \
           before its clock does, while the second still reads the paths: requests a second are too high by what \
           *busy* is above 100 %. CPU time for a request is not concerned.",
    site,
    codings: Codings::Identity,
    flags: &[],
    asking: PLAIN,
    points: &POINTS,
    contenders: EVERYBODY,
};

const POINTS: [Point; 3] = [connections(64), connections(512), connections(4096)];

/// Enough to see that it works.
const QUICK_COUNT: u64 = 10_000;

/// All tiles, or fewer.
pub(crate) fn site(extent: Extent) -> Result<Site, Error> {
    let count = if extent == Extent::Quick { QUICK_COUNT } else { COUNT };
    let pyramid = Pyramid::new(count, SEED);
    let sources = tiles::sources(&pyramid)?;
    let sources = sources.canonicalize().map_err(|source| Error::file(&sources, source))?;
    let targets = (0..count).map(|tile| format!("/{}", pyramid.path(tile))).collect();
    Site::of_folder(&format!("k2-{count}"), sources, targets, Some("identity"))
}
