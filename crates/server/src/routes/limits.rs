//! Limits for requests that handlers answer, and for the bytes we keep for them.

use std::time::Duration;

/// Maximum size, in bytes, of a request's content. The default is enough for a large form or JSON
/// document, and programs can change it.
pub(crate) const HANDLER_CONTENT_BYTES_MAX: u32 = 1 << 20;

/// Time after which we report a handler on a thread that serves connections. All of these
/// connections have to wait for it.
pub(crate) const WORKER_HANDLER_MAX: Duration = Duration::from_secs(1);

/// Maximum number of requests waiting for a thread of the pool. Any further requests are refused with
/// 503 because people would not wait for that long.
pub(crate) const HANDLERS_WAITING_MAX: usize = 1024;

/// Time for which a body may occupy a thread while others are waiting for one. The oldest body is stopped
/// first, so that slow clients cannot occupy all threads forever.
pub(crate) const BODY_OCCUPIES_MAX: Duration = Duration::from_secs(30);

/// Once a body has been waiting for a thread for this long, further bodies are refused with 503 instead of
/// having to wait, too.
pub(crate) const BODY_WAITS_MAX: Duration = Duration::from_secs(10);

/// Maximum content size, in bytes, of all requests that have a thread or are waiting for one. Even on a
/// small machine, this should leave enough memory for connections.
pub(crate) const HANDLERS_CONTENT_BYTES_MAX: usize = 64 << 20;

/// Maximum size, in bytes, of the part of a handler's body that is waiting for the windows of an HTTP/2
/// client. Until there is room again, no more is taken from the handler.
pub(crate) const HANDLER_BODY_PENDING_BYTES: u64 = 16 * 1024;

/// Maximum number of unacknowledged bytes that an HTTP/3 connection may have sent, if the server has
/// handlers. Their bodies stay in memory until they are acknowledged (archives do not need such a limit).
pub(crate) const HANDLED_SEND_WINDOW_BYTES: u64 = 1 << 20;
