//! Header compression in HTTP/3 (QPACK, RFC 9204).
//!
//! [`Decoder`] decodes field sections. It has the dynamic table that the peer fills on its encoder stream. [`encode_line`] encodes
//! our own fields in advance, and [`EncoderTable`] knows which of them are in the peer's table. For fields we do not know in
//! advance, there is [`put_field`]. It does not use the table. This module does not interpret fields.

// Decodes field sections and the peer's encoder stream.
mod decoder;
mod dynamic_table;

// Encodes lines of the archive and fields we do not know in advance.
mod encoder;
mod encoder_table;
mod line;

// For both.
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
