//! Differential test of our record protection against `rustls` (the two only share the keys).
//!
//! A sequence of bytes drives a session and a `rustls` client through random operations: both of them send,
//! deliver input in pieces, update keys, flip a bit in flight, and close. Each side must receive a prefix of
//! what the other one sent, or all of it unless a byte was damaged.

use std::io::{IoSlice, Write};
use std::sync::{Arc, LazyLock};

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;

use crate::support::{Pair, VERSIONS, client_options, context, settings};
use crate::{Context, Failure, SelfSigned, Version};

/// A client configuration for each cipher suite of each version.
static CLIENTS: LazyLock<Vec<(Version, Arc<ClientConfig>)>> = LazyLock::new(|| {
    let all = aws_lc_rs::default_provider().cipher_suites;
    let configs_of = |version: Version| {
        let is_usable = move |suite: &&rustls::SupportedCipherSuite| {
            (suite.tls13().is_some() == (version == Version::Tls13))
                && !format!("{suite:?}").contains("ECDHE_RSA")
        };
        all.iter().filter(is_usable).map(move |&suite| {
            let mut provider = aws_lc_rs::default_provider();
            provider.cipher_suites = vec![suite];
            provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
            (version, Arc::new(client_options(version, &[]).provider(provider).build()))
        })
    };
    VERSIONS.into_iter().rev().flat_map(configs_of).collect()
});

static CONTEXT: LazyLock<Context> = LazyLock::new(|| context(settings(SelfSigned::Ecdsa)));

/// Returns `length` bytes of a stream from `start` on, in which any part reveals its position.
fn stream(start: usize, length: usize) -> Vec<u8> {
    (start..start + length).map(|position| position.wrapping_mul(0x9e37_79b1).to_be_bytes()[3]).collect()
}

/// A session and a client, with what each has sent and received.
struct Model {
    version: Version,
    pair: Pair,
    /// Bytes in flight to the session.
    to_session: Vec<u8>,
    /// Bytes in flight to the client.
    to_client: Vec<u8>,
    client_sent: usize,
    session_sent: usize,
    client_received: Vec<u8>,
    has_session_closed: bool,
    has_client_closed: bool,
    is_damaged: bool,
    failure: Option<Failure>,
    key_updates: usize,
}

impl Model {
    fn new(choice: u8) -> Self {
        let (version, config) = &CLIENTS[usize::from(choice) % CLIENTS.len()];
        Self {
            version: *version,
            pair: Pair::connected(&CONTEXT, config),
            to_session: Vec::new(),
            to_client: Vec::new(),
            client_sent: 0,
            session_sent: 0,
            client_received: Vec::new(),
            has_session_closed: false,
            has_client_closed: false,
            is_damaged: false,
            failure: None,
            key_updates: 0,
        }
    }

    fn send_from_client(&mut self, length: usize) {
        if self.can_client_send() {
            self.pair.client.writer().write_all(&stream(self.client_sent, length)).unwrap();
            self.client_sent += length;
            self.flush_client();
        }
    }

    /// Returns `true` if the client may still send.
    fn can_client_send(&self) -> bool {
        !self.has_client_closed && self.failure.is_none()
    }

    fn flush_client(&mut self) {
        while self.pair.client.wants_write() {
            self.pair.client.write_tls(&mut self.to_session).unwrap();
        }
    }

    fn send_from_session(&mut self, lengths: &[usize]) {
        if self.has_session_closed || self.failure.is_some() {
            return;
        }
        let runs: Vec<Vec<u8>> = lengths
            .iter()
            .map(|&length| {
                self.session_sent += length;
                stream(self.session_sent - length, length)
            })
            .collect();
        let runs: Vec<_> = runs.iter().map(|run| IoSlice::new(run)).collect();
        self.pair.session.seal(&runs, &mut self.to_client).unwrap();
    }

    /// Delivers up to `bytes` bytes to the session.
    fn deliver_to_session(&mut self, bytes: usize) {
        let bytes = bytes.min(self.to_session.len());
        self.pair.to_session.extend(self.to_session.drain(..bytes));
        if let Err(failure) = self.pair.open_in_session() {
            assert!(self.is_damaged, "{failure}");
            self.failure = Some(failure);
            self.pair.to_session.clear();
        }
        self.to_client.append(&mut self.pair.to_client);
        assert!(stream(0, self.client_sent).starts_with(&self.pair.plain));
    }

