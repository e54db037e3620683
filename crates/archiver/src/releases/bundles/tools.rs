//! Recognizes build tools by their folders and by names that nothing else makes.
//!
//! A folder alone does not prove much, because people put files there too, so names must look as if they were made by
//! the tool. For folders with common names like `static/`, another file is needed that is only written by the tool.

use std::collections::HashSet;

use super::names::{Family, folder_of, has_tool_hash, hash_in};

/// Length of Gatsby's hashes of scripts, in hexadecimal.
const GATSBY_CODE_LENGTH: usize = 20;

/// Length of Gatsby's hashes of other files, which use MD5.
const GATSBY_FILE_LENGTH: usize = 32;

/// Each build with Gatsby has this file.
const GATSBY_MARKER: &[u8] = b"page-data/app-data.json";

/// Length of Trunk's hashes, in hexadecimal.
const TRUNK_LENGTH: usize = 16;

/// A build tool's folder, at any depth, and how to test names in it.
struct ToolFolder {
    folder: &'static [u8],
    is_hashed: fn(&[u8]) -> bool,
}

const TOOL_FOLDERS: [ToolFolder; 6] = [
    // SvelteKit reserves its folder for hashed names.
    ToolFolder { folder: b"_app/immutable/", is_hashed: |_| true },
    // Next.
    ToolFolder { folder: b"_next/static/", is_hashed: has_tool_hash },
    ToolFolder { folder: b"_astro/", is_hashed: has_tool_hash },
    // Nuxt. This folder also contains data about builds, which changes under the same names.
    ToolFolder { folder: b"_nuxt/", is_hashed: |name| !name.starts_with(b"builds/") && has_tool_hash(name) },
    // Create React App, even if the manifest is missing.
    ToolFolder { folder: b"static/js/", is_hashed: is_react_app_name },
    ToolFolder { folder: b"static/css/", is_hashed: is_react_app_name },
];

/// Whether a build tool made this name in its own folder.
pub(super) fn is_in_tool_folder(path: &[u8]) -> bool {
    TOOL_FOLDERS.iter().any(|ToolFolder { folder, is_hashed }| {
        let is_at =
            |start: &usize| path[*start..].starts_with(folder) && (*start == 0 || path[*start - 1] == b'/');
        (0..path.len()).find(is_at).is_some_and(|start| is_hashed(&path[start + folder.len()..]))
    })
}

/// Returns `true` for `main.1a2b3c4d.js`, `787.1a2b3c4d.chunk.js` and their source maps.
fn is_react_app_name(name: &[u8]) -> bool {
    let name = name.strip_suffix(b".map").unwrap_or(name);
    let Some(name) = name.strip_suffix(b".js").or_else(|| name.strip_suffix(b".css")) else { return false };
    let is_of_stem = |stem: &[u8]| match stem.rsplit(|byte| *byte == b'.').next() {
        Some(hash) if hash.len() < stem.len() => is_hexadecimal(hash, 8),
        _ => false,
    };
    match name.strip_suffix(b".chunk") {
        Some(stem) => is_of_stem(stem),
        None => (name.starts_with(b"main.") || name.starts_with(b"runtime-main.")) && is_of_stem(name),
    }
}

/// Returns `true` if the token has this many hexadecimal digits and isn't a word or number.
fn is_hexadecimal(token: &[u8], length: usize) -> bool {
    token.len() == length
        && token.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && token.iter().any(u8::is_ascii_digit)
        && token.iter().any(u8::is_ascii_alphabetic)
}

/// Folders that contain the output of a tool. We only need this for tools that use common folder names.
pub(super) struct ToolSites<'s> {
    /// From Gatsby.
    gatsby: HashSet<&'s [u8]>,
    /// From Trunk.
    trunk: HashSet<&'s [u8]>,
}

