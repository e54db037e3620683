//! A message to send: a train, or the part of one that a call can send, with its address and control messages.

use super::control::Request;
use super::name::Name;

/// The most messages that one call sends.
pub(crate) const SENT_MAX: usize = 16;

/// A message to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub(crate) name: Name,
    pub(crate) control: Request,
    pub(crate) bytes: &'a [u8],
}

impl Outgoing<'_> {
    /// A message to no address.
    pub(super) const NONE: Outgoing<'static> =
        Outgoing { name: Name::NONE, control: Request::new(), bytes: &[] };
}
