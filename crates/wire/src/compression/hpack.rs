//! Header compression in HTTP/2 (HPACK, RFC 7541).
//!
//! [`Decoder`] decodes header blocks. It has the dynamic table the peer fills. [`encode_line`] encodes our own fields in advance,
//! and [`EncoderTable`] knows which of them are in the peer's table. For fields we do not know in advance, there is [`put_field`].
//! It does not use the table. This module does not interpret fields.

// Decodes header blocks.
mod decoder;
mod decoder_table;
mod field;
mod name;

// Encodes lines of the archive and fields that we do not know in advance.
mod encoder;
mod encoder_table;
mod line;

// For both.
mod error;
mod integer;
mod static_table;

pub use decoder::{Decoder, List};
pub(crate) use decoder_table::DecoderTable;
pub use encoder::put_field;
pub(crate) use encoder::put_string;
pub(crate) use encoder::put_text_length;
pub(crate) use encoder_table::put_name_index;
pub use encoder_table::{EncoderTable, FIRST_SERVER_LINE_ID};
pub use error::DecodeError;
pub use field::Field;
pub(crate) use field::{FIELD_OVERHEAD, is_name, is_value};
pub(crate) use integer::put as put_integer;
pub(crate) use line::encode_runs;
pub use line::{encode_head, encode_line, parse_field_lines};
pub use name::Name;
pub(crate) use static_table::{fields, find_in, index};
