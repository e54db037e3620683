//! Finds access control for other servers and hosting providers in the source folder.
//!
//! Passwords and roles are not supported, so a line that restricts access on another server must be an error. If it were ignored
//! with a warning, the protected pages would be exposed, and perhaps even the password.
//!
//! For the files to search, see [`FILES`]. Note that names which are left out need to be searched too, because `.htaccess`,
//! for example, protects the files next to it. If such a file can't be read, it may contain access control, so this is an error
//! as well.
//!
//! Documentation about servers may well offer configuration for download, and describe access control in its pages and data.
//! This must not stop a build, so pages are never searched, and [`Scope`] tells examples from configuration.

mod folders;
mod hosts;
mod pieces;
mod servers;
mod tokens;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use rayon::prelude::*;

use self::pieces::{Encodings, Outcome, PIECE_BYTES, SEARCHED_BYTES_MAX, WHOLE_BYTES};
use crate::ground::diagnostic::{Diagnostic, Severity};
use crate::ground::rule_error::RuleError;
use crate::hosts::site_path::{Site, is_host_folder, site_of};
use crate::routes::suspects::foreign::{has_suffix, is_handler};
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

/// Where a file has an effect on the other host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// In any folder.
    Anywhere,
    /// In the root of a site or project. Further down, a file next to pages is probably an example.
    Root,
    /// In a folder for configuration. If such a file is published, it is probably an example.
    Folder,
    /// Code that runs for page requests, which can't have another name.
    Code,
    /// Code in a folder that may also be an ordinary one, for example with the reference of an API.
    Function,
}

/// A kind of file.
#[derive(Debug)]
struct Kind {
    /// Lower-case name patterns. Patterns with a slash are matched against the path within a site, all others against the name in
    /// any folder. `*` stands for any text.
    patterns: &'static [&'static str],
    search: Search,
    unsearched: Unsearched,
    scope: Scope,
}

const fn kind(
    patterns: &'static [&'static str],
    search: Search,
    unsearched: Unsearched,
    scope: Scope,
) -> Kind {
    Kind { patterns, search, unsearched, scope }
}

/// The files to search. The first match counts.
const FILES: &[Kind] = &[
    kind(&[".htaccess"], servers::apache, Unsearched::Fails, Scope::Anywhere),
    kind(&["apache2.conf", "httpd.conf"], servers::apache, Unsearched::Fails, Scope::Root),
    kind(&["nginx.conf"], servers::nginx, Unsearched::Fails, Scope::Root),
    kind(&["lighttpd.conf"], servers::lighttpd, Unsearched::Fails, Scope::Root),
    kind(&["*.caddy", "caddyfile", "caddyfile.*"], servers::caddy, Unsearched::Fails, Scope::Root),
    kind(&["/*.conf", "/*.conf.template", "/*.vhost"], servers::any, Unsearched::Fails, Scope::Root),
    kind(
        &["/.platform/*.conf", "/conf.d/*", "/nginx/*.conf", "/sites-enabled/*"],
        servers::any,
        Unsearched::Fails,
        Scope::Folder,
    ),
    kind(&["web.config"], servers::iis, Unsearched::Fails, Scope::Anywhere),
    kind(
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
        Unsearched::Warns,
        Scope::Anywhere,
    ),
    kind(&["netlify.toml"], hosts::toml, Unsearched::Fails, Scope::Root),
    kind(
        &["app.yaml", "app.yml", "customhttp.yml", "netlify.yaml", "netlify.yml"],
        hosts::yaml,
        Unsearched::Fails,
        Scope::Root,
    ),
    kind(&["/render.yaml", "/static.yaml"], hosts::yaml, Unsearched::Warns, Scope::Root),
    kind(
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
        Scope::Root,
    ),
    kind(&["firebase.json"], hosts::firebase, Unsearched::Fails, Scope::Root),
    kind(&["staticwebapp.config.json"], hosts::azure, Unsearched::Fails, Scope::Anywhere),
    kind(&["/routes.json"], hosts::azure_routes, Unsearched::Warns, Scope::Root),
    kind(&["/static.json"], hosts::heroku, Unsearched::Warns, Scope::Root),
    kind(&["_worker.js", "_worker.ts"], hosts::middleware, Unsearched::Warns, Scope::Root),
    kind(
        &[
            "/.vercel/output/functions/*middleware*",
            "/_worker.js/*",
            "/functions/_middleware.*",
            "/functions/*/_middleware.*",
            "/middleware.*",
        ],
        hosts::middleware,
        Unsearched::Warns,
        Scope::Code,
    ),
    kind(
        &["/.netlify/edge-functions*", "/edge-functions/*", "/netlify/edge-functions/*", "/src/middleware.*"],
        hosts::middleware,
        Unsearched::Warns,
        Scope::Function,
    ),
    kind(
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
        Scope::Function,
    ),
    kind(&["/worker.*"], hosts::worker, Unsearched::Passes, Scope::Code),
    kind(
        &["_header", "_headers", "_redirect", "_redirects"],
        hosts::rules,
        Unsearched::Fails,
        Scope::Anywhere,
    ),
    kind(
        &["_header.*", "_headers.*", "_redirect.*", "_redirects.*"],
        hosts::rules,
        Unsearched::Fails,
        Scope::Root,
    ),
    // Data often has such names, too.
    kind(
        &[
            "/header",
            "/header.txt",
            "/headers",
            "/headers.bak",
            "/headers.old",
            "/headers.orig",
            "/headers.toml",
            "/headers.txt",
            "/redirect",
            "/redirect.txt",
            "/redirects",
            "/redirects.bak",
            "/redirects.old",
            "/redirects.orig",
            "/redirects.toml",
            "/redirects.txt",
        ],
        hosts::rules,
        Unsearched::Warns,
        Scope::Root,
    ),
];

