//! Slow and plain readings of what the crates read fast, to be held against them.
//!
//! Each is written from the RFC's grammar alone, and shares no code with what it is held against.

use std::collections::BTreeMap;

/// A request as `httparse` reads it.
pub(crate) enum ForeignRequest {
    /// Its parts.
    Read {
        method: Vec<u8>,
        target: Vec<u8>,
        host: Option<Vec<u8>>,
        minor_version: u8,
        is_chunked: bool,
        length: u64,
    },
    /// Another minor version of HTTP/1 than `httparse` knows.
    OtherVersion,
}

/// The requests of a stream: heads by `httparse`, and between them contents as their framing says.
pub(crate) fn foreign_requests(stream: &[u8]) -> impl Iterator<Item = ForeignRequest> {
    let mut rest = Some(stream);
    std::iter::from_fn(move || {
        let input = rest.take()?;
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut request = httparse::Request::new(&mut headers);
        let head_bytes = match request.parse(input) {
            Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
            Err(httparse::Error::Version) => return Some(ForeignRequest::OtherVersion),
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
            _ if is_chunked => behind_chunks(content),
            Ok(length) => content.get(length..),
            Err(_) => None,
        };
        Some(ForeignRequest::Read {
            method: request.method?.as_bytes().to_vec(),
            target: request.path?.as_bytes().to_vec(),
            host: value("host"),
            minor_version: request.version?,
            is_chunked,
            length,
        })
    })
}

/// What follows a chunked content (RFC 9112 §7.1); nothing if it does not end.
fn behind_chunks(mut content: &[u8]) -> Option<&[u8]> {
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

/// The weight in thousandths that `Accept-Encoding` gives each name; what breaks the grammar is left out.
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

/// `q=0.5` in thousandths (RFC 9110 §12.4.2).
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

/// What a `Range` asks of a representation: for each of its bytes whether it is wanted, and how many ranges
/// there are. Nothing if it is no byte range.
pub(crate) fn wanted(value: &[u8], length: usize) -> Option<(Vec<bool>, usize)> {
    let value = std::str::from_utf8(value).ok()?;
    let (unit, set) = value.split_once('=')?;
    let elements: Vec<&str> =
        set.split(',').map(|element| element.trim_matches([' ', '\t'])).filter(|it| !it.is_empty()).collect();
    if !unit.eq_ignore_ascii_case("bytes") || elements.is_empty() {
        return None;
    }
    let mut wanted = vec![false; length];
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
        wanted.iter_mut().take(to).skip(from).for_each(|wanted| *wanted = true);
    }
    Some((wanted, elements.len()))
}

/// A number that may be left out; as large as can be where it is larger. Nothing if it is none.
fn number(digits: &str) -> Option<Option<usize>> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((!digits.is_empty()).then(|| digits.parse().unwrap_or(usize::MAX)))
}

/// The tags of a well-formed list of entity tags (RFC 9110 §8.8.3), each with whether it is weak; nothing if it is
/// none.
pub(crate) fn tags(value: &[u8]) -> Option<Vec<(bool, Vec<u8>)>> {
    let (mut tags, mut rest, mut needs_comma) = (Vec::new(), value, false);
    loop {
        match rest {
            [] => return Some(tags),
            [b' ' | b'\t', behind @ ..] => rest = behind,
            [b',', behind @ ..] => (rest, needs_comma) = (behind, false),
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
