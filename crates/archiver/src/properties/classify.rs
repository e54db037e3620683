//! Media types by file name: a built-in table, and the user's overrides.
//!
//! Only the name is taken into account. If [`MediaType::charset`] is set, the caller must check that the content
//! is valid UTF-8.

mod table;

use std::borrow::Cow;
use std::collections::BTreeMap;

use table::TABLE;

/// Properties of a media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaType<'a> {
    /// The type without parameters, for example `text/html`. Overrides may have parameters.
    pub text: &'a str,
    /// Whether to add `; charset=utf-8` when the content is valid UTF-8.
    pub charset: bool,
    /// Whether to compress it. This should be `false` for formats that already use compression.
    pub compress: bool,
}

/// The built-in table and overrides.
#[derive(Clone, Debug, Default)]
pub struct MediaTypes {
    overrides: BTreeMap<String, Override>,
}

#[derive(Clone, Debug)]
struct Override {
    text: String,
    charset: bool,
    compress: bool,
}

impl MediaTypes {
    /// Adds an override with the form `EXT=TYPE` such as `ts=text/plain` or `.geo=application/geo+json`. An existing override
    /// for the same extension is replaced.
    ///
    /// When the table has a row for this type, then other properties are taken from there; otherwise, they are those of
    /// the type's family. Parameters of the type are kept.
    ///
    /// # Errors
    ///
    /// Returns an error if the text does not have this form or if TYPE is not a media type (RFC 9110 §8.3.1).
    pub fn set(&mut self, assignment: &str) -> Result<(), MediaTypeError> {
        let error = || MediaTypeError { assignment: assignment.to_owned() };
        let (extension, text) = assignment.split_once('=').ok_or_else(error)?;
        let extension = extension.strip_prefix('.').unwrap_or(extension).to_ascii_lowercase();
        if extension.is_empty() || extension.contains(['.', '/']) || !is_media_type(text) {
            return Err(error());
        }
        let essence = essence(text).to_ascii_lowercase();
        let known = TABLE.iter().find(|row| row.1.text == essence).map(|row| row.1);
        let row = known.unwrap_or_else(|| by_family(&essence));
        let charset = row.charset && !text.contains(';');
        let text = text.to_owned();
        self.overrides.insert(extension, Override { text, charset, compress: row.compress });
        Ok(())
    }

    /// Determines the type of the file at `path`. The path should be relative to the source root.
    pub fn of(&self, path: &[u8]) -> MediaType<'_> {
        let mut buffer = [0; SHORT_BYTES_MAX];
        let Some(extension) = lower_case_extension(file_name(path), &mut buffer) else {
            return from_bare_name(path);
        };
        if let Some(row) = self.overrides.get(&*extension) {
            return MediaType { text: &row.text, charset: row.charset, compress: row.compress };
        }
        let beginning = beginning(extension.as_bytes());
        let first = BEGINNINGS.partition_point(|other| *other < beginning);
        let rows = TABLE[first..].iter().zip(&BEGINNINGS[first..]);
        let mut rows = rows.take_while(|(_, other)| **other == beginning).map(|(row, _)| row);
        rows.find(|row| row.0 == extension).map_or(UNKNOWN, |row| row.1)
    }
}

/// First bytes of all extensions in the table.
///
/// Each build looks up every name several times, and comparing numbers only takes a fraction of the time needed for
/// strings.
static BEGINNINGS: [u64; TABLE.len()] = {
    let mut beginnings = [0; TABLE.len()];
    let mut row = 0;
    while row < TABLE.len() {
        beginnings[row] = beginning(TABLE[row].0.as_bytes());
        row += 1;
    }
    beginnings
};

/// Returns the first eight bytes as a number.
///
/// Comparing these numbers gives the same order as comparing the strings.
const fn beginning(extension: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let mut place = 0;
    while place < extension.len() && place < bytes.len() {
        bytes[place] = extension[place];
        place += 1;
    }
    u64::from_be_bytes(bytes)
}

