//! OCI images and tar archives without a container engine, always with the same bytes.
//!
//! An image is written as an image layout (OCI Image Format Specification 1.1, "Image Layout"): a directory that tools such as
//! skopeo and podman read. Nothing in it depends on the clock, on the user or on the order of a directory, so the same
//! contents have the same digest on any machine.
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.

#![forbid(unsafe_code)]

// A directory with images: blobs, and the index that names them.
mod layout;
// Manifests and configurations.
mod image;
// Blobs: files that are named by their digest.
mod blobs;
// Directories and files of an archive, sorted by path.
mod tree;
// The tar format.
mod tar;
// SHA-256, of bytes and of streams.
mod digest;
mod error;
// Requirements of an executable.
mod executable;

pub use digest::{Digest, HashingWriter};
pub use error::Error;
pub use executable::Executable;
pub use image::{Image, Layer, Settings};
pub use layout::Layout;
pub use tree::{Content, Entry, Tree, gzip};
