//! Limits for requests that handlers answer, and for the bytes we keep for them.

use std::time::Duration;

/// The default limit for the size of a request's content, in bytes. It is enough for a large form
/// or JSON document, and programs can change it.
pub(crate) const HANDLER_CONTENT_BYTES_MAX: u64 = 1 << 20;

/// If a handler takes longer than this on a thread that serves connections, we report it. All of
/// these connections have to wait for it.
pub(crate) const WORKER_HANDLER_MAX: Duration = Duration::from_secs(1);

/// If this many requests are waiting for a thread of the pool, any further ones are refused with 503,
/// because people would not wait for that long.
pub(crate) const HANDLERS_WAITING_MAX: usize = 1024;

/// While others are waiting for a thread, a body or an upload may only occupy one for this long. The oldest one is
/// stopped first, so that slow clients cannot occupy all threads forever.
pub(crate) const BODY_OCCUPIES_MAX: Duration = Duration::from_secs(30);

/// For each thread of the pool for handlers, there may be this many threads for bodies, and as many for uploads. They are only started
/// when they are needed, and typically wait for clients.
pub(crate) const BODY_THREADS_PER_HANDLER_THREAD: usize = 8;

/// Once a body or an upload has been waiting for a thread for this long, further ones are refused with 503 instead of
/// having to wait, too.
pub(crate) const BODY_WAITS_MAX: Duration = Duration::from_secs(10);

/// Short writes to a body wait this long for others, in milliseconds, so that they are sent together. People don't notice such a delay.
pub(crate) const BODY_COLLECTED_MS: u64 = 20;

/// Limit, in bytes, for the total content size of all requests that have a thread or are waiting for
/// one. Even on a small machine, this should leave enough memory for connections.
pub(crate) const HANDLERS_CONTENT_BYTES_MAX: usize = 64 << 20;

/// When this many bytes of a handler's body are waiting for the windows of an HTTP/2 client, no more is
/// taken from the handler until they have room again.
pub(crate) const HANDLER_BODY_PENDING_BYTES: u64 = 16 * 1024;

/// Whenever handlers have written this many more bytes than connections have taken, the worker compares its memory with the
/// limit, even if nothing else happens.
pub(crate) const KEPT_STEP_BYTES: usize = 256 * 1024;

/// If the server has handlers, an HTTP/3 connection may have sent at most this many bytes without
/// acknowledgment. Bodies from handlers stay in memory until they are acknowledged (archives do not need
/// such a limit).
pub(crate) const HANDLED_SEND_WINDOW_BYTES: u64 = 1 << 20;
