//! A message to send, in the form that system calls need: either a segment batch, or as much of it as a single call can send.

use super::control::Request;
use super::name::Name;

/// Maximum number of messages that a call sends.
pub(crate) const SENT_MAX: usize = 16;

/// A message to send, in the form that system calls need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutgoingMessage<'a> {
    pub(crate) name: Name,
    pub(crate) control: Request,
    pub(crate) bytes: &'a [u8],
}

impl OutgoingMessage<'_> {
    /// A message to no address.
    pub(super) const NONE: OutgoingMessage<'static> =
        OutgoingMessage { name: Name::NONE, control: Request::new(), bytes: &[] };
}
