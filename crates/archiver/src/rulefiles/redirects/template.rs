//! Targets of rules: text that may refer to captures.

use crate::ground::rule_error::RuleError;
use crate::rulefiles::pattern::identifier;

/// Text that may refer to captures of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Pieces in order.
    pub pieces: Vec<TemplatePiece>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePiece {
    /// Exactly these bytes.
    Literal(Vec<u8>),
    /// The capture with this number.
    Capture(u8),
}

impl Template {
    /// Returns the numbers of all captures in the order in which they are used.
    pub fn captures(&self) -> impl Iterator<Item = u8> {
        self.pieces.iter().filter_map(|piece| match piece {
            TemplatePiece::Literal(_) => None,
            TemplatePiece::Capture(number) => Some(*number),
        })
    }

    /// Returns the text, unless it refers to captures.
    pub fn constant(&self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        for piece in &self.pieces {
            let TemplatePiece::Literal(literal) = piece else { return None };
            text.extend_from_slice(literal);
        }
        Some(text)
    }

    /// Parses text that may contain `:name`. `names` are the names of all captures in order. `encode` will be called for the text
    /// between references.
    ///
    /// This is a reference if the source has a capture `:name`. If not, it is an error at the start of a segment and plain text
    /// elsewhere.
    pub(super) fn parse(
        text: &str,
        names: &[String],
        encode: impl Fn(&str) -> Result<Vec<u8>, RuleError>,
    ) -> Result<Template, RuleError> {
        let mut pieces = Vec::new();
        let mut begin = 0;
        for (colon, _) in text.match_indices(':') {
            // Part of a reference that we have already handled.
            if colon < begin {
                continue;
            }
            let name = identifier(&text[colon + 1..]);
            let Some(number) = names.iter().position(|known| known == name) else {
                if name == "splat" || (!name.is_empty() && text[..colon].ends_with('/')) {
                    let message = format!("the source has no `:{name}`; write a literal `:` as %3A");
                    return Err(RuleError::new("unknown-placeholder", message));
                }
                continue;
            };

            if begin < colon {
                pieces.push(TemplatePiece::Literal(encode(&text[begin..colon])?));
            }
            let number = u8::try_from(number).expect("a pattern has at most 256 captures");
            pieces.push(TemplatePiece::Capture(number));
            begin = colon + 1 + name.len();
        }

        if begin < text.len() {
            pieces.push(TemplatePiece::Literal(encode(&text[begin..])?));
        }
        Ok(Template { pieces })
    }
}

/// Whether the text contains `:name` for one of these names.
pub(crate) fn has_reference(text: &str, names: &[String]) -> bool {
    text.match_indices(':').any(|(colon, _)| {
        let name = identifier(&text[colon + 1..]);
        names.iter().any(|known| known == name)
    })
}
