//! Looks into the archive that will be replaced by a build, as open pages may still request files that only
//! exist there.

use cannery_archive::{Archive, Corrupt, Loading};
use cannery_site::is_immutable;

use crate::ground::diagnostic::Diagnostic;
use crate::releases::bundles::InferableNames;
use crate::releases::resources::{GoneFile, gone_files};
use crate::routes::Routes;
use crate::settings::options::Options;

/// Looks for immutable files that only exist in the replaced archive and returns a note about them, unless earlier
/// releases were passed to the build.
///
/// The archive at the destination must not affect the result: the same folder and flags should give the same bytes
/// everywhere.
pub(crate) fn note(options: &Options, routes: &Routes) -> Option<Diagnostic> {
    if !options.previous.is_empty() {
        return None;
    }
    let archive = Archive::open(&options.archive, Loading::Mapped).ok()?;
    // If it's damaged, we replace it all the same.
    let (count, example) = lost(&archive, options, routes).ok()?;
    let example = String::from_utf8_lossy(&example?).into_owned();
    let files = if count == 1 { "1 immutable file".to_owned() } else { format!("{count} immutable files") };
    let path = options.archive.display();
    let message = format!(
        "{files} of the archive that this build replaces, such as `{example}`, will be gone, although pages that are open now \
         may still load them; `--previous {path}` keeps them for three releases"
    );
    Some(Diagnostic::note(b".", "files-lost", message))
}

/// Counts those files and returns the path of the first.
fn lost(archive: &Archive, options: &Options, routes: &Routes) -> Result<(u64, Option<Vec<u8>>), Corrupt> {
    let mut count = 0;
    let mut example = None;
    for found in gone_files(archive, routes) {
        let GoneFile { resource, path, .. } = found?;
        if is_immutable(archive, &resource)? && InferableNames::new(options).may_infer(&path) {
            count += 1;
            example.get_or_insert(path);
        }
    }
    Ok((count, example))
}
