//! Releases of a fixture site. A client can compute the content of each resource from path and release.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::compile;

/// Number of releases that are exchanged for each other.
pub(super) const RELEASES: u64 = 4;

/// A resource of the site: path, length in bytes, and whether its content can be compressed.
#[derive(Clone, Copy)]
pub(super) struct Resource {
    pub(super) path: &'static str,
    pub(super) length: usize,
    is_text: bool,
}

const fn resource(path: &'static str, length: usize, is_text: bool) -> Resource {
    Resource { path, length, is_text }
}

/// Lengths below and above the limits for copies, zero-copy sends, and TLS records.
pub(super) const RESOURCES: [Resource; 7] = [
    resource("/empty.txt", 0, true),
    resource("/small.txt", 13, true),
    resource("/page.html", 4_000, true),
    resource("/medium.bin", 9_000, false),
    resource("/script.js", 70_000, true),
    resource("/picture.bin", 90_000, false),
    resource("/large.txt", 400_000, true),
];

/// A path that no release has, answered with the release's own `404.html`.
pub(super) const MISSING: Resource = resource("/404.html", 700, true);

/// Returns the content of a resource in a release. No two releases share any 32 bytes at the same offset.
pub(super) fn content(resource: &Resource, release: u64) -> Vec<u8> {
    let mut content = Vec::with_capacity(resource.length + 64);
    if resource.is_text {
        let line = format!("Release {release} of {}: a line of its text.\n", resource.path);
        while content.len() < resource.length {
            content.extend_from_slice(line.as_bytes());
        }
    } else {
        let mut state = 0x9e37_79b9_7f4a_7c15 ^ (release + 1) << 32;
        while content.len() < resource.length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            content.extend_from_slice(&u64::to_le_bytes(state));
        }
    }
    content.truncate(resource.length);
    content
}

/// The archives of all releases, and the name under which one of them is served.
pub(super) struct Site {
    folder: tempfile::TempDir,
    archive: PathBuf,
}

impl Site {
    /// Compiles all releases, and publishes the first.
    pub(super) fn compile() -> Site {
        let folder = tempfile::tempdir().unwrap();
        for release in 0..RELEASES {
            let source = tempfile::tempdir().unwrap();
            for resource in RESOURCES.iter().chain([&MISSING]) {
                fs::write(source.path().join(&resource.path[1..]), content(resource, release)).unwrap();
            }
            fs::write(source.path().join("_headers"), format!("/*\n  X-Release: {release}\n")).unwrap();
            fs::write(source.path().join("index.html"), "<title>Start</title>").unwrap();
            let codings = ["--compress", "identity,gzip,brotli,zstd", "--compress-level"];
            let flags = [&codings[..], &["gzip=1,brotli=1,zstd=1"]].concat();
            compile(source.path(), &folder.path().join(format!("{release}.cdb")), &flags);
        }
        let site = Site { archive: folder.path().join("site.cdb"), folder };
        site.publish(0);
        site
    }

    /// Returns the path of the current release, which the server opens.
    pub(super) fn archive(&self) -> &Path {
        &self.archive
    }

    /// Makes a release the current one, by renaming a copy of its archive.
    pub(super) fn publish(&self, release: u64) {
        let next = self.folder.path().join("next");
        fs::copy(self.folder.path().join(format!("{release}.cdb")), &next).unwrap();
        fs::rename(next, &self.archive).unwrap();
    }
}
