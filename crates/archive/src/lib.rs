//! The archive: one immutable file, both ends of its format.
//!
//! An archive is a constant database (CDB): a writer streams records into it once, then any number of
//! readers map it and find a record with two touches of memory. This crate holds the container
//! ([`Format`], 32-bit and 64-bit alike) and the schema on top of it, byte by byte as `FORMAT.md`
//! specifies them. Life of an archive: [`Writer`] → file → [`Archive`] → [`Record`].
//!
//! It never knows HTTP, compression or sockets, and it imports no other crate of ours. The one
//! surprise: opening reads two hundred bytes and believes none of the rest; each number is checked
//! against the file where it is used, so a corrupt archive costs an error answer and never a panic.

#![deny(unsafe_code)]

mod checksum;
mod error;
mod index;
mod key;
mod layout;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod lease;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod lease_portable;
mod map;
mod reader;
mod verify;
mod writer;

pub use checksum::{Digest, ETag};
pub use error::{Corrupt, OpenError, VerifyError, WriteError};
pub use key::{KEY_BYTES_MAX, Key, KeyBuffer, PathError, UrlPiece, percent_encode};
pub use layout::entry::Entry;
pub use layout::facts::{Facts, SCHEMA_VERSION};
pub use layout::format::Format;
pub use layout::hash::Hash;
pub use layout::head::{Head, NewHead};
pub use layout::header_rule::{HeaderEffect, HeaderField, HeaderFields, HeaderRule, NewHeaderRule};
pub use layout::hpack::{HpackLine, HpackLines, HpackRuns, LINE_IDS, NO_LINE_ID, NewHpackLine};
pub use layout::piece::{Piece, Pieces};
pub use layout::record::{
    BodyId, Coding, Extent, HeadId, NewRecord, NewRepresentation, Origin, Record, Redirect, Representation,
    Resource, Rewrite,
};
pub use layout::rule_index::{AFFIX_BYTES_MAX, Candidates, INDEX_RULES_MAX, IndexKind, PATTERN_SEGMENTS_MAX};
pub use layout::scope::{NewRule, NewScope, Rule, Scope, ScopeEntry};
pub use layout::{RecordKind, name, split_host};
pub use lease::Lease;
pub use map::Loading;
pub use reader::{Archive, Entries};
pub use verify::VerifyReport;
pub use writer::{WriteReport, Writer};

#[cfg(any(feature = "portable", not(target_os = "linux")))]
use lease_portable as lease;
