//! Converts kawipiko archives to our format, preserving bodies, paths, statuses and header fields.
//!
//! The input is the list of paths returned by [`kawipiko`]. Ordinary builds start from source files instead, so we can only
//! share their last steps: [`Store`] for bodies and [`Heads`] for heads. Wildcards in kawipiko answer every path in their
//! folder that has no record of its own, so they are converted to rules.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path as FilePath;

use cannery_archive::{
    Coding, Digest, Key, KeyBuffer, NewHead, NewRecord, NewRepresentation, NewRule, NewScope, Origin, Piece,
    SCHEMA_VERSION, Writer,
};
use cannery_site::is_short_lived;
use cannery_wire::response_head::{override_bit, put_field, status_line};
use serde_json::json;

use crate::codings::bounded::DecodeError;
use crate::codings::coders::decode;
use crate::contents::store::Store;
use crate::destination::Destination;
use crate::destination::publish::Staging;
use crate::kawipiko::{self, Kind, Path, ReadError};
use crate::properties::caching::{CacheKind, cache_control};
use crate::records::render::Heads;
use crate::settings::error::Error;
use crate::settings::options::Options;

/// Fields that the server adds itself, or that mustn't be stored with a response.
const OWN_FIELDS: [&str; 9] = [
    "Connection",
    "Content-Length",
    "Content-Range",
    "Date",
    "ETag",
    "Keep-Alive",
    "Server",
    "Trailer",
    "Transfer-Encoding",
];

/// kawipiko also serves pages without these suffixes.
const STRIPPED_SUFFIXES: [&str; 5] = [".html", ".htm", ".xhtml", ".xht", ".txt"];

/// Maximum length of a decoded body. For comparison, all bodies in a kawipiko archive together are
/// shorter than 4 GiB.
const BODY_BYTES_MAX: u64 = 1 << 30;

/// Maximum length of a host name (RFC 1035 §2.3.4).
const HOST_BYTES_MAX: usize = 253;

/// Numbers about an import, and everything that was lost.
#[derive(Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct ImportReport {
    /// Number of paths with content.
    pub files: u64,
    /// Number of redirects.
    pub redirects: u64,
    /// Number of wildcards. They are rules now.
    pub wildcards: u64,
    /// Number of distinct bodies.
    pub bodies: u64,
    /// Total length of the distinct bodies in bytes.
    pub body_bytes: u64,
    /// Length of the archive in bytes.
    pub archive_bytes: u64,
    /// Everything that was lost, by kind, with the paths.
    pub lost: BTreeMap<&'static str, Vec<String>>,
}

impl ImportReport {
    fn lose(&mut self, reason: &'static str, path: &[u8]) {
        self.lost.entry(reason).or_default().push(String::from_utf8_lossy(path).into_owned());
    }
}

/// Converts the kawipiko archive at `input`. `output` will be replaced as a whole, or not at all if
/// this fails.
///
/// # Errors
///
/// Returns an error if the input could not be read or is damaged, or if writing the output has failed.
pub fn import(input: &FilePath, output: &FilePath) -> Result<ImportReport, Error> {
    let file = fs::read(input).map_err(Error::read(input.to_owned()))?;
    let paths = kawipiko::read(&file).map_err(|source| Error::Import { path: input.to_owned(), source })?;

    let options = Options::new(input.to_owned(), output.to_owned());
    let destination = Destination::Path(Staging::beside(output)?);
    let archive = destination.path().to_owned();
    let mut store = Store::begin(destination, options.format, None, 0)?;
    let mut report = ImportReport::default();

    // First store all bodies because heads and paths refer to them.
    let answers = answers(input, &paths, &mut store, &mut report)?;
    let path_bytes: u64 = answers.iter().map(|answer| answer.path.len() as u64 * 2 + 512).sum();
    store.require(path_bytes, answers.len() as u64)?;
    let (mut writer, destination, _) = store.into_parts()?;

    // Lines are numbered by frequency, so count all heads before writing the first.
    let mut heads = Heads::new(&options, &[]);
    answers.iter().filter_map(|answer| answer.head()).for_each(|head| heads.note_head(head.clone()));
    heads.number();
    write(&answers, &mut heads, &mut writer, &mut report).map_err(Error::write(&archive))?;

    // kawipiko has its own records for redirects between paths with and without a slash.
    writer.disable_slash_redirects();
    let manifest = json!({
        "schema": SCHEMA_VERSION,
        "tool": concat!("cannery ", env!("CARGO_PKG_VERSION")),
        "imported": "kawipiko-2022a",
        "files": report.files,
        "redirects": report.redirects,
        "rules": report.wildcards,
    });
    writer.manifest(manifest.to_string().as_bytes()).map_err(Error::write(&archive))?;

    let (file, written) = writer.finish().map_err(Error::write(&archive))?;
    report.bodies = written.facts.bodies;
    report.body_bytes = written.facts.body_bytes;
    report.archive_bytes = written.facts.file_bytes;
    destination.publish(file)?;
    Ok(report)
}

