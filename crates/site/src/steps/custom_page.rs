//! Finds a site's error page for a status. Each directory can have its own.
//!
//! If the client does not accept a page's coding, we ignore the page.

use cannery_archive::{Archive, Corrupt, Extent, Record, Resource, ScopeEntry};

use super::negotiate;
use crate::answer::Page;
use crate::request::Values;
use crate::sites::{Place, Sites};

/// Finds the nearest page for a status, along with its body in a coding the client accepts.
///
/// Returns `None` if there is not such a page.
pub(crate) fn find<'a>(
    archive: &'a Archive,
    place: Place<'a>,
    status: u16,
    accept_encoding: &Values<'_>,
) -> Result<Option<(Page<'a>, Extent)>, Corrupt> {
    let Some((covered, page)) = nearest(archive, place, status)? else { return Ok(None) };
    let Some(chosen) = negotiate::choose(page.representations(), accept_encoding)? else { return Ok(None) };
    archive.body(chosen.body)?;
    Ok(Some((Page { head: archive.head(chosen.head)?, covered }, chosen.body)))
}

/// Finds the nearest page for a status. Also returns the length of its directory's key.
fn nearest<'a>(
    archive: &'a Archive,
    place: Place<'a>,
    wanted: u16,
) -> Result<Option<(usize, Resource<'a>)>, Corrupt> {
    for site in Sites::new(archive, place.host) {
        let mut nearest = None;
        for scope in archive.scopes(site?, place.key) {
            let (covered, scope) = scope?;
            for entry in scope.pages() {
                if let ScopeEntry::ErrorPage { status, record: Record::Resource(page) } = entry?
                    && status == wanted
                {
                    nearest = Some((covered, page));
                }
            }
        }

        if nearest.is_some() {
            return Ok(nearest);
        }
    }
    Ok(None)
}
