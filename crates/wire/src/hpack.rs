//! Header compression for HTTP/2 (RFC 7541).
//!
//! What a peer sends is read by a [`Decoder`], which remembers what the peer has put into its table. What we send is spelled
//! ahead, a [`encode_line`] at a time; [`EncoderTable`] remembers which of those the peer has in its table. What cannot be spelled ahead is
//! spelled by [`put_field`], without a table. Never knows what fields mean, nor where a header block comes from.

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
