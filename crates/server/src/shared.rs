//! What every connection of a worker uses in turn, and none of them keeps.

use std::sync::Arc;
use std::time::Instant;

use cannery_site::Scratch;
use cannery_wire::{Output, ServerFields};

use crate::config::Timeouts;
use crate::content::Content;
use crate::observer::Observer;
use crate::transport::Buffers;

/// What every connection of a worker uses in turn.
pub(crate) struct Shared {
    pub(crate) content: Arc<Content>,
    pub(crate) fields: ServerFields,
    pub(crate) scratch: Scratch,
    pub(crate) output: Output,
    pub(crate) buffers: Buffers,
    pub(crate) timeouts: Option<Timeouts>,
    /// Whether each connection begins with a PROXY header.
    pub(crate) proxied: bool,
    pub(crate) now: Instant,
    pub(crate) observer: Observer,
    /// Bytes that a connection may receive and send in a turn.
    pub(crate) turn_bytes_max: u64,
    /// Of those, the ones that are left to the connection whose turn it is.
    pub(crate) turn_bytes: u64,
}
