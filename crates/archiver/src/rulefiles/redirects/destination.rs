//! Computes destinations of redirects as far as possible at build time.
//!
//! Note that the host of the request is not known for rules that apply to all hosts.

use super::rule::{Action, RedirectRule};
use super::template::TemplatePiece;
use crate::hosts::host::{after_scheme, parse_host};
use crate::rulefiles::pattern::Symbol;
use crate::rulefiles::percent::percent_decode;

impl RedirectRule {
    /// Computes the host and decoded path of a redirect from this host with these captures.
    ///
    /// Returns `None` for rewrites, and for absolute targets if the host is unknown.
    pub(crate) fn destination(
        &self,
        host: Option<&str>,
        captures: &[&[Symbol]],
    ) -> Option<(Option<String>, Vec<Symbol>)> {
        let Action::Redirect { target, .. } = &self.action else { return None };
        let mut pieces = target.pieces.clone();
        let mut leads_to = host.map(str::to_owned);

        if let Some(TemplatePiece::Literal(first)) = pieces.first_mut() {
            let text = std::str::from_utf8(first).ok()?;
            let (authority, path) = match after_scheme(text) {
                Some(rest) => {
                    let slash = rest.find('/').unwrap_or(rest.len());
                    (Some(&rest[..slash]), rest[slash..].to_owned())
                }
                None => (None, text.to_owned()),
            };

            if let Some(authority) = authority {
                host?;
                leads_to = Some(parse_host(authority).ok()?);
            }
            *first = if path.is_empty() { b"/".to_vec() } else { path.into_bytes() };
        }

        let decode = |bytes: &[u8]| percent_decode(bytes).ok();
        Some((leads_to, requested(&expand(&pieces, captures, decode)?)))
    }

    /// Returns the decoded path of a rewrite with these captures, or `None` for redirects.
    pub(crate) fn rewritten_path(&self, captures: &[&[Symbol]]) -> Option<Vec<Symbol>> {
        let Action::Rewrite { path, .. } = &self.action else { return None };
        Some(requested(&expand(&path.pieces, captures, |bytes| Some(bytes.to_vec()))?))
    }

    /// Whether the order of captures is the same in the target as in the source.
    pub(super) fn keeps_order(&self) -> bool {
        match &self.action {
            Action::Redirect { target, .. } => target.captures().is_sorted(),
            Action::Rewrite { path, .. } => path.captures().is_sorted(),
        }
    }
}

fn expand(
    pieces: &[TemplatePiece],
    captures: &[&[Symbol]],
    decode: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<Symbol>> {
    let mut symbols = Vec::new();
    for piece in pieces {
        match piece {
            TemplatePiece::Literal(bytes) => symbols.extend(decode(bytes)?.into_iter().map(Symbol::Byte)),
            TemplatePiece::Capture(number) => symbols.extend(*captures.get(usize::from(*number))?),
        }
    }
    Some(symbols)
}

/// Converts a path in a target to the path that a browser will request, as seen by the server.
///
/// Dot segments are removed by the browser (RFC 3986 §5.2.4), empty segments by the server.
fn requested(path: &[Symbol]) -> Vec<Symbol> {
    let slash = Symbol::Byte(b'/');
    let dot = Symbol::Byte(b'.');
    let path = path.strip_prefix(&[slash]).unwrap_or(path);
    let mut segments: Vec<&[Symbol]> = Vec::new();
    let mut is_folder = false;
    for segment in path.split(|symbol| *symbol == slash) {
        is_folder = segment.is_empty() || segment == [dot] || segment == [dot, dot];
        if segment == [dot, dot] {
            segments.pop();
        } else if segment != [dot] {
            segments.push(segment);
        }
    }

    segments.retain(|segment| !segment.is_empty());
    let mut requested: Vec<Symbol> =
        segments.iter().flat_map(|segment| [&[slash], *segment].concat()).collect();
    if is_folder || segments.is_empty() {
        requested.push(slash);
    }
    requested
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_normalized_as_by_browsers_and_the_server() {
        for (target, expected) in [
            ("/", "/"),
            ("/a/b/", "/a/b/"),
            ("/./x", "/x"),
            ("/z/../y", "/y"),
            ("/a/b/..", "/a/"),
            ("/a/.", "/a/"),
            ("/../../a", "/a"),
            ("/a//../b", "/a/b"),
            ("/a//b//", "/a/b/"),
            ("/a/...", "/a/..."),
            ("/..", "/"),
        ] {
            let symbols: Vec<Symbol> = target.bytes().map(Symbol::Byte).collect();
            let bytes: Vec<u8> = requested(&symbols).iter().filter_map(Symbol::byte).collect();
            assert_eq!(String::from_utf8(bytes).unwrap(), expected, "{target}");
        }
    }
}
