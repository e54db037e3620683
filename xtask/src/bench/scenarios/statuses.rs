//! Answers other than 200: nothing new, a part, nothing at all.

use super::contents::letters;
use super::{RULER_AND_SERVERS, jquery};
use crate::bench::contenders::Codings;
use crate::bench::scenario::{Asking, PLAIN, Point, Scenario, connections};
use crate::bench::site::Site;

/// 304, for one who has the page.
pub(crate) const NOT_MODIFIED: Scenario = Scenario {
    name: "not-modified",
    title: "304: a page that has not changed",
    says: "The client sends back the tag and the date of the answer that it has, as browsers do.",
    site: |_| Site::of_files("not-modified", &[("index.html", letters(4096))], Some("identity")),
    codings: Codings::Identity,
    flags: &[],
    asking: Asking { again: true, status: 304, ..PLAIN },
    points: &POINTS,
    contenders: RULER_AND_SERVERS,
};

/// 206, for one who wants a part.
pub(crate) const PART: Scenario = Scenario {
    name: "range",
    title: "206: 4 KiB out of 89 kB",
    says: "One range in the middle of the file.",
    site: |_| jquery("range", Some("identity")),
    codings: Codings::Identity,
    flags: &[],
    asking: Asking {
        fields: &[("Range", "bytes=40000-44095")],
        status: 206,
        part: Some((40_000, 44_095)),
        ..PLAIN
    },
    points: &POINTS,
    contenders: RULER_AND_SERVERS,
};

/// 404, for one who errs.
pub(crate) const NOT_FOUND: Scenario = Scenario {
    name: "not-found",
    title: "404: a page that is not there",
    says: "Every request is for a path that does not exist, and gets the site's own page of 1,000 bytes that says so.",
    site: |_| {
        let files = [("index.html", letters(100)), ("404.html", letters(1000))];
        Ok(Site::of_files("not-found", &files, Some("identity"))?.asked_for(&["/not/there"]))
    },
    codings: Codings::Identity,
    flags: &[],
    asking: Asking { status: 404, ..PLAIN },
    points: &POINTS,
    contenders: RULER_AND_SERVERS,
};

const POINTS: [Point; 1] = [connections(64)];
