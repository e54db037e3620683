//! Destinations of redirects, as far as they are known at build time.
//!
//! The host of a request for a rule that applies to all hosts isn't known.

use super::rule::{Action, RedirectRule};
use super::template::TemplatePiece;
use crate::host::{after_scheme, parse_host};
use crate::pattern::Symbol;
use crate::percent::percent_decode;

impl RedirectRule {
    /// Returns the host and the decoded path of a redirect from this host with these captures: `None` for a rewrite, and
    /// for an absolute target if the host isn't known.
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

    /// Returns `true` if the target has the captures in the same order as the source.
    pub(crate) fn keeps_order(&self) -> bool {
        match &self.action {
            Action::Redirect { target, .. } => target.captures().is_sorted(),
            Action::Rewrite { path, .. } => path.captures().is_sorted(),
        }
    }
}
