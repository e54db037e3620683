//! Header compression for HTTP/2 (HPACK, RFC 7541).
//!
//! [`Decoder`] decodes the peer's header blocks, and holds its dynamic table. Our own field lines are encoded
//! ahead of time by [`encode_line`]; [`EncoderTable`] tracks which of them are in the peer's table. Fields
//! that are known only at run time are encoded by [`put_field`], without a table. This module doesn't
//! interpret fields.

// Decoder: header blocks to fields.
mod decoder;
mod decoder_table;
mod field;
mod name;

// Encoder: lines from the archive, and fields that are known only now.
mod encoder;
mod encoder_table;
mod line;

// Common to both.
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