/// The answer to a path. Its body is in the archive already.
struct Answer<'a> {
    host: Option<&'a str>,
    /// Starts with `/`. For wildcards, this is the folder.
    path: &'a [u8],
    kind: AnswerKind<'a>,
}

enum AnswerKind<'a> {
    File { status: u16, origin: Origin, is_wildcard: bool, representation: Content },
    Redirect { status: u16, location: &'a str },
}

/// A stored body, and a head that is yet to be written.
struct Content {
    coding: Coding,
    body: cannery_archive::BodyId,
    etag: cannery_archive::ETag,
    head: NewHead,
}

impl Answer<'_> {
    fn head(&self) -> Option<&NewHead> {
        match &self.kind {
            AnswerKind::File { representation, .. } => Some(&representation.head),
            AnswerKind::Redirect { .. } => None,
        }
    }
}

/// Stores all bodies. Returns the answers that we can convert.
fn answers<'a>(
    input: &FilePath,
    paths: &[Path<'a>],
    store: &mut Store,
    report: &mut ImportReport,
) -> Result<Vec<Answer<'a>>, Error> {
    let files: HashMap<&[u8], &[u8]> =
        paths.iter().filter(|path| path.kind == Kind::File).map(|path| (path.path, path.reference)).collect();

    let mut answers = Vec::new();
    let mut seen = HashSet::new();
    let mut checked = HashSet::new();
    for found in paths {
        if found.kind == Kind::Listing {
            report.lose("a folder listing, which kawipiko does not serve either", found.path);
            continue;
        }
        let Some((host, path)) = split_host(found.path) else {
            report.lose("a path that no request can have, or that is too long", found.path);
            continue;
        };

        let is_wildcard = found.kind == Kind::File && path.ends_with(b"/*");
        let path = if is_wildcard { &path[..path.len() - 1] } else { path };
        // kawipiko looks up files first, so a redirect from the same path never applies.
        if found.kind == Kind::Redirect && files.contains_key(found.path)
            || !seen.insert((host, path, is_wildcard))
        {
            report.lose("a redirect from the path of a file, which takes precedence", found.path);
            continue;
        }

        let kind = match found.kind {
            Kind::Redirect => redirect(found, report),
            Kind::File | Kind::Listing => {
                // If the same content has a name with a suffix as well, then this name was created by kawipiko, by
                // removing the suffix.
                let has_suffix = |suffix: &&str| {
                    let with_suffix = [found.path, suffix.as_bytes()].concat();
                    files.get(with_suffix.as_slice()) == Some(&found.reference)
                };
                let is_alias = path.ends_with(b"/") || STRIPPED_SUFFIXES.iter().any(has_suffix);
                let origin = if is_alias { Origin::Alias } else { Origin::File };
                check_body(found, &mut checked)
                    .map_err(|source| Error::Import { path: input.to_owned(), source })?;
                content(found, is_wildcard, store, report)?.map(|representation| AnswerKind::File {
                    status: found.status,
                    origin,
                    is_wildcard,
                    representation,
                })
            }
        };

        answers.extend(kind.map(|kind| Answer { host, path, kind }));
    }
    Ok(answers)
}

