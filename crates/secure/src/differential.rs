//! What we seal and open, against the same by `rustls`, which shares nothing with our records but the keys.
//!
//! Both ends do what bytes tell them, in any order: they say something, cut up what is on the way, change keys, damage a
//! byte, and end. What arrives is always the start of what was said, and all of it where nothing was damaged.

use std::io::{IoSlice, Write};
use std::sync::{Arc, LazyLock};

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;

use crate::support::{Pair, VERSIONS, client_config_of, context, settings};
use crate::{Context, Failure, SelfSigned, Version};

/// A client for each suite of each version that there is.
static CLIENTS: LazyLock<Vec<(Version, Arc<ClientConfig>)>> = LazyLock::new(|| {
    let all = aws_lc_rs::default_provider().cipher_suites;
    let of = |version: Version| {
        let is_of = move |suite: &&rustls::SupportedCipherSuite| {
            (suite.tls13().is_some() == (version == Version::Tls13))
                && !format!("{suite:?}").contains("ECDHE_RSA")
        };
        all.iter().filter(is_of).map(move |&suite| {
            let mut provider = aws_lc_rs::default_provider();
            provider.cipher_suites = vec![suite];
            provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
            (version, Arc::new(client_config_of(provider, version, &[])))
        })
    };
    VERSIONS.into_iter().rev().flat_map(of).collect()
});

static CONTEXT: LazyLock<Context> = LazyLock::new(|| context(settings(SelfSigned::Ecdsa)));

/// What is said: any part of it tells where it is from.
fn text(start: usize, length: usize) -> Vec<u8> {
    (start..start + length).map(|place| place.wrapping_mul(0x9e37_79b1).to_be_bytes()[3]).collect()
}

/// Both ends, and how much each has said and heard.
struct Twins {
    version: Version,
    pair: Pair,
    /// On the way to the session, and not handed to it yet.
    before_session: Vec<u8>,
    /// On the way to the client, and not handed to it yet.
    before_client: Vec<u8>,
    client_said: usize,
    session_said: usize,
    client_heard: Vec<u8>,
    has_session_closed: bool,
    has_client_closed: bool,
    is_damaged: bool,
    failure: Option<Failure>,
    key_updates: usize,
}

impl Twins {
    fn new(choice: u8) -> Self {
        let (version, config) = &CLIENTS[usize::from(choice) % CLIENTS.len()];
        Self {
            version: *version,
            pair: Pair::connected(&CONTEXT, config),
            before_session: Vec::new(),
            before_client: Vec::new(),
            client_said: 0,
            session_said: 0,
            client_heard: Vec::new(),
            has_session_closed: false,
            has_client_closed: false,
            is_damaged: false,
            failure: None,
            key_updates: 0,
        }
    }

    fn client_says(&mut self, length: usize) {
        if self.client_speaks_on() {
            self.pair.client.writer().write_all(&text(self.client_said, length)).unwrap();
            self.client_said += length;
            self.client_speaks();
        }
    }

    /// Whether the client may still say something.
    fn client_speaks_on(&self) -> bool {
        !self.has_client_closed && self.failure.is_none()
    }

    fn client_speaks(&mut self) {
        while self.pair.client.wants_write() {
            self.pair.client.write_tls(&mut self.before_session).unwrap();
        }
    }

    fn session_says(&mut self, lengths: &[usize]) {
        if self.has_session_closed || self.failure.is_some() {
            return;
        }
        let runs: Vec<Vec<u8>> = lengths
            .iter()
            .map(|&length| {
                self.session_said += length;
                text(self.session_said - length, length)
            })
            .collect();
        let runs: Vec<_> = runs.iter().map(|run| IoSlice::new(run)).collect();
        self.pair.session.seal(&runs, &mut self.before_client).unwrap();
    }

    /// Hands the session so many bytes more.
    fn hand_to_session(&mut self, bytes: usize) {
        let bytes = bytes.min(self.before_session.len());
        self.pair.to_session.extend(self.before_session.drain(..bytes));
        if let Err(failure) = self.pair.session_listens() {
            assert!(self.is_damaged, "{failure}");
            self.failure = Some(failure);
            self.pair.to_session.clear();
        }
        self.before_client.append(&mut self.pair.to_client);
        assert!(text(0, self.client_said).starts_with(&self.pair.plain));
    }

