//! Clients of the testkit that are connected to a session in memory, and certificates for it.

#![allow(dead_code, reason = "not every test uses everything")]

pub(crate) mod certs;
pub(crate) mod decompressor;

use std::io::{IoSlice, Read, Write};
use std::sync::Arc;
use std::time::SystemTime;

use cannery_testkit::tls::ClientOptions;
use cannery_transport::{
    Certificates, Context, Failure, HandshakePermit, OpenOutcome, Protocol, SelfSigned, Session, Settings,
    Version,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Error};

/// The reason why the calls of this module cannot fail.
const PAIR: &str = "client and session are compatible";

/// All kinds of self-signed keys.
pub(crate) const KINDS: [SelfSigned; 3] = [SelfSigned::Rsa, SelfSigned::Ecdsa, SelfSigned::Ed25519];

/// All versions of TLS.
pub(crate) const VERSIONS: [Version; 2] = [Version::Tls12, Version::Tls13];

/// Returns settings with a self-signed certificate and without tickets.
pub(crate) fn settings(kind: SelfSigned) -> Settings {
    let now = SystemTime::now();
    Settings {
        certificates: Certificates::self_signed(kind, &["localhost".to_owned()], now).expect(PAIR),
        seed: None,
        versions: VERSIONS.to_vec(),
        protocols: vec![Protocol::Http2, Protocol::Http11],
        now,
    }
}

/// Builds a context, which must succeed.
pub(crate) fn context(settings: Settings) -> Context {
    Context::new(settings).expect(PAIR)
}

/// Returns the options of a client that offers this version and these protocols.
pub(crate) fn client_options(version: Version, protocols: &[&str]) -> ClientOptions {
    let options = ClientOptions::default().protocols(protocols);
    match version {
        Version::Tls12 => options.tls12(),
        Version::Tls13 => options.tls13(),
    }
}

/// Returns the configuration of a client with all cipher suites and groups.
pub(crate) fn client_config(version: Version, protocols: &[&str]) -> ClientConfig {
    client_options(version, protocols).build()
}

/// A client and a session, with the bytes in flight between them.
pub(crate) struct Pair {
    pub(crate) client: ClientConnection,
    pub(crate) session: Session,
    /// Bytes in flight to the session, including an incomplete record that it left there.
    pub(crate) to_session: Vec<u8>,
    /// Bytes in flight to the client.
    pub(crate) to_client: Vec<u8>,
    /// The content of all records that the session has opened.
    pub(crate) plain: Vec<u8>,
    /// The outcome of the last call that opened records.
    pub(crate) outcome: OpenOutcome,
}

impl Pair {
    pub(crate) fn new(context: &Context, config: &Arc<ClientConfig>, name: &str) -> Self {
        let name = ServerName::try_from(name.to_owned()).expect(PAIR);
        Self {
            client: ClientConnection::new(config.clone(), name).expect(PAIR),
            session: context.session().expect(PAIR),
            to_session: Vec::new(),
            to_client: Vec::new(),
            plain: Vec::new(),
            outcome: OpenOutcome::default(),
        }
    }

    /// Creates a pair and completes its handshake.
    pub(crate) fn connected(context: &Context, config: &Arc<ClientConfig>) -> Self {
        let mut pair = Self::new(context, config, "localhost");
        pair.handshake().expect(PAIR);
        pair
    }

    /// Exchanges bytes until neither side has any to send.
    pub(crate) fn handshake(&mut self) -> Result<(), Failure> {
        self.handshake_in_parts(usize::MAX)
    }

    /// Completes the handshake, passing at most `part` bytes at a time to the session.
    pub(crate) fn handshake_in_parts(&mut self, part: usize) -> Result<(), Failure> {
        for _ in 0..10 {
            let was_handshaking = self.client.is_handshaking();
            self.flush_client();
            let sent = std::mem::take(&mut self.to_session);
            for part in sent.chunks(part.min(sent.len().max(1))) {
                self.to_session.extend_from_slice(part);
                self.open_in_session()?;
            }
            let received = self.to_client.len();
            self.read_in_client().expect(PAIR);
            if received == 0 && !was_handshaking && !self.client.wants_write() {
                return Ok(());
            }
        }
        panic!("the handshake does not end");
    }

    /// Moves the client's output to the bytes in flight.
    pub(crate) fn flush_client(&mut self) {
        while self.client.wants_write() {
            self.client.write_tls(&mut self.to_session).expect(PAIR);
        }
    }

    /// Passes the bytes in flight to the session. An incomplete record stays there.
    pub(crate) fn open_in_session(&mut self) -> Result<(), Failure> {
        let result = self.session.open(
            &mut self.to_session,
            &mut self.plain,
            &mut self.to_client,
            HandshakePermit::Granted,
        );
        self.outcome = result?;
        self.to_session.drain(..self.outcome.consumed);
        Ok(())
    }

    /// Passes the bytes in flight to the client. Returns the content.
    pub(crate) fn read_in_client(&mut self) -> Result<Vec<u8>, Error> {
        let mut plain = Vec::new();
        let sent = std::mem::take(&mut self.to_client);
        let mut sent = sent.as_slice();
        while !sent.is_empty() {
            let taken = self.client.read_tls(&mut sent).expect("memory can be read");
            let state = self.client.process_new_packets()?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            self.client.reader().read_exact(&mut plain[start..]).expect("the client has this many bytes");
            if taken == 0 {
                break;
            }
        }
        Ok(plain)
    }

    /// Sends `plain` from the client to the session.
    pub(crate) fn send_from_client(&mut self, plain: &[u8]) -> Result<(), Failure> {
        self.client.writer().write_all(plain).expect(PAIR);
        self.flush_client();
        self.open_in_session()
    }

    /// Sends the concatenation of `runs` from the session to the client. Returns what the client received.
    pub(crate) fn send_from_session(&mut self, runs: &[&[u8]]) -> Vec<u8> {
        let runs: Vec<_> = runs.iter().map(|run| IoSlice::new(run)).collect();
        self.session.seal(&runs, &mut self.to_client).expect(PAIR);
        self.read_in_client().expect(PAIR)
    }
}

/// Returns the lengths of the records in `sealed`, including their headers.
pub(crate) fn record_lengths(sealed: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut rest = sealed;
    while let [_, _, _, high, low, ..] = rest {
        let length = 5 + usize::from(u16::from_be_bytes([*high, *low]));
        lengths.push(length);
        rest = &rest[length..];
    }
    lengths
}
