//! HTTP/3: a client over UDP, plus frames and field sections for tests that need to send their own (RFC 9114,
//! RFC 9204).

mod client;
mod forging;
mod frame;
mod qpack;
mod static_table;

pub use client::{Client, Options, forged_initial_datagrams, initial_datagrams};
pub use forging::{Forgery, Level};
pub use frame::{
    CANCEL_PUSH, CONTROL_STREAM, DATA, GOAWAY, HEADERS, MAX_PUSH_ID, SETTINGS, frame, take_frame, varint,
};
pub use qpack::{decode, field_section};
pub use quinn_proto::{Dir, Side, StreamId};
