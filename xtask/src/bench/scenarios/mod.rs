//! The scenarios, in the order in which the page shows them. Each is one small file of data.

mod contents;
mod h2;
mod handshakes;
mod k1;
mod k2;
mod latency;
mod pipelined;
mod sites;
mod statuses;
mod tls;
mod w1;
mod w2;
mod w3;
mod w4;
mod w5;

use std::fs;

pub(crate) use k2::site as tiles;

use super::contenders::{APACHE, CADDY, Contender, H2O, LIGHTTPD, NGINX};
use super::scenario::Scenario;
use super::site::Site;
use crate::error::Error;

/// All of them.
pub(crate) const ALL: [&Scenario; 30] = [
    &k1::SCENARIO,
    &k2::SCENARIO,
    &w1::SCENARIO,
    &w1::APART,
    &w1::ACROSS,
    &w2::SCENARIO,
    &w3::SCENARIO,
    &w4::COMPRESSING,
    &w4::PRECOMPRESSED,
    &sites::ASSETS,
    &sites::DOCUMENTATION,
    &pipelined::SCENARIO,
    &statuses::NOT_MODIFIED,
    &statuses::PART,
    &statuses::NOT_FOUND,
    &latency::SCENARIO,
    &h2::SMALL,
    &h2::SINGLE,
    &h2::LARGE,
    &h2::DOCUMENTATION,
    &tls::SMALL,
    &tls::LARGE,
    &handshakes::P256,
    &handshakes::RSA,
    &handshakes::RESUMED,
    &w5::KEPT,
    &w5::NEW,
    &w5::WEATHER,
    &w5::WEATHER_RSA,
    &w5::WEATHER_CLEAR,
];

/// Contenders of ours, and all servers of somebody else.
macro_rules! with_peers {
    ($($ours:ident),+) => {
        &[
            $(Contender::$ours,)+
            Contender::Peer(&NGINX),
            Contender::Peer(&LIGHTTPD),
            Contender::Peer(&H2O),
            Contender::Peer(&APACHE),
            Contender::Peer(&CADDY),
        ]
    };
}

/// The ruler, our server, and all the others: for answers that our engine alone does not know.
const RULER_AND_SERVERS: &[Contender] = with_peers![Floor, Cannery];

/// The same with our engine alone, which only knows one answer.
const EVERYBODY: &[Contender] = with_peers![Floor, Dummy, Cannery];

/// The same with our server over a ring, where the engine is what counts.
const EVERYBODY_AND_RING: &[Contender] = with_peers![Floor, Dummy, Cannery, Ring];

/// The ruler, our server on both loops, and the peer that all compare themselves with.
const FLOOR_RING_AND_NGINX: &[Contender] =
    &[Contender::Floor, Contender::Cannery, Contender::Ring, Contender::Peer(&NGINX)];

/// Our server and the others, without rulers.
pub(crate) const SERVERS: &[Contender] = with_peers![Cannery];

/// Our engine alone, our server and the others: the engine speaks TLS and HTTP/2 too. The floor does not.
pub(crate) const ENGINE_AND_SERVERS: &[Contender] = with_peers![Dummy, Cannery];

/// Our server and the others, and ours once more as h2o is: the kernel hands it no connection on which nothing was asked.
const SERVERS_AND_DEFERRED: &[Contender] = with_peers![Cannery, Deferred];

/// Our server and those that are closest to it, where others would only take time.
const THE_THREE: &[Contender] = &[Contender::Cannery, Contender::Peer(&NGINX), Contender::Peer(&H2O)];

/// The content that `--dummy` has, as a file.
pub(crate) const HELLO: &[u8] = b"hello world!\n";

/// Where Debian's `libjs-jquery` has the release of the published figures.
const JQUERY: &str = "/usr/share/javascript/jquery/jquery.min.js";

/// A site of one script.
fn jquery(name: &str, compress: Option<&str>) -> Result<Site, Error> {
    let script = fs::read(JQUERY).map_err(|source| Error::file(JQUERY, source))?;
    Site::of_files(name, &[("jquery.js", script)], compress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_names_every_scenario() {
        let others = super::super::measurements::ALL.iter().map(|measurement| measurement.name);
        for name in ALL.iter().map(|scenario| scenario.name).chain(others) {
            assert!(crate::USAGE.contains(name), "{name}");
        }
    }

    #[test]
    fn every_scenario_has_a_name_of_its_own() {
        let mut names: Vec<_> = ALL.iter().map(|scenario| scenario.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