impl<'s> ToolSites<'s> {
    pub(super) fn of(paths: impl Iterator<Item = &'s [u8]> + Clone) -> ToolSites<'s> {
        let is_at = |folder: &[u8]| folder.is_empty() || folder.ends_with(b"/");
        let gatsby = paths.clone().filter_map(|path| path.strip_suffix(GATSBY_MARKER));
        let gatsby = gatsby.filter(|folder| is_at(folder)).collect();

        // The script and the module it loads share a hash.
        let modules: HashSet<&[u8]> =
            paths.clone().filter_map(|path| path.strip_suffix(b"_bg.wasm".as_slice())).collect();
        let scripts = paths.filter_map(|path| path.strip_suffix(b".js".as_slice()));
        let pairs = scripts.filter(|stem| modules.contains(stem) && is_trunk_stem(stem));
        ToolSites { gatsby, trunk: pairs.map(folder_of).collect() }
    }

    /// Returns `true` if one of these tools made the name.
    pub(super) fn have_made(&self, path: &[u8]) -> bool {
        let is_of_gatsby =
            || self.gatsby.iter().any(|folder| path.strip_prefix(*folder).is_some_and(is_gatsby_path));
        self.trunk.contains(folder_of(path)) && is_trunk_name(path)
            || !self.gatsby.is_empty() && is_of_gatsby()
    }
}

/// Returns `true` for `static/MD5/name.png`, for `static/name-MD5.png`, and for scripts and style sheets in the
/// root.
fn is_gatsby_path(path: &[u8]) -> bool {
    if let Some(path) = path.strip_prefix(b"static/") {
        let mut segments = path.split(|byte| *byte == b'/');
        let first = segments.next().unwrap_or_default();
        if segments.next().is_some() {
            return is_hexadecimal(first, GATSBY_FILE_LENGTH);
        }
        let stem = first.split(|byte| *byte == b'.').next().unwrap_or_default();
        let hash = stem.rsplit(|byte| *byte == b'-').next().unwrap_or_default();
        return hash.len() < stem.len() && is_hexadecimal(hash, GATSBY_FILE_LENGTH);
    }

    let is_code = folder_of(path).is_empty() && Family::of(path) == Family::Code;
    is_code && hash_in(path).is_some_and(|hash| is_hexadecimal(&path[hash], GATSBY_CODE_LENGTH))
}

/// Returns `true` for names such as `app-0123456789abcdef`.
fn is_trunk_stem(stem: &[u8]) -> bool {
    stem.len().checked_sub(TRUNK_LENGTH + 1).is_some_and(|separator| {
        stem[separator] == b'-' && is_hexadecimal(&stem[separator + 1..], TRUNK_LENGTH)
    })
}

/// Returns `true` for names such as `app-0123456789abcdef.js` and `app-0123456789abcdef_bg.wasm`, and also for style
/// sheets.
fn is_trunk_name(path: &[u8]) -> bool {
    let suffixes: [&[u8]; 3] = [b"_bg.wasm", b".js", b".css"];
    suffixes.iter().any(|suffix| path.strip_suffix(*suffix).is_some_and(is_trunk_stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All names are taken from real builds.
    ///
    /// The mutable ones look similar, or are known to change under the same name.
    #[test]
    fn names_of_tools_are_recognized_in_their_folders() {
        let immutable: [(&str, &[&str]); 8] = [
            ("SvelteKit", &["_app/immutable/entry/start.DYWvYkPx.js", "base/_app/immutable/nodes/0.js"]),
            (
                "Next",
                &[
                    "_next/static/chunks/main-42372ed130431b0a.js",
                    "_next/static/chunks/app/page-1f2e3d4c5b6a7988.js",
                    "_next/static/x9Q-abc_DEF12ghIJKl34/_buildManifest.js",
                    "_next/static/media/e4af272ccee01ff0-s.p.woff2",
                    "_next/static/media/logo.8f3e2a1b.svg",
                    "app/_next/static/css/8f3e2a1b9c0d4e5f.css",
                ],
            ),
            (
                "Astro",
                &[
                    "_astro/hoisted.BkT3_xYz.js",
                    "_astro/logo.DHY2EjBc_Z1abCd.webp",
                    "_astro/about.Dq7Wz2kP.css",
                ],
            ),
            (
                "Nuxt",
                &[
                    "_nuxt/DKwAzefS.js",
                    "_nuxt/B5Qt_x-9.js",
                    "_nuxt/entry.CqxJ3kLm.css",
                    "_nuxt/error-404.4oxyXxx0.css",
                    "_nuxt/inter.Di8DUHzh.woff2",
                    "base/_nuxt/Di8DUHzh.js",
                ],
            ),
            (
                "Create React App",
                &[
                    "static/js/main.abcdef12.chunk.js",
                    "static/js/main.4f3a9b1c.js",
                    "static/js/787.c4e7f8f9.chunk.js.map",
                    "static/js/runtime-main.8f3e2a1b.js",
                    "static/css/main.484c7ddc.chunk.css",
                ],
            ),
            (
                "Gatsby",
                &[
                    "gatsby/static/6d5e1bd4ae0a4d3a8d4e1b0a3d5c7e91/logo.png",
                    "gatsby/static/6d5e1bd4ae0a4d3a8d4e1b0a3d5c7e91/8f3e2/photo.webp",
                    "gatsby/static/inter-6d5e1bd4ae0a4d3a8d4e1b0a3d5c7e91.woff2",
                    "gatsby/app-8f3e2a1b9c0d4e5f6a7b.js",
                    "gatsby/component---src-pages-index-js-8f3e2a1b9c0d4e5f6a7b.js",
                    "gatsby/styles.8f3e2a1b9c0d4e5f6a7b.css",
                ],
            ),
            (
                "Trunk",
                &[
                    "trunk/app-0123456789abcdef_bg.wasm",
                    "trunk/app-0123456789abcdef.js",
                    "trunk/styles-8f3e2a1b9c0d4e5f.css",
                ],
            ),
            ("Trunk in the root", &["my-app-0123456789abcdef_bg.wasm", "my-app-0123456789abcdef.js"]),
        ];

        let mutable = [
            "_app/version.json",
            "_next/data/a-42372ed130431b0a.json",
            "_next/static/chunks/main.js",
            "_next/static/media/logo-large.svg",
            "my_astro/a.BkT3_xYz.js",
            "_astro/favicon.svg",
            "_astro/main-settings.js",
            "_astro/logo-ABSTRACT.svg",
            "blog/_astro/my-post.txt",
            "_nuxt/builds/latest.json",
            "_nuxt/builds/meta/63b2c406-9545-4c1d-8b1f-0a1b2c3d4e5f.json",
            "_nuxt/settings.js",
            "_nuxt/favicon.svg",
            "my_nuxt/DKwAzefS.js",
            "static/js/jquery.min.js",
            "static/js/main.js",
            "static/js/chart.20240131.js",
            "static/js/app.4f3a9b1c.js",
            "static/js/main.deadbeef.js",
            "static/media/photo.4f3a9b1c.jpg",
            "gatsby/page-data/index/page-data.json",
            "gatsby/page-data/sq/d/8f3e2a1b9c0d4e5f6a7b.json",
            "gatsby/page-data/app-data.json",
            "gatsby/static/d/123/index.json",
            "gatsby/static/logo.png",
            "gatsby/static/2024/logo.png",
            "gatsby/photo-8f3e2a1b9c0d4e5f6a7b.jpg",
            "other/static/6d5e1bd4ae0a4d3a8d4e1b0a3d5c7e91/logo.png",
            "other/app-8f3e2a1b9c0d4e5f6a7b.js",
            "other/app-0123456789abcdef.js",
            "wasm/app-0123456789abcdef_bg.wasm",
            "wasm/app-fedcba9876543210.js",
            "wasm/app_bg.wasm",
            "wasm/app.js",
            "trunk/photo-8f3e2a1b9c0d4e5f.jpg",
            "trunk/app.js",
        ];

        let all: Vec<&[u8]> = immutable
            .iter()
            .flat_map(|(_, paths)| paths.iter())
            .chain(&mutable)
            .map(|path| path.as_bytes())
            .collect();
        let sites = ToolSites::of(all.iter().copied());
        let is_made = |path: &str| is_in_tool_folder(path.as_bytes()) || sites.have_made(path.as_bytes());

        for (tool, paths) in immutable {
            for path in paths {
                assert!(is_made(path), "{tool}: {path}");
            }
        }
        for path in mutable {
            assert!(!is_made(path), "{path}");
        }
    }
}
