//! Where a rule leads: text with holes for what its pattern captures.
//!
//! Never fills them.

use crate::pattern::identifier;
use crate::rule_error::RuleError;

/// Text with holes to be filled with what a pattern has captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The pieces in order.
    pub pieces: Vec<TemplatePiece>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePiece {
    /// These bytes.
    Literal(Vec<u8>),
    /// The capture of this number.
    Capture(u8),
}

impl Template {
    /// The numbers of the captures it is filled with, in order of use.
    pub fn captures(&self) -> impl Iterator<Item = u8> {
        self.pieces.iter().filter_map(|piece| match piece {
            TemplatePiece::Literal(_) => None,
            TemplatePiece::Capture(number) => Some(*number),
        })
    }

    /// Reads text with `:name` in it, `names` being those of the captures in order. `spell` turns
    /// the text between into the bytes to keep.
    ///
    /// `:name` counts wherever the source has that name. Where it has not, the text is taken for
    /// a mistake at the beginning of a segment and for plain text elsewhere.
    pub(super) fn parse(
        text: &str,
        names: &[String],
        spell: impl Fn(&str) -> Result<Vec<u8>, RuleError>,
    ) -> Result<Template, RuleError> {
        let mut pieces = Vec::new();
        let mut begin = 0;
        for (colon, _) in text.match_indices(':') {
            if colon < begin {
                continue;
            }
            let name = identifier(&text[colon + 1..]);
            let Some(number) = names.iter().position(|known| known == name) else {
                if name == "splat" || (!name.is_empty() && text[..colon].ends_with('/')) {
                    let message = format!("the source has no `:{name}`; spell a literal `:` as %3A");
                    return Err(RuleError::new("unknown-placeholder", message));
                }
                continue;
            };
            if begin < colon {
                pieces.push(TemplatePiece::Literal(spell(&text[begin..colon])?));
            }
            // `check_capture` lets no source have more captures than a byte counts.
            pieces.push(TemplatePiece::Capture(u8::try_from(number).unwrap_or(u8::MAX)));
            begin = colon + 1 + name.len();
        }
        if begin < text.len() {
            pieces.push(TemplatePiece::Literal(spell(&text[begin..])?));
        }
        Ok(Template { pieces })
    }
}

pub(super) fn has_reference(text: &str, names: &[String]) -> bool {
    text.match_indices(':').any(|(colon, _)| {
        let name = identifier(&text[colon + 1..]);
        name == "splat" || names.iter().any(|known| known == name)
    })
}
