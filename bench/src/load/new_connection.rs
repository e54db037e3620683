//! A connection and a TLS handshake for each request, full or resumed.
//!
//! No packaged tool resumes TLS 1.3 sessions on purpose: wrk and ab never do, h2load makes no new connections, and
//! `openssl s_time` has one connection at a time. Full handshakes use the same clients, so both are comparable. Every
//! response is compared with the expected content, and every handshake with the expected kind.
//!
//! We don't use the testkit's client, because it accepts any certificate. These clients verify it, as others do.

use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustls::client::{ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore, StreamOwned};

use super::Report;
use crate::certificates::Certificate;
use crate::http::{self, Response};
use crate::machine;
use crate::scenario::Wire;

/// Concurrent clients of one server.
pub(crate) struct Clients {
    address: SocketAddrV4,
    request: Vec<u8>,
    content: Vec<u8>,
    clients: Vec<Client>,
}

/// A client with its session tickets, if it resumes sessions.
struct Client {
    config: Arc<ClientConfig>,
    tickets: Option<Arc<Tickets>>,
}

impl Clients {
    /// Creates clients that send `request` and expect `content`. Each has its own tickets.
    pub(crate) fn new(
        address: SocketAddrV4,
        wire: Wire,
        request: Vec<u8>,
        content: Vec<u8>,
        (count, resume): (u32, bool),
    ) -> Result<Clients> {
        let config = config(wire)?;
        let client = |_| {
            let tickets = resume.then(Arc::<Tickets>::default);
            let mut config = config.clone();
            config.resumption = match &tickets {
                Some(tickets) => Resumption::store(Arc::<Tickets>::clone(tickets)),
                None => Resumption::disabled(),
            };
            Client { config: Arc::new(config), tickets }
        };
        Ok(Clients { address, request, content, clients: (0..count).map(client).collect() })
    }

    /// Makes full handshakes that don't count, and collects tickets.
    pub(crate) fn warm_up(&self, processors: &str, duration: Duration) -> Result<()> {
        self.run(processors, duration)?;
        for tickets in self.clients.iter().filter_map(|client| client.tickets.as_ref()) {
            tickets.is_collecting.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sends requests with all clients until the time is over or a client has no ticket left.
    pub(crate) fn run(&self, processors: &str, duration: Duration) -> Result<Report> {
        let started = Instant::now();
        let latencies = machine::in_threads(&self.clients, |client| {
            machine::pin_thread(processors)?;
            self.request_until(client, duration).with_context(|| format!("https://{}", self.address))
        })?;
        Ok(Report::of_latencies(latencies.concat(), started.elapsed()))
    }

    fn request_until(&self, client: &Client, duration: Duration) -> io::Result<Vec<Duration>> {
        let started = Instant::now();
        let mut latencies = Vec::new();
        while started.elapsed() < duration && !client.is_out_of_tickets() {
            let begun = Instant::now();
            self.request_once(client)?;
            latencies.push(begun.elapsed());
        }
        Ok(latencies)
    }

    fn request_once(&self, client: &Client) -> io::Result<()> {
        let mut stream = client.connect(http::connect(self.address)?)?;
        stream.write_all(&self.request)?;
        let response = Response::read(&mut BufReader::new(&mut stream))?;
        if response.status != 200 || response.content() != self.content {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the response differs from the file"));
        }
        stream.conn.send_close_notify();
        stream.flush()
    }
}

/// Returns a client's settings: TLS 1.3 with the cipher suite and group of `openssl.cnf`, and trust in one certificate.
fn config(wire: Wire) -> Result<ClientConfig> {
    let path = Certificate::for_wire(wire)?.public;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&path).with_context(|| path.display().to_string())?)?;

    let provider = CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![aws_lc_rs::kx_group::X25519],
        ..aws_lc_rs::default_provider()
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13])?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

impl Client {
    /// Makes a handshake of the expected kind.
    fn connect(&self, mut stream: TcpStream) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let mut session = ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }

        let is_resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
        let should_resume = self.tickets.as_ref().is_some_and(|tickets| !tickets.is_collecting());
        if is_resumed != should_resume {
            return Err(io::Error::other("a full handshake in place of a resumed one, or the reverse"));
        }
        Ok(StreamOwned::new(session, stream))
    }

    fn is_out_of_tickets(&self) -> bool {
        self.tickets.as_ref().is_some_and(|tickets| !tickets.is_collecting() && tickets.kept().is_empty())
    }
}

/// A store of session tickets that first collects and then returns them, each once (RFC 8446 appendix C.4).
///
/// Collecting is a phase of its own, because some servers send no ticket in a resumed handshake.
#[derive(Debug)]
struct Tickets {
    kept: Mutex<Vec<Tls13ClientSessionValue>>,
    is_collecting: AtomicBool,
}

impl Default for Tickets {
    fn default() -> Tickets {
        Tickets { kept: Mutex::default(), is_collecting: AtomicBool::new(true) }
    }
}

impl Tickets {
    fn is_collecting(&self) -> bool {
        self.is_collecting.load(Ordering::Relaxed)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Tls13ClientSessionValue>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Tickets {
    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.kept().push(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        if self.is_collecting() { None } else { self.kept().pop() }
    }

    // There is one group, and no TLS 1.2.
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}
}