    /// Delivers up to `bytes` bytes to the client.
    fn deliver_to_client(&mut self, bytes: usize) {
        let bytes = bytes.min(self.to_client.len());
        self.pair.to_client.extend(self.to_client.drain(..bytes));
        match self.pair.read_in_client() {
            Ok(plain) => self.client_received.extend(plain),
            Err(error) => assert!(self.failure.is_some(), "{error}"),
        }
        // The session might have requested a KeyUpdate.
        self.flush_client();
        assert!(stream(0, self.session_sent).starts_with(&self.client_received));
    }

    /// Performs the operation that three bytes encode.
    fn step(&mut self, [operation, high, low]: [u8; 3]) {
        let number = usize::from(u16::from_be_bytes([high, low]));
        // Short lengths are more frequent than long ones.
        let length = number >> (operation >> 4);

        match operation & 15 {
            0..=2 => self.send_from_client(length),
            3 | 4 => self.send_from_session(&[length]),
            5 => self.send_from_session(&[length >> 4, 0, length, usize::from(low), length >> 2]),
            6..=8 => self.deliver_to_session(length),
            9..=11 => self.deliver_to_client(length),
            12 if self.version == Version::Tls13 && self.can_client_send() => {
                self.pair.client.refresh_traffic_keys().unwrap();
                self.key_updates += 1;
                // Data in between because consecutive updates are limited.
                self.send_from_client(1);
            }
            13 if self.version == Version::Tls13 => {
                self.pair.session.limit_key(1 + u64::from(low & 3));
                self.key_updates += 1;
            }
            14 => self.close_or_pause(high, low),
            15 if low < 32 && high < 64 && !self.to_session.is_empty() => {
                let position = number % self.to_session.len();
                self.to_session[position] ^= 1 << (operation >> 4 & 7);
                self.is_damaged = true;
            }
            _ => {}
        }
    }

    fn close_or_pause(&mut self, high: u8, low: u8) {
        match (high, low) {
            (0..16, 0..128) => {
                self.pair.session.close(&mut self.to_client);
                self.has_session_closed = true;
            }
            (0..16, _) => {
                self.pair.client.send_close_notify();
                self.flush_client();
                self.has_client_closed = true;
            }
            _ => self.pair.session.reset_record_size(),
        }
    }

    /// Delivers everything in flight in order to check the result.
    fn finish(&mut self) {
        while !self.to_session.is_empty() || !self.to_client.is_empty() {
            self.deliver_to_session(usize::MAX);
            self.deliver_to_client(usize::MAX);
        }
        if !self.is_damaged {
            assert_eq!(self.pair.plain.len(), self.client_sent);
            assert_eq!(self.client_received.len(), self.session_sent);
            assert!(self.pair.to_session.is_empty());
            assert_eq!(self.pair.outcome.peer_has_closed, self.has_client_closed);
        }
    }
}

/// Performs the operations that bytes encode; the first selects version and cipher suite.
fn run(choice: u8, operations: &[[u8; 3]]) -> Model {
    let mut model = Model::new(choice);
    for operation in operations {
        model.step(*operation);
    }
    model.finish();
    model
}

#[test]
fn records_interoperate_with_rustls_for_random_operations() {
    let mut state = 3_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };

    let mut received = 0;
    let mut key_updates = 0;
    let mut failures = 0;
    let mut closes = 0;

    for round in 0..240 {
        let operations: Vec<[u8; 3]> = (0..60).map(|_| [random(), random(), random()]).collect();
        let model = run(round, &operations);
        received += model.pair.plain.len() + model.client_received.len();
        key_updates += model.key_updates;
        failures += usize::from(model.failure.is_some());
        closes += usize::from(model.has_client_closed) + usize::from(model.has_session_closed);
    }

    // Checks that each kind of operation occurred often enough.
    assert!(
        received > 10_000_000 && key_updates > 300 && failures > 5 && closes > 20,
        "{received} {key_updates} {failures} {closes}"
    );
}

#[test]
fn key_is_updated_before_it_is_exhausted() {
    let mut model = Model::new(0);
    assert_eq!(model.version, Version::Tls13, "the first configuration");
    for _ in 0..10 {
        model.pair.session.limit_key(4);
        // Three records under the key, its KeyUpdate, and three records under the next key.
        for _ in 0..6 {
            model.send_from_session(&[100]);
        }
        assert_eq!(model.to_client.len(), 6 * (100 + 22) + 5 + 22);
        model.finish();
    }
}
