//! Warns about code and configuration for other hosts, about files from the project around a site, and about
//! backup copies.
//!
//! Some of these names are quite ordinary (e.g. documentation may publish a `Dockerfile`), so they only count in the
//! root of a site.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::ground::diagnostic::Diagnostic;
use crate::hosts::site_path::{Site, site_of};
use crate::sources::source::Sources;
use crate::tree::folder_file;

/// Maximum number of files of one kind that are reported individually.
const REPORTED_MAX: usize = 5;

/// Number of bytes at the start of a script in which we look for code.
const CODE_BYTES_MAX: u64 = 4096;

/// Folders with serverless functions in the root of a site, and the host that would run them.
const FUNCTION_FOLDERS: [(&str, &str); 5] = [
    ("api/", "Vercel"),
    ("functions/", "Cloudflare Pages or Firebase"),
    ("netlify/edge-functions/", "Netlify"),
    ("netlify/functions/", "Netlify"),
    ("supabase/functions/", "Supabase"),
];

/// Suffixes of functions.
const FUNCTION_SUFFIXES: [&str; 11] =
    [".cjs", ".cts", ".go", ".js", ".jsx", ".mjs", ".mts", ".py", ".rb", ".ts", ".tsx"];

/// Code of server pages.
const SERVER_CODE_SUFFIXES: [&str; 22] = [
    ".ascx", ".ashx", ".asmx", ".asp", ".aspx", ".cfc", ".cfm", ".cgi", ".fcgi", ".inc", ".jsp", ".jspx",
    ".phar", ".php", ".php3", ".php4", ".php5", ".php7", ".php8", ".phps", ".phtml", ".pl",
];

/// Suffixes that editors, merges and careful people append to a copy.
const BACKUP_SUFFIXES: [&str; 18] = [
    ",v",
    ".backup",
    ".bak",
    ".bck",
    ".bkp",
    ".dpkg-dist",
    ".dpkg-new",
    ".dpkg-old",
    ".mine",
    ".old",
    ".orig",
    ".rej",
    ".rpmnew",
    ".rpmorig",
    ".rpmsave",
    ".save",
    ".swo",
    ".swp",
];

/// Texts, in lower case, that desktop systems and synchronization programs put into the names of
/// copies.
const COPY_MARKS: [&str; 5] = [" (copy)", " - copy (", " - copy.", ".sync-conflict-", "conflicted copy"];

/// Log rotation adds these suffixes.
const ROTATED_SUFFIXES: [&str; 4] = [".bz2", ".gz", ".xz", ".zst"];

/// Configuration of other servers in the root of a site.
const SERVER_FILES: [&str; 23] = [
    "amplify.yaml",
    "amplify.yml",
    "apache2.conf",
    "app.yaml",
    "app.yml",
    "caddyfile",
    "customhttp.yml",
    "fly.toml",
    "httpd.conf",
    "lighttpd.conf",
    "netlify.yaml",
    "netlify.yml",
    "nginx.conf",
    "render.yaml",
    "serve.json",
    "static.json",
    "staticfile",
    "vercel.js",
    "vercel.mjs",
    "vercel.ts",
    "web.config",
    "wrangler.json",
    "wrangler.jsonc",
];

/// Files in the root of a project. If a site folder contains one of them, it is likely the wrong
/// folder.
const PROJECT_FILES: [&str; 13] = [
    "bun.lockb",
    "compose.yaml",
    "compose.yml",
    "composer.json",
    "dockerfile",
    "gemfile",
    "jenkinsfile",
    "package-lock.json",
    "pnpm-lock.yaml",
    "procfile",
    "pyproject.toml",
    "tsconfig.json",
    "vagrantfile",
];

/// A kind of file we report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Worker,
    ServerFile,
    ServerCode,
    ProjectFile,
    Backup,
    Log,
    Unfinished,
}

