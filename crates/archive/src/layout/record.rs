//! What answers a path: a resource in its codings, a redirect, or another path.
//!
//! A resource's record holds all there is to answer: no second lookup follows. Never holds bytes of a
//! body or of a head, only where they lie.

use super::format::Format;
use super::piece::{self, Piece, Pieces};
use super::{Fields, length_u8, put_long};
use crate::{Corrupt, ETag, WriteError};

const RESOURCE: u8 = 1;
const REDIRECT: u8 = 2;
const REWRITE: u8 = 3;
const DATED_RESOURCE: u8 = 4;

const HAS_QUERY: u8 = 1 << 0;

/// How the bytes of a representation are coded (RFC 9110 §8.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Coding {
    /// As they are.
    Identity,
    /// `gzip`, RFC 1952.
    Gzip,
    /// `br`, RFC 7932.
    Brotli,
    /// `zstd`, RFC 8878.
    Zstd,
}

impl Coding {
    /// Every coding, in the order of their numbers in the file.
    pub const ALL: [Coding; 4] = [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd];

    /// The name by which HTTP knows it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    fn decode(number: u8) -> Option<Coding> {
        Coding::ALL.get(usize::from(number)).copied()
    }
}

/// Where a path comes from: what `extract` needs to know to give the folder back, and `explain` to say why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The path is a source file's own.
    File,
    /// Another name of a source file: a folder's index page, or a name without its suffix.
    Alias,
    /// Made by the archiver: a folder listing.
    Generated,
    /// Made by a rule of `_redirects`.
    Rule,
    /// A file of an earlier release, which this one's folder does not have.
    Carried,
}

impl Origin {
    const ALL: [Origin; 5] = [Origin::File, Origin::Alias, Origin::Generated, Origin::Rule, Origin::Carried];
}

/// Where bytes lie in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The first byte, counted from the start of the file.
    pub position: u64,
    /// How many bytes.
    pub length: u64,
}

/// What answers a path.
#[derive(Debug, Clone, Copy)]
pub enum Record<'a> {
    /// Bytes, in one or more codings.
    Resource(Resource<'a>),
    /// Another address for the client to ask.
    Redirect(Redirect<'a>),
    /// Another path to answer from, made from the captures of the rule that matched.
    Rewrite(Rewrite<'a>),
}

/// A resource in its codings.
#[derive(Debug, Clone, Copy)]
pub struct Resource<'a> {
    /// The status of the answer.
    pub status: u16,
    /// Where the path comes from.
    pub origin: Origin,
    /// When it was last modified, in seconds since 1970-01-01 00:00:00 UTC, if the archive says so.
    pub modified: Option<u64>,
    count: u8,
    fields: Fields<'a>,
}

impl<'a> Resource<'a> {
    /// The representations, smallest first.
    #[must_use]
    pub fn representations(&self) -> Representations<'a> {
        Representations { left: self.count, fields: self.fields }
    }
}

/// The representations of a resource, decoded one at a time.
#[derive(Debug, Clone, Copy)]
pub struct Representations<'a> {
    left: u8,
    fields: Fields<'a>,
}

impl<'a> Iterator for Representations<'a> {
    type Item = Result<Representation<'a>, Corrupt>;

    // Every request goes through it, and other callers must not make it a call of its own there.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let representation = Representation::decode(&mut self.fields);
        if representation.is_err() {
            self.left = 0;
        }
        Some(representation)
    }
}

/// One coding of a resource: all that an answer needs to know of it.
#[derive(Debug, Clone, Copy)]
pub struct Representation<'a> {
    /// How its bytes are coded.
    pub coding: Coding,
    /// Its entity tag, without quotes.
    pub etag: &'a [u8; ETag::BYTES],
    /// Where its bytes lie.
    pub body: Extent,
    /// Where its head lies: for [`crate::Archive::head`].
    pub head: u64,
}

impl<'a> Representation<'a> {
    #[inline]
    fn decode(fields: &mut Fields<'a>) -> Result<Self, Corrupt> {
        let coding = Coding::decode(fields.u8()?).ok_or_else(|| fields.corrupt())?;
        let etag = fields.array()?;
        let [position, length, head] = fields.quantities()?;
        Ok(Representation { coding, etag, body: Extent { position, length }, head })
    }
}

/// Another address for the client to ask.
#[derive(Debug, Clone, Copy)]
pub struct Redirect<'a> {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// Whether the target has a query of its own, so that the request's is joined with `&`.
    pub has_query: bool,
    /// What stands behind `#` in the target, or nothing.
    pub fragment: &'a [u8],
    /// The target in URL spelling, up to its fragment.
    pub target: Pieces<'a>,
}

