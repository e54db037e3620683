//! A rule of `_headers`: for which hosts and paths it is, and the fields that it adds or takes away.
//!
//! A server looks at it for answers of which the archiver did not know the path. Never decides what several rules add up to.

use super::piece::{self, Piece, Pieces};
use super::{Fields, length_u8, length_u16};
use crate::{Corrupt, WriteError};

const REMOVE: u8 = 0;
const JOIN: u8 = 1;
const REPLACE: u8 = 2;
const LINE: u8 = 3;

/// A rule of `_headers`. Each one that matches counts, in their order.
#[derive(Debug, Clone, Copy)]
pub struct HeaderRule<'a> {
    /// Its place in the order of all such rules of the site.
    pub ordinal: u32,
    /// The hosts that it is for: a name, in which `*.` at the start stands for one or more labels, and a label that begins
    /// with `:` for any one. Nothing stands for all hosts.
    pub host: &'a [u8],
    /// The pattern of what follows the first slash of a path.
    pub pattern: Pieces<'a>,
    /// What it adds and takes away.
    pub fields: HeaderFields<'a>,
}

/// The fields of a rule, decoded one at a time.
#[derive(Debug, Clone, Copy)]
pub struct HeaderFields<'a>(Fields<'a>);

/// What a rule does with one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderField<'a> {
    /// What becomes of values that rules before it gave the field.
    pub effect: HeaderEffect,
    /// The bit of [`crate::Head::overrides`] for the field.
    pub overrides: u8,
    /// The name, as HTTP/1 spells it.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// What becomes of the values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderEffect {
    /// All are taken away, and the server's own.
    Remove,
    /// The value is added to those before it, as one list.
    Join,
    /// The value takes their place.
    Replace,
    /// The value has a line of its own.
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

/// A rule of `_headers` to be written: see [`HeaderRule`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewHeaderRule<'p> {
    /// See [`HeaderRule::ordinal`].
    pub ordinal: u32,
    /// See [`HeaderRule::host`].
    pub host: &'p [u8],
    /// See [`HeaderRule::pattern`].
    pub pattern: Vec<Piece<'p>>,
    /// Effect, bits of overridden fields, name and value: see [`HeaderField`].
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
