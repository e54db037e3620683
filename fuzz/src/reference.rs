//! Reference implementations: simple and slow parsers, for differential tests of the crates.
//!
//! Each follows the grammar of the RFC, and shares no code with the parser under test.

use std::collections::BTreeMap;

/// A request parsed by `httparse`.
pub(crate) enum HttparseRequest {
    /// A valid request.
    Parsed {
        method: Vec<u8>,
        target: Vec<u8>,
        host: Option<Vec<u8>>,
        minor_version: u8,
        is_chunked: bool,
        length: u64,
    },
    /// A minor version of HTTP/1 that `httparse` doesn't know.
    OtherVersion,
}

/// Returns the requests of a stream: heads are parsed by `httparse`, and content is skipped by its framing.
pub(crate) fn httparse_requests(stream: &[u8]) -> impl Iterator<Item = HttparseRequest> {
    let mut rest = Some(stream);
    std::iter::from_fn(move || {
        let input = rest.take()?;
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut request = httparse::Request::new(&mut headers);
        let head_bytes = match request.parse(input) {
            Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
            Err(httparse::Error::Version) => return Some(HttparseRequest::OtherVersion),
            Ok(httparse::Status::Partial) | Err(_) => return None,
        };

        let value = |name: &str| {
            let header = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
            header.map(|header| header.value.to_vec())
        };

        let is_chunked = value("transfer-encoding").is_some();
        let length = value("content-length").and_then(|length| String::from_utf8(length).ok()?.parse().ok());
        let length = length.unwrap_or(0);
        let content = &input[head_bytes..];

        rest = match usize::try_from(length) {
            _ if is_chunked => skip_chunks(content),
            Ok(length) => content.get(length..),
            Err(_) => None,
        };

        Some(HttparseRequest::Parsed {
            method: request.method?.as_bytes().to_vec(),
            target: request.path?.as_bytes().to_vec(),
            host: value("host"),
            minor_version: request.version?,
            is_chunked,
            length,
        })
    })
}

/// Returns the bytes after chunked content (RFC 9112 §7.1), or `None` if the content is incomplete.
fn skip_chunks(mut content: &[u8]) -> Option<&[u8]> {
    loop {
        let (line, rest) = line(content)?;
        let digits = line.split(|byte| *byte == b';').next()?;
        let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        content = rest;
        if size == 0 {
            break;
        }
        content = content.get(size..)?.strip_prefix(b"\r\n")?;
    }
    loop {
        let (line, rest) = line(content)?;
        content = rest;
        if line.is_empty() {
            return Some(content);
        }
    }
}

fn line(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = content.windows(2).position(|window| window == b"\r\n")?;
    Some((&content[..end], &content[end + 2..]))
}

/// Returns the weights of `Accept-Encoding` by coding, in thousandths. Invalid elements are ignored.
pub(crate) fn weights(lines: &[&[u8]]) -> BTreeMap<String, u32> {
    let mut weights = BTreeMap::new();
    for element in lines.iter().flat_map(|line| line.split(|byte| *byte == b',')) {
        let Ok(element) = std::str::from_utf8(element) else { continue };
        let mut parts = element.split(';').map(|part| part.trim_matches([' ', '\t']));
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters: Option<Vec<u32>> = parts.map(weight).collect();
        let Some(parameters) = parameters.filter(|_| !name.is_empty()) else { continue };
        let name = if name == "x-gzip" { "gzip".to_owned() } else { name };
        weights.entry(name).or_insert(parameters.last().copied().unwrap_or(1000));
    }
    weights
}

/// Parses a weight such as `q=0.5`, in thousandths (RFC 9110 §12.4.2).
fn weight(parameter: &str) -> Option<u32> {
    let value = parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q="))?;
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let is_number = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths: u32 = is_number.then(|| format!("{fraction:0<3}").parse().ok())??;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

/// Parses `Range`. Returns for each byte of the representation whether it is requested, and the number of
/// ranges; `None` if the value is not a byte range.
pub(crate) fn requested(value: &[u8], length: usize) -> Option<(Vec<bool>, usize)> {
    let value = std::str::from_utf8(value).ok()?;
    let (unit, set) = value.split_once('=')?;
    let elements: Vec<&str> =
        set.split(',').map(|element| element.trim_matches([' ', '\t'])).filter(|it| !it.is_empty()).collect();
    if !unit.eq_ignore_ascii_case("bytes") || elements.is_empty() {
        return None;
    }

    let mut requested = vec![false; length];
    for element in &elements {
        let (first, last) = element.split_once('-')?;
        let (first, last) = (number(first)?, number(last)?);
        let (from, to) = match (first, last) {
            (None, None) => return None,
            (None, Some(suffix)) => (length.saturating_sub(suffix), length),
            (Some(first), None) => (first, length),
            (Some(first), Some(last)) if first > last => return None,
            (Some(first), Some(last)) => (first, last.saturating_add(1)),
        };
        requested.iter_mut().take(to).skip(from).for_each(|is_requested| *is_requested = true);
    }

    Some((requested, elements.len()))
}

/// Parses an optional number, clamped to `usize`. Returns `None` if it is invalid.
fn number(digits: &str) -> Option<Option<usize>> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((!digits.is_empty()).then(|| digits.parse().unwrap_or(usize::MAX)))
}

/// Parses a list of entity tags (RFC 9110 §8.8.3). Returns whether each is weak, with its tag; `None` if the
/// list is invalid.
pub(crate) fn tags(value: &[u8]) -> Option<Vec<(bool, Vec<u8>)>> {
    let mut tags = Vec::new();
    let mut rest = value;
    let mut needs_comma = false;
    loop {
        match rest {
            [] => return Some(tags),
            [b' ' | b'\t', after @ ..] => rest = after,
            [b',', after @ ..] => (rest, needs_comma) = (after, false),
            _ if needs_comma => return None,
            _ => {
                let (is_weak, quoted) = match rest.strip_prefix(b"W/") {
                    Some(quoted) => (true, quoted),
                    None => (false, rest),
                };
                let quoted = quoted.strip_prefix(b"\"")?;
                let end = quoted.iter().position(|byte| *byte == b'"')?;
                let is_tag = quoted[..end].iter().all(|byte| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..));
                tags.push((is_weak, is_tag.then(|| quoted[..end].to_vec())?));
                (rest, needs_comma) = (&quoted[end + 1..], true);
            }
        }
    }
}
