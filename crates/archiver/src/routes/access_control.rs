//! Finds access control for other servers and hosting providers in the source folder.
//!
//! Passwords and roles are not supported, so a line that restricts access on another server must be an error. If it were ignored
//! with a warning, the protected pages would be exposed, and perhaps even the password.
//!
//! For the files to search, see [`FILES`]. Note that names which are left out need to be searched too, because `.htaccess`,
//! for example, protects the files next to it. If such a file can't be read, it may contain access control, so this is an error
//! as well.

mod folders;
mod hosts;
mod pieces;
mod servers;
mod tokens;

use std::fs;
use std::io;
use std::path::Path;

use rayon::prelude::*;

use self::pieces::{Encodings, Outcome, SEARCHED_BYTES_MAX};
use crate::ground::diagnostic::{Diagnostic, Severity};
use crate::ground::rule_error::RuleError;
use crate::hosts::site_path::{Site, is_host_folder, site_of};
use crate::sources::source::Sources;
use crate::sources::unreadable::UnreadableFiles;
use crate::tree::folder_file::{self, kind_of};

/// Searches the text of a file and returns the first line with access control, and a description of it.
///
/// The description MUST NOT quote any part of the line, because it could be a password.
type Search = fn(&str) -> Option<Found>;

type Found = (u32, String);

/// The outcome if a file can't be searched to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unsearched {
    /// The build fails.
    Fails,
    /// There is a warning if the file is too long. If it can't be read, the build fails.
    Warns,
    /// Nothing, because few files with such names contain access control.
    Passes,
}

/// Lower-case name patterns and the searches for matching files; the first match counts. Patterns with a slash are matched against
/// the path within a site, all others against the name in any folder. `*` stands for any text.
const FILES: &[(&[&str], Search, Unsearched)] = &[
    (&[".htaccess", "apache2.conf", "httpd.conf"], servers::apache, Unsearched::Fails),
    (&["nginx.conf"], servers::nginx, Unsearched::Fails),
    (&["lighttpd.conf"], servers::lighttpd, Unsearched::Fails),
    (&["*.caddy", "caddyfile", "caddyfile.*"], servers::caddy, Unsearched::Fails),
    (
        &[
            "/*.conf",
            "/*.conf.template",
            "/*.vhost",
            "/.platform/*.conf",
            "/conf.d/*",
            "/nginx/*.conf",
            "/sites-enabled/*",
        ],
        servers::any,
        Unsearched::Fails,
    ),
    (&["web.config"], servers::iis, Unsearched::Fails),
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
        Unsearched::Fails,
    ),
    (&["netlify.toml"], hosts::toml, Unsearched::Fails),
    (
        &["app.yaml", "app.yml", "customhttp.yml", "netlify.yaml", "netlify.yml"],
        hosts::yaml,
        Unsearched::Fails,
    ),
    (&["/render.yaml", "/static.yaml"], hosts::yaml, Unsearched::Fails),
    (
        &[
            "/.vercel/output/config.json",
            "now.json",
            "vercel.cjs",
            "vercel.js",
            "vercel.json",
            "vercel.mjs",
            "vercel.mts",
            "vercel.ts",
        ],
        hosts::vercel,
        Unsearched::Fails,
    ),
    (&["firebase.json"], hosts::firebase, Unsearched::Fails),
    (&["routes.json", "staticwebapp.config.json"], hosts::azure, Unsearched::Fails),
    (&["/static.json"], hosts::heroku, Unsearched::Fails),
    (
        &[
            "/.netlify/edge-functions*",
            "/.vercel/output/functions/*middleware*",
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
        Unsearched::Warns,
    ),
    (
        &[
            "/.netlify/functions*",
            "/.vercel/output/functions/*",
            "/api/*",
            "/functions/*",
            "/netlify/functions/*",
            "/supabase/functions/*",
        ],
        hosts::function,
        Unsearched::Passes,
    ),
    (&["/worker.*"], hosts::worker, Unsearched::Passes),
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
        Unsearched::Fails,
    ),
];

/// Where a file to search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Published,
    /// The file was left out, so the server does not even read the rules in it.
    LeftOut,
    /// The file is in a folder that was left out.
    InFolder,
}

/// A file to search.
#[derive(Debug, Clone, Copy)]
struct Suspect<'s> {
    path: &'s [u8],
    search: Search,
    encodings: Encodings,
    unsearched: Unsearched,
    origin: Origin,
}

