//! Whole sites as browsers ask for them: many files, several codings.

use super::EVERYBODY;
use super::contents;
use crate::bench::contenders::Codings;
use crate::bench::scenario::{Asking, Extent, Generator, PLAIN, Point, Scenario, connections};
use crate::bench::site::{self, Site};
use crate::error::Error;
use crate::outside;

/// The assets of one page.
pub(crate) const ASSETS: Scenario = Scenario {
    name: "w9",
    title: "20 files of a site, 842 kB, in turn",
    says: "Style sheets, scripts, pages, pictures and fonts, for a client whose Accept-Encoding has weights. Those \
           who compare it with a literal `br` send gzip or nothing.",
    site: assets,
    codings: Codings::Precompressed,
    flags: &[],
    asking: Asking {
        fields: &[("Accept-Encoding", "br;q=1, gzip;q=0.8")],
        generator: Generator::Rotating,
        ..PLAIN
    },
    points: &ASSET_POINTS,
    contenders: EVERYBODY,
};

/// A documentation site of a thousand pages.
pub(crate) const DOCUMENTATION: Scenario = Scenario {
    name: "mixed",
    title: "Python's documentation, every file, as a browser asks",
    says: "A thousand files of all sizes at random. What each server sends differs with the codings that it knows, \
           and so does the number of bytes; the head tells.",
    site: documentation,
    codings: Codings::Precompressed,
    flags: &[],
    asking: Asking { fields: &[("Accept-Encoding", "gzip, deflate, br, zstd")], ..PLAIN },
    points: &POINTS,
    contenders: EVERYBODY,
};

const ASSET_POINTS: [Point; 2] = [connections(1024), connections(4096)];

const POINTS: [Point; 1] = [connections(64)];

fn assets(_: Extent) -> Result<Site, Error> {
    let files = contents::assets();
    let named: Vec<_> = files.iter().map(|(name, content)| (name.as_str(), content.clone())).collect();
    Site::of_files("w9", &named, None)?.with_siblings("w9")
}

/// Python's documentation, every file of it that every server has.
pub(super) fn documentation(_: Extent) -> Result<Site, Error> {
    /// As nobody's browser asks for, and as some servers would not serve as it is.
    const LEFT_OUT: [&str; 2] = ["/.", "/_"];
    let folder = std::path::Path::new(outside::PYTHON_DOCS);
    let sources = folder.canonicalize().map_err(|source| Error::file(folder, source))?;
    let files = site::files_below(&sources)?;
    let targets = files.iter().filter_map(|file| {
        let target = format!("/{}", file.strip_prefix(&sources).ok()?.to_str()?);
        let is_plain = target.is_ascii() && !LEFT_OUT.iter().any(|part| target.contains(part));
        is_plain.then_some(target)
    });
    Site::of_folder("mixed", sources.clone(), targets.collect(), None)?.with_siblings("mixed")
}
