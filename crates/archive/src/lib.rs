//! The archive format: reads and writes a site as one immutable file of canned responses.
//!
//! An archive is a constant database (CDB): a writer streams records into it once, and any number of readers map the file
//! and find a record in two memory accesses. This crate holds the container (32-bit and 64-bit, see [`Format`]) and the
//! schema on top of it, both byte by byte as `FORMAT.md` specifies them. The life of an archive is [`Writer`] → file →
//! [`Archive`] → [`Record`].
//!
//! The crate knows neither HTTP nor compression nor sockets.
//!
//! Opening reads some two hundred bytes and trusts none of the rest: each number is checked against the file where it is
//! used. A corrupt archive causes an error response, never a panic.

#![deny(unsafe_code)]

// Types for callers: errors, paths, digests.
mod checksum;
mod error;
mod key;

// The bytes of the file: each structure, encode beside decode.
mod layout;

// The hash tables of the container.
mod index;

// Writing, and reading what was written.
mod reader;
mod verify;
mod writer;

// The file in memory: mapped or read, and protected against changes in place. It may follow a program.
mod lease;
mod map;
mod program;

pub use checksum::{Digest, ETag};
pub use error::{Corrupt, OpenError, VerifyError, WriteError};
pub use key::{KEY_BYTES_MAX, Key, KeyBuffer, PathError, UrlPiece, percent_encode};
pub use layout::entry::Entry;
pub use layout::facts::{Facts, SCHEMA_PREFIX_BYTES, SCHEMA_VERSION, has_schema_version};
pub use layout::format::Format;
pub use layout::hash::Hash;
pub use layout::head::{Head, NewHead};
pub use layout::header_rule::{HeaderEffect, HeaderField, HeaderFields, HeaderRule, NewHeaderRule};
pub use layout::hpack::{HpackLine, HpackLines, HpackRuns, LINE_IDS, NO_LINE_ID, NewHpackLine};
pub use layout::piece::{Piece, Pieces};
pub use layout::qpack::{NewQpackLine, QpackLine, QpackLines, QpackRuns};
pub use layout::record::{
    BodyId, Coding, Extent, HeadId, NewRecord, NewRepresentation, Origin, Record, Redirect, Representation,
    Resource, Rewrite,
};
pub use layout::rule_index::{AFFIX_BYTES_MAX, Candidates, INDEX_RULES_MAX, PATTERN_SEGMENTS_MAX};
pub use layout::scope::{NewRule, NewScope, Rule, RuleFilter, Scope, ScopeEntry};
pub use layout::{RecordKind, name, split_host};
pub use lease::{Lease, Writers, writers};
pub use map::Loading;
pub use program::{archive_position, program_bytes};
pub use reader::{Archive, Entries};
pub use verify::VerifyReport;
pub use writer::{WriteReport, Writer};
