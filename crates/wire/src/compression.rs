//! Header compression of HTTP/2 and HTTP/3.

// HTTP/3 (RFC 9204).
pub mod qpack;

// HTTP/2 (RFC 7541).
pub mod hpack;

// The Huffman code of both.
pub mod huffman;

// Owners of the lines in an encoder's table.
pub(crate) mod table_owner;
