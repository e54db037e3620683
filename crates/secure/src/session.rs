//! One connection's TLS: records in, plain bytes out, and back.
//!
//! Keeps nothing of what passes through: what is not a whole record stays with the caller, and what is sealed goes into
//! the caller's buffer. Makes no system call.

use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{HandshakeKind, InvalidMessage, ServerConfig};

use crate::Failure;
use crate::limits;

/// What is spoken inside, agreed on by ALPN (RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, and HTTP/1.0 for those who ask for that.
    Http11,
    /// HTTP/2.
    Http2,
}

impl Protocol {
    /// The names that clients ask for it by.
    pub(crate) fn names(self) -> Vec<Vec<u8>> {
        match self {
            Self::Http11 => vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()],
            Self::Http2 => vec![b"h2".to_vec()],
        }
    }
}

/// What became of the bytes that were handed to [`Session::open`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// How many of them, from the start, are done with. The others must be handed in again, as they were left,
    /// with what comes behind them.
    pub used: usize,
    /// The peer says that nothing follows.
    pub has_ended: bool,
    /// A step of the handshake was taken that costs much.
    pub has_worked: bool,
    /// Such a step is due, and was not allowed: nothing more can happen before it is.
    pub is_put_off: bool,
}

/// One session, the server's side.
pub struct Session {
    connection: UnbufferedServerConnection,
    /// What the peer has sent of its handshake.
    handshake_bytes: usize,
    /// What was sealed since the last pause, up to [`limits::FIRST_FLIGHT_BYTES`].
    flight_bytes: usize,
    /// Nothing is opened any more: the peer has ended, or failed.
    is_deaf: bool,
}

impl Session {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Result<Self, Failure> {
        let connection = UnbufferedServerConnection::new(config)?;
        Ok(Self { connection, handshake_bytes: 0, flight_bytes: 0, is_deaf: false })
    }

    /// Whether the handshake is still under way: nothing can be sealed before it is done.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// What was agreed on by ALPN; none where the client did not ask, or before the handshake is done.
    pub fn protocol(&self) -> Option<Protocol> {
        match self.connection.alpn_protocol()? {
            b"h2" => Some(Protocol::Http2),
            _ => Some(Protocol::Http11),
        }
    }

    /// Whether this session goes on from an earlier one, by a ticket.
    pub fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Opens the records at the start of `input`, which it may change in place. Plain bytes are appended to `plain`;
    /// what must be sent, handshake, ticket or alert, to `sealed`, also where this fails. Where `may_work` is false it
    /// stops before a step that costs much.
    pub fn open(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        sealed: &mut Vec<u8>,
        may_work: bool,
    ) -> Result<Opened, Failure> {
        let mut opened = Opened::default();
        if self.is_deaf {
            return Ok(Opened { used: input.len(), has_ended: true, ..opened });
        }
        if self.is_handshaking() {
            if looks_like_http(input) && self.handshake_bytes == 0 {
                self.is_deaf = true;
                return Err(Failure::PlainHttp);
            }
            if !may_work && is_whole_handshake_record(input) {
                opened.is_put_off = true;
                return Ok(opened);
            }
        }
        let was_handshaking = self.is_handshaking();
        let sealed_before = sealed.len();
        let result = self.process(input, &mut opened, plain, sealed);
        if was_handshaking {
            opened.has_worked = sealed.len() > sealed_before;
            self.handshake_bytes += opened.used;
            let pending = if self.is_handshaking() { input.len() - opened.used } else { 0 };
            if result.is_ok() && self.handshake_bytes + pending > limits::HANDSHAKE_BYTES_MAX {
                self.is_deaf = true;
                return Err(Failure::HandshakeTooLong);
            }
        }
        if let Err(error) = result {
            self.is_deaf = true;
            self.drain(sealed);
            return Err(match error {
                rustls::Error::InvalidMessage(
                    InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
                ) if self.handshake_bytes == 0 => Failure::NotTls,
                error => error.into(),
            });
        }
        self.is_deaf |= opened.has_ended;
        Ok(opened)
    }

