//! One connection's TLS: records in, plain bytes out, and back.
//!
//! Keeps nothing of what passes through: what is not a whole record stays with the caller, and what is sealed goes into
//! the caller's buffer. Makes no system call, and allocates nothing once the handshake is done.

use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;

use rustls::ServerConfig;

use crate::established::Established;
use crate::handshake::{Done, Handshake};
use crate::{Failure, Opened, Protocol, Version};

/// One session, the server's side.
pub struct Session {
    stage: Stage,
    protocol: Option<Protocol>,
    version: Option<Version>,
    is_resumed: bool,
    /// Nothing is opened any more: the peer has ended, or failed.
    is_deaf: bool,
}

enum Stage {
    Handshake(Box<Handshake>),
    Established(Established),
    /// The handshake failed.
    Failed,
}

impl Session {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Result<Self, Failure> {
        let stage = Stage::Handshake(Box::new(Handshake::new(config)?));
        Ok(Self { stage, protocol: None, version: None, is_resumed: false, is_deaf: false })
    }

    /// Whether the handshake is still under way, or failed: nothing can be sealed before it is done.
    pub fn is_handshaking(&self) -> bool {
        !matches!(self.stage, Stage::Established(_))
    }

    /// What was agreed on by ALPN; none where the client did not ask, or before the handshake is done.
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// The version of TLS; `None` before the handshake is done.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Whether this session goes on from an earlier one, by a ticket.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Lets the key that seals be used up after so many records, as it is after millions.
    #[cfg(test)]
    pub(crate) fn limit_key(&mut self, records: u64) {
        if let Stage::Established(established) = &mut self.stage {
            established.limit_key(records);
        }
    }

    /// Opens the records at the start of `input`, which it changes in place. Plain bytes are appended to `plain`; what must
    /// be sent, handshake, ticket or alert, to `sealed`, also where this fails. Where `may_work` is false it stops before
    /// a step that costs much.
    pub fn open(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        sealed: &mut Vec<u8>,
        may_work: bool,
    ) -> Result<Opened, Failure> {
        let mut opened = Opened { has_ended: self.is_deaf, ..Opened::default() };
        if self.is_deaf {
            opened.used = input.len();
            return Ok(opened);
        }
        let result = self.open_until_end(input, &mut opened, plain, sealed, may_work);
        self.is_deaf = opened.has_ended || result.is_err();
        result.map(|()| opened)
    }

    fn open_until_end(
        &mut self,
        input: &mut [u8],
        opened: &mut Opened,
        plain: &mut Vec<u8>,
        sealed: &mut Vec<u8>,
        may_work: bool,
    ) -> Result<(), Failure> {
        if let Stage::Handshake(handshake) = &mut self.stage
            && handshake.advance(input, opened, sealed, may_work)?
            && let Stage::Handshake(handshake) = std::mem::replace(&mut self.stage, Stage::Failed)
        {
            let Done { established, protocol, version, is_resumed } = handshake.finish(sealed)?;
            self.stage = Stage::Established(established);
            self.protocol = protocol;
            self.version = Some(version);
            self.is_resumed = is_resumed;
        }
        match &mut self.stage {
            Stage::Established(established) => established.open(input, opened, plain, sealed),
            Stage::Handshake(_) | Stage::Failed => Ok(()),
        }
    }

    /// Seals `runs` into records, appended to `sealed`. Short runs gather in one record; records are small at the start of a
    /// long answer, so that the peer can open the first ones early.
    pub fn seal(&mut self, runs: &[IoSlice<'_>], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        match &mut self.stage {
            Stage::Established(established) => established.seal(runs, sealed),
            Stage::Handshake(_) | Stage::Failed => {
                Err(Failure::Internal("nothing can be sealed before the handshake is done".to_owned()))
            }
        }
    }

    /// Whether the connection should end soon: its key is almost used up, and its version of TLS knows no way to another
    /// (TLS 1.2). What is sealed beyond that fails with [`Failure::KeyUsedUp`]; the end can still be said.
    pub fn is_wearing_out(&self) -> bool {
        matches!(&self.stage, Stage::Established(established) if established.is_wearing_out())
    }

    /// The peer has had all that was sent and was silent for a second or more: what follows is sent as if the
    /// connection were new, in small records first.
    pub fn rest(&mut self) {
        if let Stage::Established(established) = &mut self.stage {
            established.rest();
        }
    }

    /// Seals the word that nothing follows (close_notify), once. Nothing is said where the handshake is not done, or
    /// where an alert has ended the session.
    pub fn close(&mut self, sealed: &mut Vec<u8>) {
        if let Stage::Established(established) = &mut self.stage {
            established.close(sealed);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("is_handshaking", &self.is_handshaking())
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}
