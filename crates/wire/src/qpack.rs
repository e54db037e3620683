//! Header compression for HTTP/3 (QPACK, RFC 9204).
//!
//! [`Decoder`] decodes the peer's field sections, and holds its dynamic table, which the peer fills by its encoder stream. Our
//! own field lines are encoded ahead of time by [`encode_line`]; [`EncoderTable`] tracks which of them are in the peer's table.
//! Fields that are known only at run time are encoded by [`put_field`], without a table. This module doesn't interpret fields.

// Decoder: field sections to fields, and the encoder stream of the peer.
mod decoder;
mod dynamic_table;

// Encoder: lines from the archive, and fields that are known only now.
mod encoder;
mod encoder_table;
mod line;

// Common to both.
mod error;
mod instruction;
mod integer;
mod literal;
mod static_table;

pub use decoder::{Decoder, FieldSection, InsertCount};
pub use encoder::put_field;
pub(crate) use encoder::{is_status, put_literal_name, put_name_index, put_status, static_name};
pub use encoder_table::EncoderTable;
pub use error::{Error, Fault};
pub use line::{encode_head, encode_line};
pub(crate) use static_table::index;