impl Kind {
    fn code(self) -> &'static str {
        match self {
            Kind::Worker | Kind::ServerFile | Kind::ServerCode => "foreign-configuration",
            Kind::ProjectFile | Kind::Backup | Kind::Log | Kind::Unfinished => "private-file",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Kind::Worker => {
                "is part of a worker of Cloudflare Pages, which this server does not run, and is published"
            }
            Kind::ServerFile => "is configuration of another server, has no effect here, and is published",
            Kind::ServerCode => {
                "is server code, which this server does not run: its source text is published"
            }
            Kind::ProjectFile => "looks like a file of the project around the site, and is published",
            Kind::Backup => "looks like a backup copy, and is published",
            Kind::Log => "looks like an old log, and is published",
            Kind::Unfinished => "looks like an unfinished download, and is published",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Kind::Worker => "parts of workers",
            Kind::ServerFile => "configuration files of other servers",
            Kind::ServerCode => "files of server code",
            Kind::ProjectFile => "files of the project around the site",
            Kind::Backup => "backup copies",
            Kind::Log => "old logs",
            Kind::Unfinished => "unfinished downloads",
        }
    }
}

/// A folder that may contain functions.
#[derive(Default)]
struct FunctionFolder<'s> {
    path: &'s [u8],
    host: &'static str,
    has_functions: bool,
    /// Whether a script can only be a function.
    has_handlers: bool,
    has_pages: bool,
}

/// Warns about files for other hosts.
pub(super) fn find(sources: &Sources) -> Vec<Diagnostic> {
    let mut found: BTreeMap<Kind, Vec<&[u8]>> = BTreeMap::new();
    let mut folders: BTreeMap<&[u8], FunctionFolder<'_>> = BTreeMap::new();
    for file in &sources.files {
        let (Site::Default(path) | Site::Host(_, path)) = site_of(&file.path) else { continue };
        if let Some((folder, host)) =
            FUNCTION_FOLDERS.iter().find(|(folder, _)| path.starts_with(folder.as_bytes()))
        {
            let full_path = &file.path[..file.path.len() - path.len() + folder.len() - 1];
            let entry = folders.entry(full_path).or_default();
            entry.path = full_path;
            entry.host = host;
            entry.has_pages |= has_suffix(path, &[".html", ".htm"]);
            // Many sites keep data in `api/`.
            entry.has_functions |= has_suffix(path, &FUNCTION_SUFFIXES)
                && (*folder != "api/" || is_function(&sources.root, &file.path));
            entry.has_handlers |=
                has_suffix(path, &FUNCTION_SUFFIXES) && is_handler(&sources.root, &file.path);
        }
        if let Some(kind) = kind_of(path, &file.path, sources) {
            found.entry(kind).or_default().push(&file.path);
        }
    }

    let functions = folders
        .into_values()
        .filter(|folder| folder.has_handlers || folder.has_functions && !folder.has_pages);
    let mut diagnostics: Vec<Diagnostic> = functions
        .map(|folder| {
            let message = format!(
                "looks like a folder of functions of {}, which this server does not run: their source text is published; leave it \
                 out with `--ignore`",
                folder.host
            );
            Diagnostic::warning_that(folder.path, "foreign-configuration", message)
        })
        .collect();
    for (kind, paths) in found {
        for path in paths.iter().take(REPORTED_MAX) {
            let message = format!("{}; leave it out with `--ignore`", kind.text());
            diagnostics.push(Diagnostic::warning_that(path, kind.code(), message));
        }
        if let Some(more) = paths.len().checked_sub(REPORTED_MAX).filter(|more| *more > 0) {
            let message = format!("{more} more {} are published", kind.plural());
            diagnostics.push(Diagnostic::warning(b".", kind.code(), message));
        }
    }
    diagnostics
}