    /// Hands the client so many bytes more.
    fn hand_to_client(&mut self, bytes: usize) {
        let bytes = bytes.min(self.before_client.len());
        self.pair.to_client.extend(self.before_client.drain(..bytes));
        match self.pair.client_listens() {
            Ok(plain) => self.client_heard.extend(plain),
            Err(error) => assert!(self.failure.is_some(), "{error}"),
        }
        // It may have been asked for a new key.
        self.client_speaks();
        assert!(text(0, self.session_said).starts_with(&self.client_heard));
    }

    /// Does what the next bytes tell; false at their end.
    fn step(&mut self, data: &mut impl Iterator<Item = u8>) -> bool {
        let (Some(what), Some(high), Some(low)) = (data.next(), data.next(), data.next()) else {
            return false;
        };
        let number = usize::from(u16::from_be_bytes([high, low]));
        // Small ones more often than large ones.
        let length = number >> (what >> 4);
        match what & 15 {
            0..=2 => self.client_says(length),
            3 | 4 => self.session_says(&[length]),
            5 => self.session_says(&[length >> 4, 0, length, usize::from(low), length >> 2]),
            6..=8 => self.hand_to_session(length),
            9..=11 => self.hand_to_client(length),
            12 if self.version == Version::Tls13 && self.client_speaks_on() => {
                self.pair.client.refresh_traffic_keys().unwrap();
                self.key_updates += 1;
                // A flood of them ends the session, which is another test.
                self.client_says(1);
            }
            13 if self.version == Version::Tls13 => {
                self.pair.session.limit_key(1 + u64::from(low & 3));
                self.key_updates += 1;
            }
            14 => self.end_or_rest(high, low),
            15 if low < 32 && high < 64 && !self.before_session.is_empty() => {
                let place = number % self.before_session.len();
                self.before_session[place] ^= 1 << (what >> 4 & 7);
                self.is_damaged = true;
            }
            _ => {}
        }
        true
    }

    fn end_or_rest(&mut self, high: u8, low: u8) {
        match (high, low) {
            (0..16, 0..128) => {
                self.pair.session.close(&mut self.before_client);
                self.has_session_closed = true;
            }
            (0..16, _) => {
                self.pair.client.send_close_notify();
                self.client_speaks();
                self.has_client_closed = true;
            }
            _ => self.pair.session.rest(),
        }
    }

    /// Lets all arrive that is on the way.
    fn settle(&mut self) {
        while !self.before_session.is_empty() || !self.before_client.is_empty() {
            self.hand_to_session(usize::MAX);
            self.hand_to_client(usize::MAX);
        }
        if !self.is_damaged {
            assert_eq!(self.pair.plain.len(), self.client_said);
            assert_eq!(self.client_heard.len(), self.session_said);
            assert!(self.pair.to_session.is_empty());
            assert_eq!(self.pair.opened.has_ended, self.has_client_closed);
        }
    }
}

/// Does what bytes tell: the first chooses version and suite.
fn follow(data: &[u8]) -> Twins {
    let mut data = data.iter().copied();
    let mut twins = Twins::new(data.next().unwrap_or(0));
    while twins.step(&mut data) {}
    twins.settle();
    twins
}

#[test]
fn what_arrives_is_what_was_said_whatever_both_ends_do() {
    let mut state = 3_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let (mut heard, mut key_updates, mut failures, mut ends) = (0, 0, 0, 0);
    for round in 0..240 {
        let data: Vec<u8> = (0..1 + 3 * 60).map(|place| if place == 0 { round } else { random() }).collect();
        let twins = follow(&data);
        heard += twins.pair.plain.len() + twins.client_heard.len();
        key_updates += twins.key_updates;
        failures += usize::from(twins.failure.is_some());
        ends += usize::from(twins.has_client_closed) + usize::from(twins.has_session_closed);
    }
    // So that a change of the numbers above does not empty the test.
    assert!(
        heard > 10_000_000 && key_updates > 300 && failures > 5 && ends > 20,
        "{heard} {key_updates} {failures} {ends}"
    );
}

#[test]
fn a_key_that_is_used_up_is_followed_by_another_before_the_next_record() {
    let mut twins = Twins::new(0);
    assert_eq!(twins.version, Version::Tls13, "the first client");
    for _ in 0..10 {
        twins.pair.session.limit_key(4);
        // Three records by the key, the word of the next one, and three records by that.
        for _ in 0..6 {
            twins.session_says(&[100]);
        }
        assert_eq!(twins.before_client.len(), 6 * (100 + 22) + 5 + 22);
        twins.settle();
    }
}
