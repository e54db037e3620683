//! A page of 102 bytes, asked for by ab.

use super::EVERYBODY;
use crate::bench::contenders::Codings;
use crate::bench::scenario::{Asking, Generator, PLAIN, Point, Scenario, connections};
use crate::bench::site::Site;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "w2",
    title: "A page of 102 bytes, by ab",
    says: "ab speaks HTTP/1.0, which keeps connections only where it is asked to, and is one thread: it is the limit \
           for all but the slowest, so that requests a second lie close together. CPU time tells them apart.",
    site: |_| Site::of_files("w2", &[("index.html", PAGE.to_vec())], Some("identity")),
    codings: Codings::Identity,
    flags: &[],
    asking: Asking { generator: Generator::Ab { keeps: true }, ..PLAIN },
    points: &POINTS,
    contenders: EVERYBODY,
};

const POINTS: [Point; 3] = [connections(50), connections(250), connections(1000)];

/// The page.
pub(super) const PAGE: &[u8; 102] = b"<!doctype html>\n<title>Hello</title>\n<h1>Hello</h1>\n\
    <p>This page is 102 bytes long, with its end.</p>\n";
