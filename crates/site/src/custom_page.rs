//! The pages that a site has for errors, one status each: the one nearest to the path that was asked for.
//!
//! Never decides that an answer is an error. A page that the client cannot decode counts as none.

use cannery_archive::{Archive, Corrupt, Extent, Record, Resource, ScopeEntry};

use crate::answer::Page;
use crate::negotiate;
use crate::request::Values;
use crate::sites::{Place, Sites};

/// The page for a status nearest to a place, and where its bytes lie in a coding that the client accepts.
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

/// The page for a status nearest to a place, and how much of the path its folder covers.
fn nearest<'a>(
    archive: &'a Archive,
    place: Place<'a>,
    wanted: u16,
) -> Result<Option<(usize, Resource<'a>)>, Corrupt> {
    for site in Sites::of(archive, place.host) {
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
