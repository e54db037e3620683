//! Limits on the requests that handlers answer, and on the bytes that are kept for them.

use std::time::Duration;

/// The content of a request for a handler, in bytes, unless the program sets another limit: a large form or JSON document.
pub(crate) const HANDLER_CONTENT_BYTES_MAX: u32 = 1 << 20;

/// How long a handler may keep a thread that serves connections before it is reported, because all of them wait meanwhile.
pub(crate) const WORKER_HANDLER_MAX: Duration = Duration::from_secs(1);

/// Requests that wait for a thread of the pool. More are refused with 503, because their clients would wait longer than people do.
pub(crate) const HANDLERS_WAITING_MAX: usize = 1024;

/// How long a body that is written while it is sent may occupy a thread while others wait for one. The one that has occupied a thread
/// for longest is ended first, so that slow clients can't occupy all threads for good.
pub(crate) const BODY_OCCUPIES_MAX: Duration = Duration::from_secs(30);

/// Once a body has waited for a thread for this long, further ones are refused with 503 instead of waiting behind it.
pub(crate) const BODY_WAITS_MAX: Duration = Duration::from_secs(10);

/// The content of all requests that wait for a thread or have one, in bytes: they leave room for connections in the memory of a
/// small machine.
pub(crate) const HANDLERS_CONTENT_BYTES_MAX: usize = 64 << 20;

/// Bytes of a handler's body that wait for the windows of an HTTP/2 client. No more are taken from the handler before.
pub(crate) const HANDLER_BODY_PENDING_BYTES: u64 = 16 * 1024;

/// Bytes that an HTTP/3 connection of a server with handlers has sent, and that the client has not acknowledged: those of handlers
/// are in memory. The bytes of archives need no such limit.
pub(crate) const HANDLED_SEND_WINDOW_BYTES: u64 = 1 << 20;