/// Splits a path into host, if any, and the rest, starting with `/`.
///
/// Returns `None` if the path cannot be used as a key.
fn split_host(path: &[u8]) -> Option<(Option<&str>, &[u8])> {
    let (host, path) = match path.strip_prefix(b"://") {
        Some(rest) => {
            let slash = rest.iter().position(|byte| *byte == b'/')?;
            let host = std::str::from_utf8(&rest[..slash]).ok()?;
            let is_host =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
            let is_valid = !host.is_empty() && host.len() <= HOST_BYTES_MAX && host.bytes().all(is_host);
            (Some(host).filter(|_| is_valid)?.into(), &rest[slash..])
        }
        None => (None, path),
    };

    let inner = path.strip_prefix(b"/")?;
    let segments = inner.strip_suffix(b"/").unwrap_or(inner);
    let is_invalid = |segment: &[u8]| matches!(segment, b"" | b"." | b"..") || segment.contains(&0);
    if !inner.is_empty() && segments.split(|byte| *byte == b'/').any(is_invalid) {
        return None;
    }
    // Finally, the key may still be too long.
    Key::from_file(inner, &mut KeyBuffer::new()).ok()?;
    Some((host, path))
}

fn redirect<'a>(found: &Path<'a>, report: &mut ImportReport) -> Option<AnswerKind<'a>> {
    let location = found.fields.iter().find(|(name, _)| *name == "Location").map(|(_, value)| *value);
    let (Some(location), 301 | 302 | 303 | 307 | 308) = (location, found.status) else {
        report.lose(
            "a redirect with another status than 301, 302, 303, 307 and 308, or without a target",
            found.path,
        );
        return None;
    };
    if found.fields.iter().any(|(name, _)| *name != "Location") {
        report.lose("other fields than `Location` of a redirect, such as `Cache-Control`", found.path);
    }
    Some(AnswerKind::Redirect { status: found.status, location })
}

/// Returns the coding of a body, unless it's unknown.
fn coding_of(found: &Path<'_>) -> Option<Coding> {
    let name = found.fields.iter().find(|(name, _)| *name == "Content-Encoding").map(|(_, value)| *value);
    Coding::ALL.into_iter().find(|coding| coding.name() == name.unwrap_or("identity"))
}

/// Checks that a body can be decoded.
///
/// The format does not contain checksums, so without this clients might get damaged bytes. We only check shared bodies
/// once.
fn check_body(found: &Path<'_>, checked: &mut HashSet<(*const u8, Coding)>) -> Result<(), ReadError> {
    let Some(coding) = coding_of(found) else { return Ok(()) };
    if !checked.insert((found.body.as_ptr(), coding)) {
        return Ok(());
    }
    let what = match decode(coding, found.body, BODY_BYTES_MAX) {
        Ok(_) => return Ok(()),
        Err(DecodeError::Damaged) => "a body that cannot be decoded",
        Err(DecodeError::TooLong | DecodeError::OutOfMemory) => "a body that is too long when it is decoded",
    };
    Err(ReadError::Reference { what, path: String::from_utf8_lossy(found.path).into_owned() })
}

/// Returns the `Cache-Control` of an error, or of a page that stands in for other paths. It must not outlive the next release for
/// long, because the paths may exist there. In kawipiko, everything is `immutable` by default.
fn stand_in_caching(value: &str, status: u16) -> Cow<'_, str> {
    if is_short_lived(value.as_bytes()) {
        return value.into();
    }
    let directives = value.split(',').map(str::trim);
    let others = directives.filter(|directive| !directive.eq_ignore_ascii_case("immutable"));
    let others = others.collect::<Vec<_>>().join(", ");
    if is_short_lived(others.as_bytes()) && !others.is_empty() {
        return others.into();
    }
    if status >= 400 { "no-store".into() } else { cache_control(CacheKind::Entry, false).into() }
}

