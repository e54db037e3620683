//! QUIC context: TLS configuration, keys, and connection ID layout. All endpoints of a server share it.

// Parameters that we announce to clients.
mod transport_parameters;

use std::fmt;
use std::sync::Arc;

use quinn_proto::{EndpointConfig, ServerConfig, ValidationTokenConfig};

use self::transport_parameters::{limit_endpoint, limit_server};
use super::cid::{ConnectionIdLayout, ConnectionIds, IdGenerator, Issuer, ServerId};
use super::crypto::ServerCrypto;
use super::crypto::stored_sessions::StoredSessions;
use super::crypto::suites;
use super::tokens::used_tokens::UsedTokens;
use super::tokens::{ResetKey, TokenKey};
use crate::Error;
use crate::tls::context::Clock;

/// Creates endpoints. It is cheap to clone, and clones share their state.
#[derive(Clone)]
pub struct Context {
    tls: Arc<rustls::ServerConfig>,
    ids: Arc<ConnectionIds>,
    reset_key: Arc<ResetKey>,
    token_key: Arc<TokenKey>,
    forwarding_key: [u8; FORWARDING_KEY_BYTES],
    clock: Clock,
}

/// Tells if we accept early data (0-RTT) from clients that resume a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EarlyData {
    /// Early data is not accepted. Tickets contain the sessions, so all processes with the same seed can
    /// resume them.
    #[default]
    Refused,
    /// Early data is accepted. The context stores the sessions and resumes each of them only once, to prevent
    /// early data from being replayed.
    Accepted,
}

/// Length of a key for forwarded datagrams, in bytes.
pub const FORWARDING_KEY_BYTES: usize = 16;

impl Context {
    /// Creates a context for HTTP/3. Since it shares the certificates, ticket secret and clock of `tls`,
    /// it will change together with it.
    ///
    /// With a `server_id`, a load balancer can route datagrams to this server by their connection IDs.
    ///
    /// # Errors
    /// Returns an error if `rustls` refuses the settings.
    pub fn new(
        tls: &crate::Context,
        server_id: Option<ServerId>,
        early_data: EarlyData,
    ) -> Result<Self, Error> {
        let secret = tls.static_secret();
        let mut forwarding_key = [0; FORWARDING_KEY_BYTES];
        secret.derive(b"cannery quic: forwarding", &mut forwarding_key);

        let config = match early_data {
            EarlyData::Refused => tls.quic_config(suites::provider())?,
            EarlyData::Accepted => {
                tls.quic_config_with_early_data(suites::provider(), Arc::new(StoredSessions::default()))?
            }
        };

        let context = Self {
            forwarding_key,
            tls: Arc::new(config),
            ids: Arc::new(ConnectionIds::new(ConnectionIdLayout::new(server_id), secret)),
            reset_key: Arc::new(ResetKey::new(secret)),
            token_key: Arc::new(TokenKey::new(secret)),
            clock: tls.clock().clone(),
        };

        // Check the configuration here because an endpoint could not report an error.
        ServerCrypto::new(context.tls.clone())?;
        Ok(context)
    }

    /// Returns the key that proves a forwarded datagram was sent by a process of this server.
    pub fn forwarding_key(&self) -> [u8; FORWARDING_KEY_BYTES] {
        self.forwarding_key
    }

    /// Returns the layout of connection IDs.
    pub fn id_layout(&self) -> ConnectionIdLayout {
        self.ids.layout()
    }

    /// Returns the endpoint (possibly in another process) that issued a datagram's destination connection
    /// ID. Returns `None` if the ID was chosen by a client or the datagram is not for this server.
    pub fn issuer_of(&self, datagram: &[u8]) -> Option<Issuer> {
        self.ids.issuer_of(datagram)
    }

    /// Returns an object that checks connection IDs.
    pub(super) fn ids(&self) -> Arc<ConnectionIds> {
        self.ids.clone()
    }

    /// Returns the configuration of an endpoint.
    pub(super) fn endpoint_config(&self, issuer: Issuer, id_key: [u8; 32]) -> EndpointConfig {
        let mut config = EndpointConfig::new(self.reset_key.clone());
        limit_endpoint(&mut config);
        let ids = self.ids.clone();
        config.cid_generator(move || Box::new(IdGenerator::new(ids.clone(), issuer, &id_key)));
        config
    }

    /// Returns the configuration for the connections of an endpoint.
    pub(super) fn server_config(&self) -> ServerConfig {
        let crypto = ServerCrypto::new(self.tls.clone()).expect("the context has checked the configuration");
        let mut config = ServerConfig::new(Arc::new(crypto), self.token_key.clone());
        config.time_source(Arc::new(self.clock.clone()));

        let mut tokens = ValidationTokenConfig::default();
        tokens.log(Arc::new(UsedTokens::new()));
        limit_server(&mut config, tokens);
        config
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Context").field("id_layout", &self.id_layout()).finish_non_exhaustive()
    }
}

/// Returns `true` if two keys are equal. This takes constant time for keys of the same length.
#[must_use]
pub fn are_equal(key: &[u8], other: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(key, other).is_ok()
}
