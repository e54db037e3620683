//! Header rules from `_headers`. They match hosts and paths, and add or remove fields.
//!
//! The archiver applies them to files. However, the server needs them too, for paths that the archiver did not know.

use super::piece::{self, Piece, Pieces};
use super::{Fields, length_u8, length_u16};
use crate::{Corrupt, WriteError};

const REMOVE: u8 = 0;
const JOIN: u8 = 1;
const REPLACE: u8 = 2;
const LINE: u8 = 3;

/// A `_headers` rule. If several rules match, we apply all of them in order.
#[derive(Debug, Clone, Copy)]
pub struct HeaderRule<'a> {
    /// Index of the rule among the site's header rules.
    pub ordinal: u32,
    /// The hosts that this rule matches; if empty, all hosts. `*.` at the start matches one or more labels, and a label that starts
    /// with `:` matches any single label.
    pub host: &'a [u8],
    /// The pattern, to be matched against the path after its first slash.
    pub pattern: Pieces<'a>,
    /// The changes of fields.
    pub fields: HeaderFields<'a>,
}

/// A rule's fields, decoded one at a time.
#[derive(Debug, Clone, Copy)]
pub struct HeaderFields<'a>(Fields<'a>);

/// A change of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderField<'a> {
    /// Effect on values from earlier rules.
    pub effect: HeaderEffect,
    /// The field's bit in [`crate::Head::overrides`], or 0.
    pub overrides: u8,
    /// The field name with the letter case of HTTP/1.
    pub name: &'a [u8],
    /// The field value.
    pub value: &'a [u8],
}

/// Effect of a header rule on a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderEffect {
    /// Removes all values, including the server's own field.
    Remove,
    /// Appends the value to earlier values, as one list.
    Join,
    /// Replaces the earlier values.
    Replace,
    /// Adds another field line.
    Line,
}

impl<'a> HeaderRule<'a> {
    pub(crate) fn decode(mut entry: Fields<'a>) -> Result<HeaderRule<'a>, Corrupt> {
        let ordinal = entry.u32()?;
        let host_bytes = entry.u8()?;
        let host = entry.take(host_bytes.into())?;
        let pattern_bytes = entry.u16()?;
        let pattern = Pieces::new(entry.part(pattern_bytes.into())?);
        Ok(HeaderRule { ordinal, host, pattern, fields: HeaderFields(entry) })
    }
}

impl<'a> Iterator for HeaderFields<'a> {
    type Item = Result<HeaderField<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = decode_field(&mut self.0);
        if field.is_err() {
            self.0.skip_rest();
        }
        Some(field)
    }
}

fn decode_field<'a>(fields: &mut Fields<'a>) -> Result<HeaderField<'a>, Corrupt> {
    let [effect, overrides, name_bytes] = *fields.array()?;
    let value_bytes = fields.u16()?;
    let effect = match effect {
        REMOVE => HeaderEffect::Remove,
        JOIN => HeaderEffect::Join,
        REPLACE => HeaderEffect::Replace,
        LINE => HeaderEffect::Line,
        _ => return Err(fields.corrupt()),
    };
    let name = fields.take(name_bytes.into())?;
    Ok(HeaderField { effect, overrides, name, value: fields.take(value_bytes.into())? })
}

/// A header rule to write: see [`HeaderRule`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewHeaderRule<'p> {
    /// See [`HeaderRule::ordinal`].
    pub ordinal: u32,
    /// See [`HeaderRule::host`].
    pub host: &'p [u8],
    /// See [`HeaderRule::pattern`].
    pub pattern: Vec<Piece<'p>>,
    /// Effect, overrides, name and value: see [`HeaderField`].
    pub fields: Vec<(HeaderEffect, u8, Vec<u8>, Vec<u8>)>,
}

impl NewHeaderRule<'_> {
    pub(crate) fn encode(&self) -> Result<Vec<u8>, WriteError> {
        let mut out = self.ordinal.to_le_bytes().to_vec();
        out.push(length_u8("the host of a header rule", self.host.len())?);
        out.extend_from_slice(self.host);

        let mut pattern = Vec::new();
        piece::encode(&mut pattern, self.pattern.iter().copied())?;
        out.extend_from_slice(&length_u16("the pattern of a rule", pattern.len())?.to_le_bytes());
        out.extend_from_slice(&pattern);

        for (effect, overrides, name, value) in &self.fields {
            out.push(match effect {
                HeaderEffect::Remove => REMOVE,
                HeaderEffect::Join => JOIN,
                HeaderEffect::Replace => REPLACE,
                HeaderEffect::Line => LINE,
            });
            out.push(*overrides);
            out.push(length_u8("the name of a field", name.len())?);
            out.extend_from_slice(&length_u16("the value of a field", value.len())?.to_le_bytes());
            out.extend_from_slice(name);
            out.extend_from_slice(value);
        }
        Ok(out)
    }
}
