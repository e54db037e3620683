//! Header compression for HTTP/2 (HPACK, RFC 7541).
//!
//! [`Decoder`] decodes what a peer sends, and holds the peer's dynamic table. What we send is encoded ahead of time, line by
//! line, by [`encode_line`]; [`EncoderTable`] tracks which of these lines are in the peer's table. What cannot be encoded
//! ahead of time is encoded by [`put_field`], without a table. This module doesn't know what fields mean.

mod decoder;
mod encoder;
mod encoder_table;
mod error;
mod field;
mod integer;
mod line;
mod name;
mod static_table;
mod table;

pub use decoder::{Decoder, List};
pub use encoder::put_field;
pub(crate) use encoder::put_text_length;
pub(crate) use encoder_table::put_name_index;
pub use encoder_table::{EncoderTable, FIRST_SERVER_LINE_ID};
pub use error::DecodeError;
pub use field::Field;
pub use line::{encode_head, encode_line, parse_field_lines};
pub use name::Name;
pub(crate) use static_table::index;