/// Another path to answer from.
#[derive(Debug, Clone, Copy)]
pub struct Rewrite<'a> {
    /// The status of the answer, in place of the one found there.
    pub status: u16,
    /// The path, decoded.
    pub path: Pieces<'a>,
}

impl<'a> Record<'a> {
    // A step of every request, as what follows: see `Archive::path`.
    #[inline(always)]
    pub(crate) fn decode(data: &'a [u8], format: Format, offset: u64) -> Result<Record<'a>, Corrupt> {
        Record::decode_fields(Fields::new(data, format, offset, "a path record"))
    }

    #[inline(always)]
    pub(crate) fn decode_fields(mut fields: Fields<'a>) -> Result<Record<'a>, Corrupt> {
        match fields.u8()? {
            kind @ (RESOURCE | DATED_RESOURCE) => {
                let [origin, low, high, count] = *fields.array()?;
                let origin = Origin::ALL.get(usize::from(origin)).ok_or_else(|| fields.corrupt())?;
                let status = u16::from_le_bytes([low, high]);
                let modified = if kind == DATED_RESOURCE { Some(fields.u64()?) } else { None };
                Ok(Record::Resource(Resource { status, origin: *origin, modified, count, fields }))
            }
            REDIRECT => {
                let has_query = fields.u8()? & HAS_QUERY != 0;
                let status = fields.u16()?;
                let length = fields.u16()?;
                let fragment = fields.take(length.into())?;
                Ok(Record::Redirect(Redirect { status, has_query, fragment, target: Pieces::new(fields) }))
            }
            REWRITE => Ok(Record::Rewrite(Rewrite { status: fields.u16()?, path: Pieces::new(fields) })),
            _ => Err(fields.corrupt()),
        }
    }
}

/// What shall answer a path: the writing half of [`Record`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewRecord<'p> {
    /// See [`Resource`].
    Resource {
        /// See [`Resource::status`].
        status: u16,
        /// See [`Resource::origin`].
        origin: Origin,
        /// See [`Resource::modified`].
        modified: Option<u64>,
        /// See [`Resource::representations`]: smallest first.
        representations: Vec<NewRepresentation>,
    },
    /// See [`Redirect`].
    Redirect {
        /// See [`Redirect::status`].
        status: u16,
        /// See [`Redirect::has_query`].
        has_query: bool,
        /// See [`Redirect::fragment`].
        fragment: &'p [u8],
        /// See [`Redirect::target`].
        target: Vec<Piece<'p>>,
    },
    /// See [`Rewrite`].
    Rewrite {
        /// See [`Rewrite::status`].
        status: u16,
        /// See [`Rewrite::path`].
        path: Vec<Piece<'p>>,
    },
}

/// One coding of a resource to be written; its body and head are in the archive already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRepresentation {
    /// See [`Representation::coding`].
    pub coding: Coding,
    /// See [`Representation::etag`].
    pub etag: ETag,
    /// The body, as the writer named it.
    pub body: BodyId,
    /// The head, as the writer named it.
    pub head: HeadId,
}

/// A body in the archive that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BodyId(pub(crate) u32);

/// A head in the archive that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeadId(pub(crate) u32);

/// Where the writer put bodies and heads: what record encoding needs of it.
pub(crate) trait Places {
    fn body(&self, id: BodyId) -> Extent;
    fn head(&self, id: HeadId) -> u64;
}

impl NewRecord<'_> {
    pub(crate) fn encode(
        &self,
        out: &mut Vec<u8>,
        format: Format,
        places: &impl Places,
    ) -> Result<(), WriteError> {
        match self {
            NewRecord::Resource { status, origin, modified, representations } => {
                let kind = if modified.is_some() { DATED_RESOURCE } else { RESOURCE };
                out.extend_from_slice(&[kind, *origin as u8]);
                out.extend_from_slice(&status.to_le_bytes());
                out.push(length_u8("the list of codings", representations.len())?);
                modified.iter().for_each(|seconds| out.extend_from_slice(&seconds.to_le_bytes()));
                for new in representations {
                    let body = places.body(new.body);
                    out.push(new.coding as u8);
                    out.extend_from_slice(&new.etag.0);
                    for quantity in [body.position, body.length, places.head(new.head)] {
                        format.put(out, quantity);
                    }
                }
                Ok(())
            }
            NewRecord::Redirect { status, has_query, fragment, target } => {
                out.extend_from_slice(&[REDIRECT, if *has_query { HAS_QUERY } else { 0 }]);
                out.extend_from_slice(&status.to_le_bytes());
                put_long(out, "the fragment of a redirect", fragment)?;
                piece::encode(out, target.iter().copied())
            }
            NewRecord::Rewrite { status, path } => {
                out.push(REWRITE);
                out.extend_from_slice(&status.to_le_bytes());
                piece::encode(out, path.iter().copied())
            }
        }
    }
}
