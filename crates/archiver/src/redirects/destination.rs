//! Where a redirect leads, as far as can be told from what it matches.
//!
//! Never knows which host a client has asked that a rule for all hosts applies to.

use super::rule::{Action, RedirectRule};
use super::template::TemplatePiece;
use crate::host::{after_scheme, parse_host};
use crate::pattern::Symbol;
use crate::percent::percent_decode;

impl RedirectRule {
    /// The host and the decoded path of a redirect on this host with these captures: `None` for a rewrite, and for a target
    /// on a host where it is not known from which.
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
        let mut symbols = Vec::new();
        for piece in &pieces {
            match piece {
                TemplatePiece::Literal(bytes) => {
                    symbols.extend(percent_decode(bytes).ok()?.into_iter().map(Symbol::Byte));
                }
                TemplatePiece::Capture(number) => symbols.extend(*captures.get(usize::from(*number))?),
            }
        }
        Some((leads_to, symbols))
    }

    /// Whether what it captures stands in the target in the order of the source.
    pub(crate) fn keeps_order(&self) -> bool {
        match &self.action {
            Action::Redirect { target, .. } => target.captures().is_sorted(),
            Action::Rewrite { path, .. } => path.captures().is_sorted(),
        }
    }
}
