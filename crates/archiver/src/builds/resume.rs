//! Recovers the state of the last build of an earlier process from its archive.
//!
//! Without this, the next process would assume that a file was deleted if an editor has just moved it away, and it would not
//! have the last version of a file that is currently being written.

use std::sync::Arc;

use cannery_archive::{Archive, Coding, Corrupt, Extent, Origin, Record, RecordKind};
use cannery_base::{FileStamp, FileVersion};
use rayon::prelude::*;

use crate::hosts::site_path::source_path;
use crate::sources::snapshot::{Bodies, KnownFile, Snapshot};
use crate::sources::source_facts::Examination;

/// Archive key of the start page.
const START_PAGE: &[u8] = b"/";

/// Reads the source files back from an archive that was built by a [`Compiler`](crate::Compiler).
///
/// # Errors
///
/// Returns an error if the archive is damaged.
pub(super) fn snapshot(archive: Archive) -> Result<Snapshot, Corrupt> {
    // Files that answer a path can be found by that path. All others (e.g. `_headers`) have their own records.
    let mut found: Vec<(Box<[u8]>, Extent)> = Vec::new();
    for entry in archive.entries() {
        let entry = entry?;
        match entry.kind() {
            RecordKind::Source(path) => found.push((path.into(), archive.decode_source(&entry)?)),
            // A compiler stores every content uncompressed too, which is the version that we want.
            RecordKind::Path(key) => {
                if let Record::Resource(resource) = archive.decode_path(&entry)?
                    && resource.origin == Origin::File
                {
                    let representations = resource.representations().collect::<Result<Vec<_>, _>>()?;
                    let identity = representations.iter().find(|found| found.coding == Coding::Identity);
                    found.extend(identity.map(|identity| (source_path(key).into(), identity.body)));
                }
            }
            _ => {}
        }
    }

    // The archive only has digests of bodies, but we also need other facts, so the contents have to be
    // hashed again.
    let files = found.par_iter().map(|(path, extent)| {
        let content = archive.body(*extent)?;
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let mut examination = Examination::begin(name, true);
        examination.take(content);
        // No real file has this stamp, so the next build will read every file again.
        let version = FileVersion { device: 0, inode: 0, size: content.len() as u64, modified_ns: 0 };
        let stamp = FileStamp { version, changed_ns: 0 };
        Ok((path.clone(), KnownFile { stamp, facts: examination.finish(), is_settled: false, coding: None }))
    });
    let files: Vec<(Box<[u8]>, KnownFile)> = files.collect::<Result<_, Corrupt>>()?;

    let bodies = files.iter().zip(&found).map(|((_, file), (_, extent))| (file.facts.digest, *extent));
    Ok(Snapshot {
        number: 0,
        bodies: Bodies::from_archive(bodies.collect()),
        has_start_page: archive.entry(START_PAGE)?.is_some(),
        source_bytes: files.iter().map(|(_, file)| file.stamp.version.size).sum(),
        files: Arc::new(files.into_iter().collect()),
        archive: Arc::new(archive),
    })
}
