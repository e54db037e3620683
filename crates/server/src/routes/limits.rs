//! Limits for requests that handlers answer, and for the bytes we keep for them.

use std::time::Duration;

/// Maximum size of a request's content, in bytes. This is enough for a large form or JSON document, and
/// programs can change it.
pub(crate) const HANDLER_CONTENT_BYTES_MAX: u32 = 1 << 20;

/// How long a handler may keep a thread that serves connections before we report it. All of these connections
/// have to wait.
pub(crate) const WORKER_HANDLER_MAX: Duration = Duration::from_secs(1);

/// How many requests may be waiting for a thread of the pool. We refuse any more with 503 because people
/// would not wait for that long.
pub(crate) const HANDLERS_WAITING_MAX: usize = 1024;

/// How long a body may occupy a thread while others are waiting for one. We stop the oldest body first, so slow
/// clients cannot occupy all threads forever.
pub(crate) const BODY_OCCUPIES_MAX: Duration = Duration::from_secs(30);

/// If a body has been waiting for a thread for this long, we refuse any more with 503 instead of letting them
/// wait as well.
pub(crate) const BODY_WAITS_MAX: Duration = Duration::from_secs(10);

/// Maximum content size of all requests that have a thread or are waiting for one, in bytes. On a small
/// machine, this leaves enough memory for connections.
pub(crate) const HANDLERS_CONTENT_BYTES_MAX: usize = 64 << 20;

/// How much of a handler's body may be waiting for the windows of an HTTP/2 client, in bytes. We do not take
/// more from the handler until then.
pub(crate) const HANDLER_BODY_PENDING_BYTES: u64 = 16 * 1024;

/// How much an HTTP/3 connection may have sent without acknowledgment, in bytes, if the server has handlers.
/// Their bodies are in memory until they are acknowledged. Archives do not need such a limit.
pub(crate) const HANDLED_SEND_WINDOW_BYTES: u64 = 1 << 20;
