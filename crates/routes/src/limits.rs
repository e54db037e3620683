//! Limits for what handlers read and write.

/// A body may have this many bytes that have been written but not taken for sending. This is about as much
/// as one call sends.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Short writes of a function that writes a body are passed on once there are this many bytes.
pub const BODY_COLLECTED_BYTES: usize = 8 * 1024;

/// Once this many bytes are waiting for the handler, the client has to wait. What is on its way by then may come in addition.
pub const CONTENT_WAITING_BYTES: usize = 64 * 1024;

/// The number of parts that a form may have, unless the program sets another limit.
pub const PARTS_MAX: usize = 1000;

/// The most bytes before the content of a part: what precedes the first part, and the part's head. Browsers send about 200, unless a
/// file's name is long.
pub const PART_HEAD_BYTES_MAX: u64 = 16 * 1024;

/// The length of a part's text, in bytes. It is the default for a whole request, too.
pub const PART_TEXT_BYTES_MAX: u64 = 1 << 20;

/// Length of the boundary between parts (RFC 2046 §5.1.1).
pub const BOUNDARY_BYTES_MAX: usize = 70;
