//! Adds folder listings to the routes. Note that they should only contain files that are served.

use std::sync::Arc;

use cannery_archive::Origin;

use crate::properties::special;
use crate::routes::listing::{Entry, EntryKind, Listings};
use crate::routes::{Route, Routes, Target};
use crate::settings::options::{LastModified, Options};
use crate::sources::source::{Generated, GeneratedPage, Sources};

/// Adds a listing to each folder (always as JSON, and as a page unless an index page answers) and returns the number of pages
/// added.
///
/// For folders that still have the same entries, pages are taken from `listings`.
pub(crate) fn add(
    routes: &mut Routes,
    sources: &mut Sources,
    options: &Options,
    listings: &mut Listings,
) -> u64 {
    let is_dated = options.preview || options.last_modified == LastModified::Files;
    let listed = |folder: &[u8]| folder != b"_hosts" && !folder.starts_with(b"_hosts/");
    let folders: Vec<Box<[u8]>> = sources.folders.iter().filter(|folder| listed(folder)).cloned().collect();

    let mut made = 0;
    for folder in folders {
        let listing = listings.of(&folder, entries(sources, &folder, is_dated));
        let key = if folder.is_empty() { b"/".to_vec() } else { [b"/", &*folder, b"/"].concat() };
        let has_fallback = answers_without_file(routes, &key);

        let mut add = |key: Vec<u8>, name: &[u8], page: &dyn Fn() -> Arc<GeneratedPage>| {
            let id = sources.next_id();
            let place = (None, key.into_boxed_slice());
            if routes.paths.contains_key(&place) {
                return;
            }
            let route = Route { target: Target::Source { id, status: 200 }, origin: Origin::Generated };
            routes.paths.insert(place, route);
            let path = [&*folder, b"/", name].concat().into();
            sources.generated.push(Generated { path, page: page() });
            made += 1;
        };

        add([key.as_slice(), b"_listing.json"].concat(), b"_listing.json", &|| listing.json());
        // Single-page applications may have routes with the same names as folders. Therefore, a fallback page takes precedence in
        // previews, like it does in production.
        if !options.preview || !has_fallback {
            add(key, b"_listing.html", &|| listing.html());
        }
    }
    made
}

/// Returns `true` if a fallback page or a rule with a pattern answers `key`.
fn answers_without_file(routes: &Routes, key: &[u8]) -> bool {
    let is_above = |folder: &[u8]| key.starts_with(folder);
    let mut scopes = routes.scopes.iter().filter(|((host, folder), _)| host.is_none() && is_above(folder));
    scopes.any(|(_, scope)| {
        let mut rules = scope.rules.iter().map(|rule| &routes.rules[*rule as usize]);
        !scope.fallbacks.is_empty() || rules.any(|rule| rule.source.matches(key))
    })
}

/// Returns the entries of a folder that may be requested by clients.
///
/// Modification times are only included if `is_dated` is set.
fn entries(sources: &Sources, folder: &[u8], is_dated: bool) -> Vec<Entry> {
    let prefix = if folder.is_empty() { Vec::new() } else { [folder, b"/"].concat() };
    let name = |path: &[u8]| {
        let name = path.strip_prefix(prefix.as_slice())?;
        let hidden = folder.is_empty() && name == b"_hosts";
        (!name.is_empty() && !name.contains(&b'/') && !hidden).then(|| name.to_vec())
    };

    // Both lists are sorted, so a folder's entries are all in one place.
    let first = sources.files.partition_point(|file| *file.path < *prefix);
    let files = sources.files[first..].iter().take_while(|file| file.path.starts_with(&prefix));
    let files = files.filter_map(|file| {
        let name = name(&file.path).filter(|name| !special::is_hidden(name))?;
        let modified =
            u64::try_from(file.stamp.version.modified_ns / 1_000_000_000).ok().filter(|_| is_dated);
        Some(Entry { name, kind: EntryKind::File { size: file.stamp.version.size }, modified })
    });

    let first = sources.folders.partition_point(|path| **path < *prefix);
    let folders = sources.folders[first..].iter().take_while(|path| path.starts_with(&prefix));
    let folders =
        folders.filter_map(|path| Some(Entry { name: name(path)?, kind: EntryKind::Folder, modified: None }));

    files.chain(folders).collect()
}
