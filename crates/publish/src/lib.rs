//! Transfers releases of a site to other machines, without the contents that these have.
//!
//! A release is an archive. Most of its bodies are in earlier releases too, and the rest of the file follows from its records. So
//! we send a [`Recipe`], i.e. the records without the bodies, and then the bodies that the other machine is missing. There,
//! [`rebuild`] writes the same archive again, bit by bit.
//!
//! The two sides exchange frames over a pipe, typically through `ssh`. Both of them are state machines without I/O
//! ([`protocol`]), which are driven by [`Client`] and [`serve`].
//!
//! This crate is internal to Cannery, that is, its interface may change in any release. Programs should use the `cannery`
//! crate instead.

#![forbid(unsafe_code)]

// Both sides of a connection: each reads and writes a pipe.
mod client;
mod receive;

// Frames and messages between them.
pub mod protocol;

// Signs statements about releases.
pub mod signing;

// Archives without the bodies.
mod recipe;

// Short files: those that users name, and those that are replaced with a rename.
mod named_file;
mod replace;

// Bounds of both sides.
pub mod limits;

pub use client::{Client, ClientError, StageReport};
pub use named_file::{read_named_file, read_named_text};
pub use receive::{Host, Source, drop_damaged, serve};
pub use recipe::bodies::BodyIndex;
pub use recipe::rebuild::{RebuildError, RebuildReport, rebuild};
pub use recipe::{BODY_NAME_BYTES, BodyName, Recipe, RecipeBody, RecipeError};
pub use replace::{file_system_time, inode_change, remove_abandoned, replace};
