//! TLS as a client: version 1.3 with one cipher and one group, the same that the load generators offer, and trust in
//! nothing but the certificate that all servers here have.

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

use super::tickets::Tickets;
use crate::bench::certificates::Certificate;
use crate::bench::wire::{Key, Protocol};
use crate::error::Error;

/// One client. It keeps no tickets unless it is told to.
#[derive(Clone)]
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    tickets: Option<Arc<Tickets>>,
}

impl Client {
    /// One who trusts a server with some kind of key, and wants to speak a protocol.
    pub(crate) fn new(key: Key, protocol: Protocol) -> Result<Client, Error> {
        let Certificate { public, .. } = Certificate::of(key)?;
        let unusable = |got: String| Error::Unexpected {
            what: public.display().to_string(),
            expected: "a certificate that a client can trust".into(),
            got,
        };
        let certificate =
            CertificateDer::from_pem_file(&public).map_err(|error| unusable(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
        let provider = CryptoProvider {
            cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
            kx_groups: vec![aws_lc_rs::kx_group::X25519],
            ..aws_lc_rs::default_provider()
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| unusable(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![match protocol {
            Protocol::Http1 => b"http/1.1".to_vec(),
            Protocol::Http2 => b"h2".to_vec(),
        }];
        Ok(Client { config: Arc::new(config), tickets: None })
    }

    /// The same with a memory of its own for tickets, which it collects and does not use yet.
    pub(crate) fn that_collects_tickets(&self) -> Client {
        let tickets = Arc::new(Tickets::default());
        let mut config = (*self.config).clone();
        config.resumption = Resumption::store(tickets.clone());
        Client { config: Arc::new(config), tickets: Some(tickets) }
    }

    /// From now on its handshakes are cut short, as long as there are tickets.
    pub(crate) fn begin_resuming(&self) {
        self.tickets.iter().for_each(|tickets| tickets.begin_giving());
    }

    /// How many tickets it has. Nothing if it wants none.
    pub(crate) fn tickets(&self) -> Option<usize> {
        self.tickets.as_ref().map(|tickets| tickets.count())
    }

    /// Handshakes on a connection. What the client wants to speak must be agreed on.
    pub(crate) fn secure(
        &self,
        mut connection: TcpStream,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let mut session = ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut connection)?;
        }
        let wanted = self.config.alpn_protocols.first();
        // Not to choose means HTTP/1.1 (RFC 7301 §3.2 lets a server do so), and is an error where HTTP/2 is wanted.
        let agreed = session.alpn_protocol().unwrap_or(b"http/1.1");
        if wanted.is_some_and(|wanted| wanted != agreed) {
            return Err(io::Error::other("the server does not agree on the protocol"));
        }
        Ok(StreamOwned::new(session, connection))
    }
}

/// Whether a handshake that is over was cut short by a ticket.
pub(crate) fn is_resumed(stream: &StreamOwned<ClientConnection, TcpStream>) -> bool {
    stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
}
