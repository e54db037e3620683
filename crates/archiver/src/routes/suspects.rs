//! Warns about files that are probably not meant to be public, and about names that can be mistaken for
//! special names.
//!
//! Most checks only look at names; files are only opened if they may contain a private key. Nothing is
//! left out.

mod firebase;
pub(crate) mod foreign;
pub(crate) mod left_out;

use std::fmt::Display;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cannery_archive::{SCHEMA_PREFIX_BYTES, has_schema_version};

use crate::ground::diagnostic::Diagnostic;
use crate::properties::special::{self, Role};
use crate::settings::options::Options;
use crate::sources::source::Sources;
use crate::tree::folder_file;

/// Names (in any letter case) that are easily mistaken for a special name, and the special name
/// itself.
const NEAR_MISSES: [(&str, &str); 11] = [
    ("_header", "_headers"),
    ("_header.txt", "_headers"),
    ("_headers", "_headers"),
    ("_headers.toml", "_headers"),
    ("_headers.txt", "_headers"),
    ("_redirect", "_redirects"),
    ("_redirect.txt", "_redirects"),
    ("_redirects", "_redirects"),
    ("_redirects.toml", "_redirects"),
    ("headers.txt", "_headers"),
    ("redirects.txt", "_redirects"),
];

/// Folders in the root that are easily mistaken for `_hosts/`.
const HOST_NEAR_MISSES: [&str; 2] = ["_host", "_hosts"];

/// Configuration for hosting providers, which does not have any effect here.
const FOREIGN_CONFIGURATION: [&str; 9] = [
    ".htaccess",
    ".htpasswd",
    "_config.yml",
    "firebase.json",
    "netlify.toml",
    "now.json",
    "staticwebapp.config.json",
    "vercel.json",
    "wrangler.toml",
];

/// Suffixes of databases and database dumps.
const DATABASE_SUFFIXES: [&str; 14] = [
    ".accdb", ".db", ".db3", ".dump", ".mdb", ".rdb", ".sql", ".sql.bz2", ".sql.gz", ".sql.xz", ".sql.zip",
    ".sql.zst", ".sqlite", ".sqlite3",
];

/// Lower-case names of settings that contain passwords or keys.
const SECRET_NAMES: [&str; 10] = [
    "filezilla.xml",
    "local.settings.json",
    "secrets.json",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
    "serviceaccountkey.json",
    "sftp-config.json",
    "sftp.json",
    "sitemanager.xml",
];

/// Suffixes of settings and state files that contain passwords or keys.
const SECRET_SUFFIXES: [&str; 8] =
    [".jks", ".kdbx", ".keystore", ".ovpn", ".pfx", ".tfstate", ".tfstate.backup", ".tfvars"];

/// Suffixes of small text files that may contain a private key anywhere.
const DATA_SUFFIXES: [&str; 9] =
    [".cfg", ".conf", ".ini", ".json", ".properties", ".toml", ".xml", ".yaml", ".yml"];

/// Maximum size of these files.
const DATA_BYTES_MAX: u64 = 64 * 1024;

/// Suffixes of files that may contain a private key.
const KEY_SUFFIXES: [&str; 6] = [".crt", ".key", ".p8", ".pem", ".pk8", ".ppk"];

/// Number of bytes at the start of a file that are searched for a private key.
const KEY_BYTES_MAX: u64 = 4096;

/// Folder for packages of build tools. Pages do not need these.
const PACKAGES: &[u8] = b"node_modules";

/// Suffixes of files compressed by a build tool.
const CODED_SUFFIXES: [&[u8]; 3] = [b".br", b".gz", b".zst"];

/// Returns a warning for each suspicious file.
pub(crate) fn find(sources: &Sources, options: &Options) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for folder in &sources.folders {
        let (parents, name) = split(folder);
        if name == PACKAGES && !parents.split(|byte| *byte == b'/').any(|part| part == PACKAGES) {
            let message = "is published with all packages in it; leave it out with `--ignore node_modules`";
            found.push(warning(folder, "private-file", message));
        }
        if matches!(special::role(name), Role::Redirects | Role::Headers) {
            let message =
                "is a folder, so it has no effect as a rule file and is published; give it another name";
            found.push(warning(folder, "near-miss", message));
        }
        let is_near = HOST_NEAR_MISSES.iter().any(|near| folder.eq_ignore_ascii_case(near.as_bytes()));
        if is_near && **folder != *b"_hosts" {
            found.push(warning(
                folder,
                "near-miss",
                "is published as an ordinary folder; sites of hosts belong in `_hosts/`",
            ));
        }
    }

    for file in &sources.files {
        let (parents, name) = split(&file.path);
        if parents.split(|byte| *byte == b'/').any(|part| part == PACKAGES) {
            continue;
        }

        found.extend(examine(&sources.root, &file.path, name));
        if options.media_types.of(&file.path).text == "application/octet-stream"
            && is_archive(sources, &file.path)
        {
            let message = "is an archive of a site, perhaps an earlier one of this site, and is published; leave it out with \
                           `--ignore`, or move it out of the folder";
            found.push(warning(&file.path, "private-file", message));
        }
    }

    found.append(&mut foreign::find(sources));
    found.append(&mut left_out::find(sources));
    found.append(&mut firebase::find(sources));
    found.extend(coded_copies(sources, options));
    found
}

