//! Finds access control for other servers and hosting providers in the source folder.
//!
//! Passwords and roles are not supported, so a line that restricts access on another server must be an error. If it were ignored
//! with a warning, the protected pages would be exposed, and perhaps even the password.
//!
//! For the files to search, see [`FILES`]. Note that names which are left out need to be searched too, because `.htaccess`,
//! for example, protects the files next to it.

mod hosts;
mod servers;
mod tokens;

use std::io::Read;
use std::path::Path;

use rayon::prelude::*;

use crate::ground::diagnostic::Diagnostic;
use crate::ground::rule_error::RuleError;
use crate::hosts::site_path::{Site, is_host_folder, site_of};
use crate::sources::source::Sources;
use crate::tree::folder_file;

/// Searches the text of a file and returns the first line with access control, and a description of it.
///
/// The description MUST NOT quote any part of the line, because it could be a password.
type Search = fn(&str) -> Option<Found>;

type Found = (u32, String);

/// Lower-case name patterns and the searches for matching files; the first match counts. Patterns with a slash are matched against
/// the path within a site, all others against the name in any folder. `*` stands for any text.
const FILES: &[(&[&str], Search)] = &[
    (&[".htaccess", "apache2.conf", "httpd.conf"], servers::apache),
    (&["nginx.conf"], servers::nginx),
    (&["lighttpd.conf"], servers::lighttpd),
    (&["*.caddy", "caddyfile", "caddyfile.*"], servers::caddy),
    (&["/*.conf", "/*.conf.template", "/*.vhost", "/conf.d/*", "/sites-enabled/*"], servers::any),
    (&["web.config"], servers::iis),
    (
        &[
            "*.htdigest",
            "*.htpasswd",
            ".htdigest*",
            ".htpasswd*",
            ".passwd",
            "/auth",
            "htdigest",
            "htpasswd*",
            "passwd",
            "staticfile.auth",
        ],
        hosts::passwords,
    ),
    (&["netlify.toml"], hosts::toml),
    (&["app.yaml", "app.yml", "customhttp.yml", "netlify.yaml", "netlify.yml"], hosts::yaml),
    (&["/render.yaml", "/static.yaml"], hosts::yaml),
    (
        &["now.json", "vercel.cjs", "vercel.js", "vercel.json", "vercel.mjs", "vercel.mts", "vercel.ts"],
        hosts::vercel,
    ),
    (&["firebase.json"], hosts::firebase),
    (&["routes.json", "staticwebapp.config.json"], hosts::azure),
    (&["/static.json"], hosts::heroku),
    (
        &[
            "/_worker.js/*",
            "/edge-functions/*",
            "/functions/_middleware.*",
            "/functions/*/_middleware.*",
            "/middleware.*",
            "/netlify/edge-functions/*",
            "/src/middleware.*",
            "_worker.js",
            "_worker.ts",
        ],
        hosts::middleware,
    ),
    (&["/api/*", "/functions/*", "/netlify/functions/*", "/supabase/functions/*"], hosts::function),
    (&["/worker.*"], hosts::worker),
    (
        &[
            "_header",
            "_header.*",
            "_headers",
            "_headers.*",
            "_redirect",
            "_redirect.*",
            "_redirects",
            "_redirects.*",
            "header",
            "header.txt",
            "headers",
            "headers.bak",
            "headers.old",
            "headers.orig",
            "headers.toml",
            "headers.txt",
            "redirect",
            "redirect.txt",
            "redirects",
            "redirects.bak",
            "redirects.old",
            "redirects.orig",
            "redirects.toml",
            "redirects.txt",
        ],
        hosts::rules,
    ),
];

/// Maximum number of bytes to search in a file.
const SEARCHED_BYTES_MAX: u64 = 1 << 20;

/// Reports access control in files that our server does not read. This includes configuration of other servers, and rule
/// files with the wrong name or in the wrong place.
pub(crate) fn find(sources: &Sources) -> Vec<Diagnostic> {
    let published = sources.files.par_iter().map(|file| &*file.path);
    let left_out =
        sources.skipped.par_iter().filter(|skipped| !skipped.is_folder).map(|skipped| &*skipped.path);
    published
        .chain(left_out)
        .filter_map(|path| {
            let search = search_of(path)?;
            first_line(&sources.root, path, search)
        })
        .collect()
}

/// If the name is typical of a configuration file, returns how to search it.
fn search_of(path: &[u8]) -> Option<Search> {
    if is_rule_file(path) {
        return None;
    }
    let path_in_site = match site_of(path) {
        Site::Default(path) | Site::Host(_, path) => path,
        Site::Invalid(_) => path,
    };

    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let is_match = |pattern: &&str| match pattern.strip_prefix('/') {
        // Patterns such as `/*.conf` are only for the root.
        Some(pattern) if !pattern.contains('/') => {
            !path_in_site.contains(&b'/') && matches(pattern.as_bytes(), name)
        }
        Some(pattern) => matches(pattern.as_bytes(), path_in_site),
        None => matches(pattern.as_bytes(), name),
    };
    FILES.iter().find(|(patterns, _)| patterns.iter().any(is_match)).map(|(_, search)| *search)
}

/// Whether the server reads the file's rules. Its lines are checked elsewhere.
fn is_rule_file(path: &[u8]) -> bool {
    let (folder, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&b""[..], path),
    };
    // `_headers` only has an effect in the root of a site.
    matches!(name, b"_redirects" | b"_redirects.txt")
        || name == b"_headers" && (folder.is_empty() || is_host_folder(folder))
}

/// Matches a pattern with `*` against a whole text. Letter case does not matter.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else {
        return pattern.eq_ignore_ascii_case(text);
    };
    let (before, after) = (&pattern[..star], &pattern[star + 1..]);
    if text.len() < before.len() || !text[..before.len()].eq_ignore_ascii_case(before) {
        return false;
    }
    let rest = &text[before.len()..];
    if !after.contains(&b'*') {
        return rest.len() >= after.len() && rest[rest.len() - after.len()..].eq_ignore_ascii_case(after);
    }
    (0..=rest.len()).any(|start| matches(after, &rest[start..]))
}

/// Reports the first line with access control, if any. We ignore read errors here, since they will be
/// reported elsewhere.
fn first_line(root: &Path, path: &[u8], search: Search) -> Option<Diagnostic> {
    let mut bytes = Vec::new();
    folder_file::open(&folder_file::full_path(root, path))
        .and_then(|file| file.take(SEARCHED_BYTES_MAX).read_to_end(&mut bytes))
        .ok()?;

    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);

    let (line, subject) = search(text)?;
    let message = format!(
        "{subject} is access control, which this server doesn't have, and it doesn't read this file: the pages that it protects \
         would be public; protect them in a proxy in front, and move this file out of the source folder (leaving it out with a \
         pattern is not enough)"
    );
    Some(RuleError::error("access-control", message).at(&String::from_utf8_lossy(path), line))
}

#[cfg(test)]
mod tests;