/// Stores a body and renders its head.
fn content(
    found: &Path<'_>,
    is_wildcard: bool,
    store: &mut Store,
    report: &mut ImportReport,
) -> Result<Option<Content>, Error> {
    let Some(coding) = coding_of(found) else {
        report.lose("content in a coding other than gzip, br and zstd", found.path);
        return Ok(None);
    };

    let mut content_type = Vec::new();
    let mut representation = Vec::new();
    let mut resource = Vec::new();
    let mut overrides = 0;
    // If identity is not available, clients can reject the only coding, so the response depends on
    // `Accept-Encoding`.
    let is_negotiable = coding != Coding::Identity;
    let mut vary = vec![if is_negotiable { "Accept-Encoding" } else { "" }];

    for (name, value) in &found.fields {
        match *name {
            "Content-Encoding" | "Accept-Ranges" => {}
            "Content-Type" => put_field(&mut content_type, name, value.as_bytes()),
            "Vary" => vary.push(value),
            "ETag" => {
                report.lose("an `ETag` of kawipiko, in place of which the server sends its own", found.path);
            }
            name if OWN_FIELDS.contains(&name) => {
                report.lose("a field that the server makes itself, such as `Date`", found.path);
            }
            name => {
                let is_stand_in = is_wildcard || found.status >= 400;
                let kept = if is_stand_in && name == "Cache-Control" {
                    stand_in_caching(value, found.status)
                } else {
                    Cow::Borrowed(*value)
                };
                if kept != *value {
                    report.lose(
                        "`immutable`, or a lifetime of more than an hour, of an error or of a page for other paths",
                        found.path,
                    );
                }
                overrides |= override_bit(name);
                put_field(&mut resource, name, kept.as_bytes());
            }
        }
    }

    if is_negotiable {
        put_field(&mut representation, "Content-Encoding", coding.name().as_bytes());
        report.lose(
            "the response to a client that accepts only identity: there is only a compressed body",
            found.path,
        );
    }
    vary.retain(|names| !names.is_empty());
    if !vary.is_empty() {
        put_field(&mut resource, "Vary", vary.join(", ").as_bytes());
    }
    if found.status == 200 {
        put_field(&mut resource, "Accept-Ranges", b"bytes");
    }

    let digest = Digest::of(found.body);
    Ok(Some(Content {
        coding,
        body: store.body(&digest, found.body)?,
        etag: digest.etag(),
        head: NewHead {
            status: found.status,
            sends_etag: true,
            overrides,
            status_line: status_line(found.status),
            content_type,
            representation,
            resource,
            hpack: Default::default(),
            qpack: Default::default(),
        },
    }))
}

/// Writes all records except bodies and the manifest.
fn write(
    answers: &[Answer<'_>],
    heads: &mut Heads<'_>,
    writer: &mut Writer,
    report: &mut ImportReport,
) -> Result<(), cannery_archive::WriteError> {
    let mut buffer = KeyBuffer::new();

    // Wildcards by site, and their folders. There must be an entry for every host, because each host needs a
    // root scope.
    let mut sites: BTreeMap<Option<&str>, Vec<(&[u8], NewRecord<'_>)>> = BTreeMap::new();
    for answer in answers {
        let wildcards = sites.entry(answer.host).or_default();

        let record = match &answer.kind {
            AnswerKind::Redirect { status, location } => {
                report.redirects += 1;
                let (target, fragment) = location.split_once('#').unwrap_or((location, ""));
                NewRecord::Redirect {
                    status: *status,
                    has_query: target.contains('?'),
                    fragment: fragment.as_bytes(),
                    target: vec![Piece::Literal(target.as_bytes())],
                }
            }
            AnswerKind::File { status, origin, is_wildcard, representation } => {
                let Content { coding, body, etag, head } = representation;
                let head = heads.write(writer, head.clone())?;
                let representations =
                    vec![NewRepresentation { coding: *coding, etag: *etag, body: *body, head }];

                // Wildcards do not have a path of their own, so they become rules.
                let origin = if *is_wildcard { Origin::Rule } else { *origin };
                let record = NewRecord::Resource { status: *status, origin, modified: None, representations };
                if *is_wildcard {
                    report.wildcards += 1;
                    wildcards.push((answer.path, record));
                    continue;
                }
                report.files += 1;
                record
            }
        };

        // The path has already been checked in `split_host`.
        let Ok(key) = Key::from_file(&answer.path[1..], &mut buffer) else { continue };
        writer.path(answer.host, key, &record)?;
    }

    for (host, mut wildcards) in sites {
        // The first matching rule wins, so sort the deepest folders first.
        wildcards.sort_by_key(|(folder, _)| (std::cmp::Reverse(folder.len()), *folder));
        let rules = (0..).zip(wildcards).map(|(ordinal, (folder, record))| NewRule {
            ordinal,
            force: false,
            pages_only: false,
            pattern: [Piece::Literal(&folder[1..]), Piece::Splat(0)]
                .into_iter()
                .filter(|piece| *piece != Piece::Literal(b""))
                .collect(),
            record,
        });
        let scope = NewScope { rules: rules.collect(), ..NewScope::default() };
        let Ok(root) = Key::from_file(b"", &mut buffer) else { continue };
        writer.scope(host, root, &scope)?;
    }
    Ok(())
}
