//! Header compression for HTTP/2 (RFC 7541).
//!
//! What a peer sends is read by a [`Decoder`], which remembers what the peer has put into its table. What we send at run
//! time is spelled by [`put_field`], without a table. Never knows what fields mean, nor where a header block comes from.

mod decoder;
mod encode;
mod error;
mod field;
mod integer;
mod line;
mod name;
mod static_table;
mod table;

pub use decoder::{Decoder, List};
pub use encode::put_field;
pub use error::DecodeError;
pub use field::Field;
pub use line::{fields, line, runs};
pub use name::Name;