/// An invalid override.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`--media-type {assignment}` is not of the form EXT=TYPE, such as `ts=text/plain`")]
pub struct MediaTypeError {
    /// The invalid override.
    pub assignment: String,
}

/// Type of unknown files. It's worth trying to compress these, because results are only kept if
/// they are smaller.
const UNKNOWN: MediaType<'static> =
    MediaType { text: "application/octet-stream", charset: false, compress: true };

const PLAIN: MediaType<'static> = MediaType { text: "text/plain", charset: true, compress: true };

const JSON: MediaType<'static> = MediaType { text: "application/json", charset: false, compress: true };

/// Names without extension that are text by convention. They must be in upper case, as `/readme`, for example, may well be a
/// page.
const PLAIN_NAMES: [&str; 18] = [
    "AUTHORS",
    "CHANGELOG",
    "CHANGES",
    "CITATION",
    "CNAME",
    "CONTRIBUTING",
    "CONTRIBUTORS",
    "COPYING",
    "COPYRIGHT",
    "HISTORY",
    "INSTALL",
    "LICENCE",
    "LICENSE",
    "NEWS",
    "NOTICE",
    "README",
    "TODO",
    "VERSION",
];

/// Names without extension that are JSON according to some specification.
const JSON_PATHS: [&str; 11] = [
    ".well-known/apple-app-site-association",
    ".well-known/host-meta.json",
    ".well-known/matrix/client",
    ".well-known/matrix/server",
    ".well-known/matrix/support",
    ".well-known/nodeinfo",
    ".well-known/oauth-authorization-server",
    ".well-known/openid-configuration",
    ".well-known/webauthn",
    ".well-known/webfinger",
    "apple-app-site-association",
];

fn from_bare_name(path: &[u8]) -> MediaType<'static> {
    if JSON_PATHS.iter().any(|known| path == known.as_bytes()) {
        JSON
    } else if PLAIN_NAMES.iter().any(|name| file_name(path) == name.as_bytes()) {
        PLAIN
    } else {
        UNKNOWN
    }
}

pub(crate) fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Maximum length of extensions that we can convert to lower case without an allocation.
const SHORT_BYTES_MAX: usize = 16;

/// Returns the extension, unless the only dot is the name's first byte.
fn lower_case_extension<'b>(name: &[u8], buffer: &'b mut [u8; SHORT_BYTES_MAX]) -> Option<Cow<'b, str>> {
    let stop = name.iter().rposition(|&byte| byte == b'.').filter(|&stop| stop > 0)?;
    let extension = name.get(stop + 1..).filter(|extension| !extension.is_empty())?;
    let Some(short) = buffer.get_mut(..extension.len()) else {
        return Some(std::str::from_utf8(extension).ok()?.to_ascii_lowercase().into());
    };
    short.copy_from_slice(extension);
    short.make_ascii_lowercase();
    Some(std::str::from_utf8(short).ok()?.into())
}

/// Returns the type without parameters.
pub(crate) fn essence(text: &str) -> &str {
    text.split(';').next().unwrap_or(text).trim_end()
}

fn by_family(essence: &str) -> MediaType<'static> {
    let is_text = essence.starts_with("text/");
    let is_structured = ["+json", "+xml", "/json", "/xml"].iter().any(|suffix| essence.ends_with(suffix));
    let is_media = ["image/", "audio/", "video/", "font/"].iter().any(|family| essence.starts_with(family));
    MediaType { text: "", charset: is_text, compress: is_text || is_structured || !is_media }
}

/// Checks for `type "/" subtype` with optional parameters.
///
/// Bytes that could end a header field MUST NOT be accepted.
fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    is_printable && essence(text).split_once('/').is_some_and(|(main, sub)| is_token(main) && is_token(sub))
}

#[cfg(test)]
mod tests;
