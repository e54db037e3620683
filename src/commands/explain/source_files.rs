//! Finds the source files of an archive by their names and contents.

use cannery_archive::{Archive, Corrupt, Extent, Origin, Record, RecordKind, Resource, split_host};

use crate::commands::key_display::source_path;
use crate::output::one_line;

/// The source files that have a path or are kept for `extract`, sorted by name.
pub(super) struct SourceFiles(Vec<SourceFile>);

struct SourceFile {
    /// Path in the source folder.
    name: Vec<u8>,
    /// One body for each stored coding.
    bodies: Vec<Extent>,
}

impl SourceFiles {
    /// Reads all records of the archive.
    pub(super) fn read(archive: &Archive) -> Result<SourceFiles, Corrupt> {
        let mut files = Vec::new();
        for entry in archive.entries() {
            let entry = entry?;
            match entry.kind() {
                RecordKind::Source(path) => {
                    let bodies = vec![archive.decode_source(&entry)?];
                    files.push(SourceFile { name: path.to_vec(), bodies });
                }
                RecordKind::Path(key) => {
                    if let Record::Resource(resource) = archive.decode_path(&entry)?
                        && resource.origin == Origin::File
                    {
                        let (site, path) = split_host(key);
                        files.push(SourceFile { name: source_path(site, path), bodies: bodies(&resource)? });
                    }
                }
                _ => {}
            }
        }

        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(SourceFiles(files))
    }

    /// Finds the file behind an alias, i.e. an index page or a page without its suffix.
    ///
    /// If there are several files with the same content, the first by name is returned, since this is the one preferred by
    /// the archiver.
    pub(super) fn find_alias(
        &self,
        site: Option<&[u8]>,
        key: &[u8],
        resource: &Resource<'_>,
    ) -> Option<&[u8]> {
        let bodies = bodies(resource).ok()?;
        let path = source_path(site, key);
        // `index.html` or `_index.html` for a folder, and any suffix for a page.
        let is_alias_name = |name: &[u8]| {
            let Some(rest) = name.strip_prefix(path.as_slice()) else { return false };
            let suffix = if key.ends_with(b"/") {
                rest.strip_prefix(b"_").unwrap_or(rest).strip_prefix(b"index")
            } else {
                Some(rest)
            };
            suffix.is_some_and(|suffix| suffix.starts_with(b".") && !suffix.contains(&b'/'))
        };

        let file = self.0.iter().find(|file| {
            is_alias_name(&file.name) && file.bodies.iter().any(|extent| bodies.contains(extent))
        });
        file.map(|file| file.name.as_slice())
    }

    /// Returns the first file with this content whose name satisfies `is_match`.
    pub(super) fn with_body(&self, body: Extent, is_match: impl Fn(&[u8]) -> bool) -> Option<&[u8]> {
        let file = self.0.iter().find(|file| file.bodies.contains(&body) && is_match(&file.name));
        file.map(|file| file.name.as_slice())
    }

    /// Finds the page of a folder for this error status. The host's own pages take precedence over those
    /// of the default site.
    pub(super) fn error_page(&self, status: u16, host: Option<&[u8]>, folder: &[u8]) -> Option<&[u8]> {
        let status = status.to_string();
        let is_page = |name: &[u8]| {
            let file = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let stem = file.split(|byte| *byte == b'.').next().unwrap_or_default();
            stem.strip_prefix(b"_").unwrap_or(stem) == status.as_bytes() && is_in(name, folder)
        };
        let host_folder = host.map(|host| source_path(Some(host), b"/"));
        let is_of_host = |name: &[u8]| host_folder.as_ref().is_some_and(|folder| name.starts_with(folder));
        let mut names = self.0.iter().map(|file| file.name.as_slice()).filter(|name| is_page(name));
        names.clone().find(|name| is_of_host(name)).or_else(|| names.next())
    }
}

/// Returns a resource's bodies, one for each coding.
pub(super) fn bodies(resource: &Resource<'_>) -> Result<Vec<Extent>, Corrupt> {
    resource
        .representations()
        .map(|representation| representation.map(|representation| representation.body))
        .collect()
}

/// Whether a source file of any site is in the folder with this key.
pub(super) fn is_in(name: &[u8], folder: &[u8]) -> bool {
    let parent = &name[..name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)];
    let folder = folder.strip_prefix(b"/").unwrap_or(folder);
    parent == folder || parent.starts_with(b"_hosts/") && parent.ends_with(&[b"/", folder].concat())
}

pub(super) fn display_name(name: &[u8]) -> String {
    one_line(&String::from_utf8_lossy(name))
}