impl<'s> Suspect<'s> {
    /// Returns how to search a file if its name is typical of a configuration file.
    fn new(path: &'s [u8], origin: Origin) -> Option<Suspect<'s>> {
        // The parsers of rule files report access control themselves. However, they can't read the lines of a file in another
        // encoding, and they never see a file that was left out.
        if is_rule_file(path) && origin != Origin::InFolder {
            let encodings = if origin == Origin::Published { Encodings::Foreign } else { Encodings::All };
            let unsearched = Unsearched::Fails;
            return Some(Suspect { path, search: hosts::rules, encodings, unsearched, origin });
        }
        let (search, unsearched) = search_of(path, origin == Origin::InFolder)?;
        Some(Suspect { path, search, encodings: Encodings::All, unsearched, origin })
    }

    /// Reports the first line with access control, or that the file can't be searched.
    fn report(&self, root: &Path) -> Option<Diagnostic> {
        let full_path = folder_file::full_path(root, self.path);
        let opened = folder_file::open(&full_path);
        let outcome = opened.and_then(|file| pieces::search(file, self.search, self.encodings));
        match outcome {
            Ok(Outcome::Found((line, subject))) => {
                let message = format!(
                    "{subject} is access control, which this server doesn't have, and it doesn't read this file: the pages that it \
                     protects would be public; protect them in a proxy in front, and move this file out of the source folder \
                     (leaving it out with a pattern is not enough)"
                );
                Some(RuleError::error(CODE, message).at(&String::from_utf8_lossy(self.path), line))
            }
            Ok(Outcome::Nothing) => None,
            Ok(Outcome::TooLong) => {
                let severity = match self.unsearched {
                    Unsearched::Fails => Severity::Error,
                    Unsearched::Warns => Severity::Warning,
                    Unsearched::Passes => return None,
                };
                let mib = SEARCHED_BYTES_MAX >> 20;
                let predicate = format!(
                    "has more than {mib} MiB and is searched for access control only up to there, so pages that it protects further \
                     down would be public; shorten it, or move it out of the source folder"
                );
                Some(Diagnostic { severity, ..Diagnostic::warning_that(self.path, CODE, predicate) })
            }
            Err(error) => {
                if self.unsearched == Unsearched::Passes {
                    return None;
                }
                let problem = self.problem(&full_path, &error)?;
                Some(unsearchable(self.path, &problem))
            }
        }
    }

    /// Describes why the file can't be read. Returns `None` if it was removed, or if others report this.
    fn problem(&self, full_path: &Path, error: &io::Error) -> Option<String> {
        if error.kind() != io::ErrorKind::NotFound {
            return Some(format!("cannot be read ({error})"));
        }
        if self.origin == Origin::Published || fs::symlink_metadata(full_path).is_err() {
            return None;
        }
        match fs::metadata(full_path) {
            // It was replaced in the meantime, so there will be another build.
            Ok(metadata) if metadata.is_file() => None,
            Ok(metadata) => Some(format!("is {}", kind_of(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Some("is a symlink to nothing".to_owned())
            }
            Err(error) => Some(format!("cannot be read ({error})")),
        }
    }
}

/// Code of all reports about access control.
const CODE: &str = "access-control";

/// Creates an error for a file or folder that can't be searched.
fn unsearchable(path: &[u8], problem: &str) -> Diagnostic {
    let predicate = format!(
        "{problem}, so it can't be searched for access control, and pages that it protects would be public; let the user of this \
         process read it as a regular file, or move it out of the source folder (leaving it out with a pattern is not enough)"
    );
    Diagnostic { severity: Severity::Error, ..Diagnostic::warning_that(path, CODE, predicate) }
}

/// Reports access control in files that our server does not read. This includes configuration of other servers, and rule
/// files with the wrong name or in the wrong place.
pub(crate) fn find(sources: &Sources) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let mut in_folders: Vec<Box<[u8]>> = Vec::new();
    for folder in sources.skipped.iter().filter(|skipped| skipped.is_folder) {
        let (mut files, mut problems) = folders::list(&sources.root, &folder.path);
        in_folders.append(&mut files);
        diagnostics.append(&mut problems);
    }
    let unreadable = sources.unreadable.as_ref().map(UnreadableFiles::paths).unwrap_or_default();

    let published = sources.files.par_iter().map(|file| (&*file.path, Origin::Published));
    let skipped = sources.skipped.par_iter().filter(|skipped| !skipped.is_folder);
    let left_out =
        skipped.map(|skipped| &*skipped.path).chain(sources.unusable.par_iter().map(|path| &**path));
    let unreadable = unreadable.par_iter().map(|path| &**path);
    let in_folders = in_folders.par_iter().map(|path| (&**path, Origin::InFolder));
    let found: Vec<Diagnostic> = published
        .chain(left_out.chain(unreadable).map(|path| (path, Origin::LeftOut)))
        .chain(in_folders)
        .filter_map(|(path, origin)| Suspect::new(path, origin)?.report(&sources.root))
        .collect();
    diagnostics.extend(found);
    diagnostics
}

/// If the name is typical of a configuration file, returns how to search it.
///
/// In a folder that was left out, only patterns that name the folder count: other files only protect the folder itself, which
/// is not published.
fn search_of(path: &[u8], is_in_folder: bool) -> Option<(Search, Unsearched)> {
    let path_in_site = path_in_site(path);
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let is_match = |pattern: &&str| match pattern.strip_prefix('/') {
        // Patterns such as `/*.conf` are only for the root.
        Some(pattern) if !pattern.contains('/') => {
            !path_in_site.contains(&b'/') && matches(pattern.as_bytes(), name)
        }
        Some(pattern) => matches(pattern.as_bytes(), path_in_site),
        None => !is_in_folder && matches(pattern.as_bytes(), name),
    };
    let found = FILES.iter().find(|(patterns, ..)| patterns.iter().any(is_match));
    found.map(|(_, search, unsearched)| (*search, *unsearched))
}

fn path_in_site(path: &[u8]) -> &[u8] {
    match site_of(path) {
        Site::Default(path) | Site::Host(_, path) => path,
        Site::Invalid(_) => path,
    }
}

/// Whether the server reads the file's rules, unless it is left out.
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

#[cfg(test)]
mod tests;