/// Classifies a file by its path within a site.
fn kind_of(path: &[u8], full_path: &[u8], sources: &Sources) -> Option<Kind> {
    let is_in_root = !path.contains(&b'/');
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    if name == b"_worker.js" || is_in_root && name == b"_routes.json" || path.starts_with(b"_worker.js/") {
        return Some(Kind::Worker);
    }
    if has_suffix(name, &SERVER_CODE_SUFFIXES) && !is_saved_page(&sources.root, full_path) {
        return Some(Kind::ServerCode);
    }

    let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
    if is_backup(path, &lower) {
        return Some(Kind::Backup);
    }
    if is_old_log(&lower) {
        return Some(Kind::Log);
    }
    // Browsers save a page's scripts under such names.
    if let Some(name) = lower.strip_suffix(".download")
        && !has_suffix(name.as_bytes(), &[".css", ".htm", ".html", ".js", ".mjs"])
        && name.contains('.')
    {
        return Some(Kind::Unfinished);
    }

    if !is_in_root {
        return None;
    }
    if SERVER_FILES.contains(&lower.as_str()) {
        return Some(Kind::ServerFile);
    }

    let is_variant = lower.starts_with("docker-compose.") || lower.starts_with("dockerfile.");
    // Packages for browsers are published together with their `package.json`.
    let is_project = lower == "package.json" && {
        let start = start_of(&sources.root, full_path);
        start.contains("\"scripts\"") || start.contains("\"devDependencies\"")
    };
    (is_variant || is_project || PROJECT_FILES.contains(&lower.as_str())).then_some(Kind::ProjectFile)
}

/// Returns `true` if a name (in lower case) looks like a copy.
///
/// This includes numbered copies such as `a.html.bak2` or `config.php.1`.
fn is_backup(path: &[u8], lower: &str) -> bool {
    let unnumbered = lower.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let is_numbered_code =
        unnumbered.strip_suffix('.').is_some_and(|name| has_suffix(name.as_bytes(), &SERVER_CODE_SUFFIXES));
    has_suffix(lower.as_bytes(), &BACKUP_SUFFIXES)
        || has_suffix(unnumbered.as_bytes(), &[".backup", ".bak", ".old", ".orig"])
        || unnumbered.len() < lower.len() && is_numbered_code
        || COPY_MARKS.iter().any(|mark| lower.contains(mark))
        || path.rsplit(|byte| *byte == b'/').nth(1) == Some(b"CVS")
}

/// Whether a name (in lower case) looks like a rotated log such as `a.log.1`, `a.log.2.gz` or
/// `a.log-20260101`.
fn is_old_log(lower: &str) -> bool {
    let name = ROTATED_SUFFIXES.iter().find_map(|suffix| lower.strip_suffix(suffix)).unwrap_or(lower);
    let name = name.trim_end_matches(|digit: char| digit.is_ascii_digit()).trim_end_matches(['.', '-']);
    name.len() < lower.len() && name.len() > 4 && name.ends_with(".log")
}

pub(crate) fn has_suffix(path: &[u8], suffixes: &[&str]) -> bool {
    suffixes.iter().any(|suffix| {
        path.len() > suffix.len() && path[path.len() - suffix.len()..].eq_ignore_ascii_case(suffix.as_bytes())
    })
}

/// Returns `true` if a script handles requests.
fn is_function(root: &Path, path: &[u8]) -> bool {
    const MARKS: [&str; 5] =
        ["export default", "module.exports", "exports.handler", "export function", "export async function"];
    let start = start_of(root, path);
    MARKS.iter().any(|mark| start.contains(mark)) || has_suffix(path, &[".go", ".py", ".rb", ".ts"])
}

/// Whether a script contains the entry point of a function. If so, it is not part of the pages
/// next to it.
pub(crate) fn is_handler(root: &Path, path: &[u8]) -> bool {
    const MARKS: [&str; 5] = [
        "exports.handler",
        "export const handler",
        "firebase-functions",
        "function onRequest",
        "const onRequest",
    ];
    let start = start_of(root, path);
    MARKS.iter().any(|mark| start.contains(mark))
}

/// Returns `true` for a saved page that is still named after the script it came from.
fn is_saved_page(root: &Path, path: &[u8]) -> bool {
    let start = start_of(root, path).to_ascii_lowercase();
    let text = start.trim_start_matches('\u{feff}').trim_start();
    (text.starts_with("<!doctype") || text.starts_with("<html"))
        && !start.contains("<?php")
        && !start.contains("<?=")
        && !start.contains("<%")
}

fn start_of(root: &Path, path: &[u8]) -> String {
    let mut start = Vec::new();
    // Read errors are reported elsewhere.
    let _ = folder_file::open(&folder_file::full_path(root, path))
        .and_then(|file| file.take(CODE_BYTES_MAX).read_to_end(&mut start));
    String::from_utf8_lossy(&start).into_owned()
}
