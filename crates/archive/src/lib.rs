//! The archive format: reads and writes a site as one immutable file of canned responses.
//!
//! An archive is a constant database (CDB). The writer streams records into it once; after that, any number of readers can map the
//! file and find a record with two memory accesses. This crate provides both the container (32-bit and 64-bit, see [`Format`]) and
//! the schema on top of it. `FORMAT.md` specifies them byte by byte. Data flows from [`Writer`] to a file, and from there to
//! [`Archive`] and [`Record`].
//!
//! This crate does not know HTTP, compression or sockets.
//!
//! To open an archive, we only read about two hundred bytes. The rest is not trusted: each number is checked against the file when
//! it is used, so a corrupt archive may cause an error response but should *never* cause a panic.
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.

#![deny(unsafe_code)]

// Types for callers: errors, paths, digests.
mod checksum;
mod error;
mod key;

// File layout. Each structure has its encoder next to its decoder.
mod layout;

// The container's hash tables.
mod index;

// Writing, and reading what was written.
mod reader;
mod verify;
mod writer;

// Taking archives apart, for rebuilding them elsewhere.
mod linked;
mod parts;

// The file in memory, either mapped or read, and protected against changes. Note that it can be appended to a program.
mod lease;
mod map;
mod program;

pub use checksum::{Digest, ETag};
pub use error::{AssembleError, Corrupt, OpenError, VerifyError, WriteError};
pub use key::{KEY_BYTES_MAX, Key, KeyBuffer, PathError, UrlPiece, percent_encode};
pub use layout::coding::Coding;
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
    BodyId, Extent, HeadId, NewRecord, NewRepresentation, Origin, Record, Redirect, Representation, Resource,
    Rewrite,
};
pub use layout::rule_index::{AFFIX_BYTES_MAX, Candidates, INDEX_RULES_MAX, PATTERN_SEGMENTS_MAX};
pub use layout::scope::{AssetRule, NewRule, NewScope, Rule, RuleFilter, Scope, ScopeEntry};
pub use layout::{RecordKind, name, split_host};
pub use lease::{Lease, Writers, writers};
pub use map::Loading;
pub use parts::{Alignment, Part, Parts};
pub use program::{archive_position, program_bytes};
pub use reader::{Archive, Entries};
pub use verify::VerifyReport;
pub use writer::assembler::Assembler;
pub use writer::layout::BodyPositions;
pub use writer::{WriteReport, Writer};
