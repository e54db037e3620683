//! Requests: heads in a form that all protocols share, and reasons to refuse them.

// Stores the lines of a head, and checks them.
pub(crate) mod head_store;

// Requests that wait for their content.
pub(crate) mod stored;

// Content that is passed on while it arrives.
pub(crate) mod streamed;

// The request line of HTTP/1.
pub(crate) mod line;

// The head, as callers get it.
pub(crate) mod head;

// Priorities of responses (RFC 9218).
pub(crate) mod priority;

// Reasons to refuse a request.
pub(crate) mod refusal;