    fn process(
        &mut self,
        input: &mut [u8],
        opened: &mut Opened,
        plain: &mut Vec<u8>,
        sealed: &mut Vec<u8>,
    ) -> Result<(), rustls::Error> {
        loop {
            let UnbufferedStatus { discard, state } =
                self.connection.process_tls_records(&mut input[opened.used..]);
            let mut more = 0;
            match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        more += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => append(sealed, |room| match data.encode(room) {
                    Ok(written) => Ok(written),
                    Err(EncodeError::InsufficientSize(short)) => Err(short.required_size),
                    Err(EncodeError::AlreadyEncoded) => Ok(0),
                }),
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed | ConnectionState::Closed => {
                    opened.has_ended = true;
                    opened.used = input.len();
                    return Ok(());
                }
                _ => {
                    opened.used += discard;
                    return Ok(());
                }
            }
            opened.used += discard + more;
        }
    }

    /// Appends what the library has to say, such as an alert.
    fn drain(&mut self, sealed: &mut Vec<u8>) {
        let (mut nothing, mut none) = ([], Vec::new());
        let _ = self.process(&mut nothing, &mut Opened::default(), &mut none, sealed);
    }

    /// Seals `runs` into records, appended to `sealed`: every record is full before the next begins. Records are small
    /// at the start of a long answer after a pause, so that the peer can open the first ones early.
    pub fn seal(&mut self, runs: &[IoSlice<'_>], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        let total: usize = runs.iter().map(|run| run.len()).sum();
        let mut content = Vec::with_capacity(total.min(limits::CONTENT_BYTES_MAX));
        let mut left = total;
        for run in runs {
            let mut run = &**run;
            while !run.is_empty() {
                let size = self.content_bytes(left);
                let (part, rest) = run.split_at(run.len().min(size.saturating_sub(content.len())));
                content.extend_from_slice(part);
                run = rest;
                if content.len() >= size {
                    left -= content.len();
                    self.seal_record(&content, sealed)?;
                    content.clear();
                }
            }
        }
        if content.is_empty() { Ok(()) } else { self.seal_record(&content, sealed) }
    }

    /// The content of the next record, of an answer of which so much is left.
    fn content_bytes(&self, left: usize) -> usize {
        if self.flight_bytes >= limits::FIRST_FLIGHT_BYTES
            || self.flight_bytes + left <= limits::FIRST_FLIGHT_BYTES
        {
            limits::CONTENT_BYTES_MAX
        } else {
            limits::FIRST_CONTENT_BYTES
        }
    }

    fn seal_record(&mut self, content: &[u8], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        self.flight_bytes = (self.flight_bytes + content.len()).min(limits::FIRST_FLIGHT_BYTES);
        loop {
            let status = self.connection.process_tls_records(&mut []);
            match status.state? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let mut is_used_up = false;
                    append(sealed, |room| match traffic.encrypt(content, room) {
                        Ok(written) => Ok(written),
                        Err(EncryptError::InsufficientSize(short)) => Err(short.required_size),
                        Err(EncryptError::EncryptExhausted) => {
                            is_used_up = true;
                            Ok(0)
                        }
                    });
                    return if is_used_up { Err(Failure::KeyUsedUp) } else { Ok(()) };
                }
                ConnectionState::EncodeTlsData(mut data) => append(sealed, |room| match data.encode(room) {
                    Ok(written) => Ok(written),
                    Err(EncodeError::InsufficientSize(short)) => Err(short.required_size),
                    Err(EncodeError::AlreadyEncoded) => Ok(0),
                }),
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => {}
                _ => return Err(Failure::Internal("nothing can be sealed now".to_owned())),
            }
        }
    }

    /// The peer has had all that was sent and was silent for a second or more: what follows is sent as if the
    /// connection were new, in small records first.
    pub fn rest(&mut self) {
        self.flight_bytes = 0;
    }

    /// Seals the word that nothing follows (close_notify). Nothing is said where the handshake is not done.
    pub fn close(&mut self, sealed: &mut Vec<u8>) {
        if self.is_handshaking() {
            return;
        }
        self.drain(sealed);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) =
            self.connection.process_tls_records(&mut []).state
        {
            append(sealed, |room| match traffic.queue_close_notify(room) {
                Ok(written) => Ok(written),
                Err(EncryptError::InsufficientSize(short)) => Err(short.required_size),
                Err(EncryptError::EncryptExhausted) => Ok(0),
            });
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("is_handshaking", &self.is_handshaking())
            .field("protocol", &self.protocol())
            .finish_non_exhaustive()
    }
}

/// Appends what `write` writes; it says how much room it needs where it has too little.
fn append(sealed: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, usize>) {
    let start = sealed.len();
    let mut room = 0;
    loop {
        sealed.resize(start + room, 0);
        match write(&mut sealed[start..]) {
            Ok(written) => return sealed.truncate(start + written),
            // Cannot ask for as much twice.
            Err(needed) => room = needed.max(room + 1),
        }
    }
}

/// Whether a request in the clear begins here: a record's first byte is never a letter.
fn looks_like_http(input: &[u8]) -> bool {
    ["GET ", "HEAD ", "POST ", "PUT ", "OPTIONS ", "PRI * "]
        .iter()
        .any(|method| input.starts_with(method.as_bytes()))
}

/// Whether a whole record of the handshake, in the clear, waits at the start of `input`: what follows costs a
/// signature or a key exchange.
fn is_whole_handshake_record(input: &[u8]) -> bool {
    match input {
        [22, _, _, high, low, content @ ..] => {
            content.len() >= usize::from(u16::from_be_bytes([*high, *low]))
        }
        _ => false,
    }
}
