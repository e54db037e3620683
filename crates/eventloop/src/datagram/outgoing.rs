//! A message for a system call: a train, or as much of one as a call can send, with the address and the control messages in
//! the form of the system.

use super::control::Request;
use super::name::Name;

/// The most messages that one call sends.
pub(crate) const SENT_MAX: usize = 16;

/// A message to send, as a system call takes it.
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
