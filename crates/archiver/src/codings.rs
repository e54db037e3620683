//! Content codings: encoders, and decoders that trust nothing.
//!
//! Each encoder has a row in [`encoder`] and a file of its own here, which [`coders`] calls.

pub(crate) mod bounded; // Limits for decoders.
pub(crate) mod coders; // Encoders and decoders with a common interface.
pub(crate) mod encoder; // Name, coding, levels and cost of each encoder.
pub(crate) mod levels; // The chosen levels.

mod brotli;
mod gzip;
mod zopfli;
mod zstd;
