//! Checks of a ClientHello that QUIC requires but `rustls` does not make.

use quinn_proto::{TransportError, TransportErrorCode};
use rustls::AlertDescription;

/// Bytes before the session ID: message type, length, version and random bytes (RFC 8446 §4, §4.1.2).
const BYTES_BEFORE_SESSION_ID: usize = 1 + 3 + 2 + 32;

/// Number of the transport parameters extension. `rustls` also accepts the different one used by drafts
/// of QUIC.
const TRANSPORT_PARAMETERS: u16 = 0x39;
const TRANSPORT_PARAMETERS_OF_DRAFTS: u16 = 0xffa5;

/// Checks the first message of a client. It can arrive in several parts.
#[derive(Default)]
pub(super) struct HelloCheck {
    /// The message, until it is complete.
    message: Vec<u8>,
    is_checked: bool,
}

impl HelloCheck {
    /// Checks the message if this part completes it.
    pub(super) fn check(&mut self, part: &[u8]) -> Result<(), TransportError> {
        if self.is_checked {
            return Ok(());
        }
        let whole = if self.message.is_empty() && is_complete(part) {
            check_message(part)
        } else {
            self.message.extend_from_slice(part);
            if !is_complete(&self.message) {
                return Ok(());
            }
            check_message(&self.message)
        };
        self.is_checked = true;
        self.message = Vec::new();
        whole
    }
}

/// Whether the message is complete, or cannot be a ClientHello at all (which `rustls` will report).
fn is_complete(bytes: &[u8]) -> bool {
    match *bytes {
        [1, high, middle, low, ref rest @ ..] => {
            rest.len() >= usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low)
        }
        [] | [1, ..] => false,
        _ => true,
    }
}

fn check_message(message: &[u8]) -> Result<(), TransportError> {
    let error = |code, reason: &str| TransportError { code, frame: None, reason: reason.to_owned() };
    // See RFC 9001 §8.4.
    if message.first() == Some(&1) && message.get(BYTES_BEFORE_SESSION_ID).is_some_and(|length| *length > 0) {
        let reason = "the ClientHello has a session ID of earlier TLS versions";
        return Err(error(TransportErrorCode::PROTOCOL_VIOLATION, reason));
    }
    // See RFC 9001 §8.2.
    let mut has_parameters = false;
    let mut has_parameters_of_drafts = false;
    for extension in extension_types(message) {
        has_parameters |= extension == TRANSPORT_PARAMETERS;
        has_parameters_of_drafts |= extension == TRANSPORT_PARAMETERS_OF_DRAFTS;
    }
    if has_parameters_of_drafts && !has_parameters {
        let code = TransportErrorCode::crypto(AlertDescription::MissingExtension.into());
        return Err(error(code, "the ClientHello has no transport parameters"));
    }
    Ok(())
}

/// Returns the extension types. Stops at the first malformed extension.
fn extension_types(message: &[u8]) -> impl Iterator<Item = u16> {
    let mut rest = extensions(message).unwrap_or_default();
    std::iter::from_fn(move || {
        let extension = u16::from_be_bytes(rest.split_off(..2)?.try_into().ok()?);
        take_vector(&mut rest, 2)?;
        Some(extension)
    })
}

fn extensions(message: &[u8]) -> Option<&[u8]> {
    let mut rest = message.get(BYTES_BEFORE_SESSION_ID..)?;
    // Skip the session ID, the cipher suites, and the compression methods.
    take_vector(&mut rest, 1)?;
    take_vector(&mut rest, 2)?;
    take_vector(&mut rest, 1)?;
    take_vector(&mut rest, 2)
}

/// Removes a vector and the length, which has `length_bytes` bytes (RFC 8446 §3.4).
fn take_vector<'a>(rest: &mut &'a [u8], length_bytes: usize) -> Option<&'a [u8]> {
    let length = rest.split_off(..length_bytes)?;
    let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    rest.split_off(..length)
}

#[cfg(test)]
mod tests;
