//! Pages that list folders, for those who asked for them.
//!
//! Lists what the site serves. Never lists what was skipped.

use cannery_archive::Origin;

use crate::listing::{Entry, EntryKind, Listing};
use crate::routes::{Route, Routes, Target};
use crate::source::{Generated, SourceId, Sources};
use crate::special;

/// Adds a listing to each folder: as JSON to all, as a page where no index page answers. Returns how many.
pub(crate) fn add(routes: &mut Routes, sources: &mut Sources) -> u64 {
    let listed = |folder: &[u8]| folder != b"_hosts" && !folder.starts_with(b"_hosts/");
    let folders: Vec<Box<[u8]>> = sources.folders.iter().filter(|folder| listed(folder)).cloned().collect();
    let mut made = 0;
    for folder in folders {
        let listing = Listing::new(&folder, entries(sources, &folder));
        let key = if folder.is_empty() { b"/".to_vec() } else { [b"/", &*folder, b"/"].concat() };
        let mut add = |key: Vec<u8>, name: &[u8], content: String| {
            let id = SourceId::try_from(sources.len()).unwrap_or(SourceId::MAX);
            let place = (None, key.into_boxed_slice());
            if routes.paths.contains_key(&place) {
                return;
            }
            let route = Route { target: Target::Source { id, status: 200 }, origin: Origin::Generated };
            routes.paths.insert(place, route);
            let path = [&*folder, b"/", name].concat().into();
            sources.generated.push(Generated { path, content: content.into_bytes() });
            made += 1;
        };
        add([key.as_slice(), b"_listing.json"].concat(), b"_listing.json", listing.json());
        add(key, b"_listing.html", listing.html());
    }
    made
}

/// What a folder holds that can be asked for.
fn entries(sources: &Sources, folder: &[u8]) -> Vec<Entry> {
    let prefix = if folder.is_empty() { Vec::new() } else { [folder, b"/"].concat() };
    let name = |path: &[u8]| {
        let name = path.strip_prefix(prefix.as_slice())?;
        let hidden = folder.is_empty() && name == b"_hosts";
        (!name.is_empty() && !name.contains(&b'/') && !hidden).then(|| name.to_vec())
    };
    // Both lists are sorted, so that what a folder holds stands together.
    let first = sources.files.partition_point(|file| *file.path < *prefix);
    let files = sources.files[first..].iter().take_while(|file| file.path.starts_with(&prefix));
    let files = files.filter_map(|file| {
        let name = name(&file.path).filter(|name| !special::is_hidden(name))?;
        Some(Entry { name, kind: EntryKind::File { size: file.stamp.size } })
    });
    let first = sources.folders.partition_point(|path| **path < *prefix);
    let folders = sources.folders[first..].iter().take_while(|path| path.starts_with(&prefix));
    let folders = folders.filter_map(|path| Some(Entry { name: name(path)?, kind: EntryKind::Folder }));
    files.chain(folders).collect()
}