/// Suffixes of pages.
const PAGE_SUFFIXES: [&str; 5] = [".htm", ".html", ".md", ".xht", ".xhtml"];

/// Suffixes of documents and media, which no host takes for configuration.
const DOCUMENT_SUFFIXES: [&str; 20] = [
    ".adoc",
    ".avif",
    ".css",
    ".csv",
    ".epub",
    ".gif",
    ".ico",
    ".jpeg",
    ".jpg",
    ".markdown",
    ".mdx",
    ".mp3",
    ".mp4",
    ".pdf",
    ".png",
    ".rst",
    ".svg",
    ".webm",
    ".webp",
    ".xml",
];

/// Suffixes of scripts. Others, for example Go programs, can't be searched after they have been compiled.
const SCRIPT_SUFFIXES: [&str; 13] =
    [".cjs", ".cts", ".go", ".js", ".jsx", ".mjs", ".mts", ".php", ".py", ".rb", ".rs", ".ts", ".tsx"];

/// Suffixes of backup copies of scripts.
const COPY_SUFFIXES: [&str; 3] = [".bak", ".old", ".orig"];

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
    scope: Scope,
    origin: Origin,
}

impl<'s> Suspect<'s> {
    /// Returns how to search a file if its name is typical of a configuration file.
    fn new(path: &'s [u8], origin: Origin) -> Option<Suspect<'s>> {
        // The parsers of rule files report access control themselves. However, they can't read the lines of a file in another
        // encoding, and they never see a file that was left out.
        if is_rule_file(path) && origin != Origin::InFolder {
            let encodings = if origin == Origin::Published { Encodings::Foreign } else { Encodings::All };
            let (unsearched, scope) = (Unsearched::Fails, Scope::Anywhere);
            return Some(Suspect { path, search: hosts::rules, encodings, unsearched, scope, origin });
        }
        let Kind { search, unsearched, scope, .. } = *kind_of_file(path, origin == Origin::InFolder)?;
        Some(Suspect { path, search, encodings: Encodings::All, unsearched, scope, origin })
    }

    /// Returns how severe access control in the file is, or `None` if it would not protect any page.
    fn severity(&self, root: &Path, pages: &Pages<'_>) -> Option<Severity> {
        let is_nested = path_in_site(self.path).contains(&b'/');
        let is_example = match self.scope {
            Scope::Anywhere | Scope::Code => false,
            Scope::Root => is_nested && pages.are_beside(self.path),
            Scope::Folder => self.origin == Origin::Published || pages.are_beside(self.path),
            Scope::Function if pages.are_beside(self.path) && !is_handler(root, self.path) => return None,
            Scope::Function => false,
        };
        Some(if is_example { Severity::Warning } else { Severity::Error })
    }

    /// Reports the first line with access control, or that the file can't be searched.
    fn report(&self, root: &Path, pages: &Pages<'_>) -> Option<Diagnostic> {
        let severity = self.severity(root, pages)?;
        let full_path = folder_file::full_path(root, self.path);
        let opened = folder_file::open(&full_path);
        // Data can have some of the other names, and may be long.
        let is_configuration = self.unsearched == Unsearched::Fails;
        let piece_bytes = if is_configuration { WHOLE_BYTES } else { PIECE_BYTES };
        let outcome = opened.and_then(|file| pieces::search(file, self.search, self.encodings, piece_bytes));
        match outcome {
            Ok(Outcome::Found((line, subject))) => {
                let message = match severity {
                    Severity::Error => format!(
                        "{subject} is access control, which this server doesn't have, and it doesn't read this file: the pages that \
                         it protects would be public; protect them in a proxy in front, and move this file out of the source folder \
                         (leaving it out with a pattern is not enough)"
                    ),
                    _ => format!(
                        "{subject} is access control, which this server doesn't have: unless this file is just an example, the \
                         pages that it protects are public; protect them in a proxy in front"
                    ),
                };
                let error = RuleError::error(CODE, message).at(&String::from_utf8_lossy(self.path), line);
                Some(Diagnostic { severity, ..error })
            }
            Ok(Outcome::Nothing) => None,
            Ok(Outcome::TooLong) => {
                let severity = match self.unsearched {
                    Unsearched::Fails => severity,
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

    /// Describes why the file can't be read. Returns `None` if it was removed, if it can't be configuration, or if others report
    /// this.
    fn problem(&self, full_path: &Path, error: &io::Error) -> Option<String> {
        if error.kind() != io::ErrorKind::NotFound {
            return Some(format!("cannot be read ({error})"));
        }
        if self.origin == Origin::Published || fs::symlink_metadata(full_path).is_err() {
            return None;
        }
        // Anything may have a name like `headers` or `auth`.
        let is_configuration = self.unsearched == Unsearched::Fails;
        match fs::metadata(full_path) {
            // It was replaced in the meantime, so there will be another build.
            Ok(metadata) if metadata.is_file() => None,
            Ok(metadata) => {
                let may_count = is_configuration && !metadata.is_dir();
                may_count.then(|| format!("is {}", kind_of(&metadata)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                is_configuration.then(|| "is a symlink to nothing".to_owned())
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

/// Folders in the root of a site that have pages, so files in them may be examples.
struct Pages<'s> {
    sources: &'s Sources,
    folders: OnceLock<HashSet<&'s [u8]>>,
}

impl<'s> Pages<'s> {
    fn of(sources: &'s Sources) -> Pages<'s> {
        Pages { sources, folders: OnceLock::new() }
    }

    /// Whether there are pages in the top-level folder that contains the file, or a page with the name of this folder, such as
    /// `nginx.html`.
    fn are_beside(&self, path: &[u8]) -> bool {
        let folders = self.folders.get_or_init(|| {
            let pages = self.sources.files.iter().filter(|file| has_suffix(&file.path, &PAGE_SUFFIXES));
            pages.map(|file| top_folder(&file.path)).collect()
        });
        folders.contains(top_folder(path))
    }
}

/// Returns the folder in the root of the site that contains the file. For a file in the root itself, this is its name without the
/// suffix.
fn top_folder(path: &[u8]) -> &[u8] {
    let in_site = path_in_site(path);
    let start = path.len() - in_site.len();
    let end = in_site.iter().position(|byte| *byte == b'/');
    let end = end.or_else(|| in_site.iter().rposition(|byte| *byte == b'.')).unwrap_or(in_site.len());
    &path[..start + end]
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
    let pages = Pages::of(sources);
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
        .filter_map(|(path, origin)| Suspect::new(path, origin)?.report(&sources.root, &pages))
        .collect();
    diagnostics.extend(found);
    diagnostics
}

/// Returns the kind of a file if its name is typical of configuration.
///
/// In a folder that was left out, only patterns that name the folder count: other files only protect the folder itself, which
/// is not published.
fn kind_of_file(path: &[u8], is_in_folder: bool) -> Option<&'static Kind> {
    let path_in_site = path_in_site(path);
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    if has_suffix(name, &PAGE_SUFFIXES) || has_suffix(name, &DOCUMENT_SUFFIXES) {
        return None;
    }
    let is_match = |pattern: &&str| match pattern.strip_prefix('/') {
        // Patterns such as `/*.conf` are only for the root.
        Some(pattern) if !pattern.contains('/') => {
            !path_in_site.contains(&b'/') && matches(pattern.as_bytes(), name)
        }
        Some(pattern) => matches(pattern.as_bytes(), path_in_site),
        None => !is_in_folder && matches(pattern.as_bytes(), name),
    };
    FILES.iter().find(|kind| {
        let may_count = match kind.scope {
            Scope::Anywhere => true,
            Scope::Root | Scope::Folder => !folders::is_in_package(path),
            Scope::Code | Scope::Function => is_script(name) && !folders::is_in_package(path),
        };
        kind.patterns.iter().any(is_match) && may_count
    })
}

/// Whether the name is that of a script, or of a backup copy.
fn is_script(name: &[u8]) -> bool {
    let copied = COPY_SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix.as_bytes()));
    has_suffix(copied.unwrap_or(name), &SCRIPT_SUFFIXES)
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