/// Notes files that were compressed by a build tool while their originals are still next to them. There should
/// only be a single note about all of these.
fn coded_copies(sources: &Sources, options: &Options) -> Option<Diagnostic> {
    let is_copy = |path: &[u8]| {
        let original = CODED_SUFFIXES.iter().find_map(|suffix| path.strip_suffix(*suffix))?;
        let is_beside = sources.files.binary_search_by(|file| (*file.path).cmp(original)).is_ok();
        (is_beside && options.media_types.of(original).compress).then_some(())
    };

    let mut copies = (0..)
        .zip(&sources.files)
        .filter(|(id, file)| !sources.precompressed.contains_key(id) && is_copy(&file.path).is_some());
    let (_, first) = copies.next()?;

    let path = String::from_utf8_lossy(&first.path);
    let (count, verb) = match copies.count() {
        0 => (format!("`{path}` is a compressed copy"), "is"),
        more => (format!("`{path}` and {more} more files are compressed copies"), "are"),
    };
    let suffix = String::from_utf8_lossy(&first.path).rsplit('.').next().unwrap_or_default().to_owned();
    let message = format!(
        "{count} of the file beside it, and {verb} published under its own name; the archiver compresses by itself, so leave such \
         files out with `--ignore '*.{suffix}'`"
    );
    Some(Diagnostic::note(&first.path, "compressed-copy", message))
}

/// Whether a file begins like an archive.
fn is_archive(sources: &Sources, path: &[u8]) -> bool {
    let mut start = Vec::new();
    let read = folder_file::open(&folder_file::full_path(&sources.root, path))
        .and_then(|file| file.take(SCHEMA_PREFIX_BYTES as u64).read_to_end(&mut start));
    read.is_ok() && has_schema_version(&start)
}

/// Checks whether the name of a file is suspicious or, for key files, its start.
fn examine(root: &Path, path: &[u8], name: &[u8]) -> Option<Diagnostic> {
    let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
    if let Some((_, meant)) = NEAR_MISSES.iter().find(|(near, _)| lower == *near)
        && name != meant.as_bytes()
    {
        return Some(warning(
            path,
            "near-miss",
            format!("is published as an ordinary file; rules belong in `{meant}`"),
        ));
    }

    if FOREIGN_CONFIGURATION.contains(&lower.as_str()) {
        let message = "is configuration of another hosting service, has no effect here, and is published; leave it out with \
                       `--ignore`";
        return Some(warning(path, "foreign-configuration", message));
    }

    let suspicion = if lower == "env"
        || lower.starts_with(".env")
        || lower.ends_with(".env")
        || lower.starts_with("env.")
        || SECRET_NAMES.contains(&lower.as_str())
        || SECRET_SUFFIXES.iter().any(|suffix| lower.ends_with(suffix))
    {
        Some("looks like settings that contain secrets")
    } else if DATABASE_SUFFIXES.iter().any(|suffix| lower.ends_with(suffix)) {
        Some("looks like a database or a dump of one")
    } else if may_be_key(&lower) && is_private_key(&root.join(std::ffi::OsStr::from_bytes(path))) {
        Some("is a private key")
    } else if DATA_SUFFIXES.iter().any(|suffix| lower.ends_with(suffix))
        && has_private_key(&root.join(std::ffi::OsStr::from_bytes(path)))
    {
        Some("contains a private key")
    } else {
        None
    };
    suspicion.map(|text| {
        warning(path, "private-file", format!("{text}, and is published; leave it out with `--ignore`"))
    })
}

fn may_be_key(lower: &str) -> bool {
    lower.starts_with("id_")
        || !lower.contains('.')
        || KEY_SUFFIXES.iter().any(|suffix| lower.ends_with(suffix))
}

/// Whether a file starts with a private key in PEM (RFC 7468 §10) or PuTTY format.
///
/// Read errors are ignored here, as they are reported elsewhere.
fn is_private_key(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = folder_file::open(path).and_then(|file| file.take(KEY_BYTES_MAX).read_to_end(&mut start));
    let text = String::from_utf8_lossy(&start);
    let mut lines = text.lines();
    read.is_ok()
        && lines.any(|line| {
            line.starts_with("-----BEGIN ") && line.contains("PRIVATE KEY-----")
                || line.starts_with("PuTTY-User-Key-File-")
        })
}

/// Whether a small text file contains a private key in PEM format, e.g. as a JSON value.
fn has_private_key(path: &Path) -> bool {
    let Ok(file) = folder_file::open(path) else { return false };
    if file.metadata().is_ok_and(|metadata| metadata.len() > DATA_BYTES_MAX) {
        return false;
    }
    let mut bytes = Vec::new();
    let read = file.take(DATA_BYTES_MAX).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    read.is_ok()
        && text
            .split("-----BEGIN ")
            .skip(1)
            .any(|rest| rest.split("-----").next().is_some_and(|label| label.ends_with("PRIVATE KEY")))
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

fn warning(path: &[u8], code: &'static str, message: impl Display) -> Diagnostic {
    Diagnostic::warning_that(path, code, message)
}
