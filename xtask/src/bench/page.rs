//! A site of a page and a large file, the same bytes each time: what most benchmarks ask for.

use std::fs;
use std::path::PathBuf;

use super::{commands, docs};
use crate::error::Error;
use crate::project;

/// The page that ordinary requests ask for, in bytes.
const PAGE_BYTES: usize = 4 * 1024;

/// The file that those ask for who do not read it.
const LARGE_BYTES: usize = 16 * 1024 * 1024;

/// The archive, built anew for each run.
pub(crate) fn archive() -> Result<PathBuf, Error> {
    let sources = project::outside().join("page");
    fs::create_dir_all(&sources).map_err(|source| Error::file(&sources, source))?;
    for (name, length) in [("index.html", PAGE_BYTES), ("large.bin", LARGE_BYTES)] {
        let path = sources.join(name);
        fs::write(&path, bytes(length)).map_err(|source| Error::file(&path, source))?;
    }
    let archive = project::outside().join("page.cdb");
    docs::build(&commands::path("cannery-archiver")?, &sources, &archive, Some("identity"))?;
    Ok(archive)
}

/// The page's content.
pub(crate) fn content() -> Vec<u8> {
    bytes(PAGE_BYTES)
}

/// Letters that do not repeat soon, the same each time.
fn bytes(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'a' + (state >> 33).to_le_bytes()[0] % 26
    };
    (0..length).map(|_| letter()).collect()
}
