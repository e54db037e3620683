//! TLS: certificates, listeners and HTTP/3.

use std::path::PathBuf;

use super::{Address, CertificateFiles, SelfSigned, ServerId};

/// Protocol between the transport and HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenerKind {
    /// HTTP directly over TCP or a Unix socket.
    Plain,
    /// HTTP over TLS.
    Tls,
}

impl ListenerKind {
    /// Returns the scheme of the URLs that the listener serves.
    #[must_use]
    pub fn scheme(self) -> &'static str {
        match self {
            ListenerKind::Plain => "http",
            ListenerKind::Tls => "https",
        }
    }

    /// Returns a tag for passing a connection of this kind to another worker.
    pub(crate) fn tag(self) -> u32 {
        match self {
            ListenerKind::Plain => 0,
            ListenerKind::Tls => 1,
        }
    }

    pub(crate) fn from_tag(tag: u32) -> ListenerKind {
        if tag == 0 { ListenerKind::Plain } else { ListenerKind::Tls }
    }
}

/// Certificates, and what is served with them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Tls {
    /// Addresses to listen on. Port 0 selects a free port.
    pub listen: Vec<Address>,
    /// HTTP/3, or `None` if it is disabled.
    pub http3: Option<Http3>,
    /// A file with a secret of at least 32 bytes. Servers with the same one resume each other's sessions.
    pub ticket_seed: Option<PathBuf>,
    /// Together with `issued` and `self_signed`, this is at least one certificate.
    files: Vec<CertificateFiles>,
    issued: Vec<IssuedCertificate>,
    self_signed: Option<SelfSigned>,
}

/// A certificate that another process obtains and renews. Until its file exists, a temporary certificate is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// The certificate with its chain and key, in one PEM file.
    pub bundle: PathBuf,
    /// DNS names and addresses of the certificate.
    pub names: Vec<String>,
}

impl Tls {
    /// Returns TLS without addresses, or `None` if there is no certificate.
    ///
    /// The first certificate is the default, for clients that do not send a server name or ask for a name that no
    /// certificate covers. With `self_signed`, a temporary certificate is generated as well.
    #[must_use]
    pub fn new(files: Vec<CertificateFiles>, self_signed: Option<SelfSigned>) -> Option<Tls> {
        let has_certificate = !files.is_empty() || self_signed.is_some();
        has_certificate.then(|| Tls {
            listen: Vec::new(),
            http3: Some(Http3::default()),
            ticket_seed: None,
            files,
            issued: Vec::new(),
            self_signed,
        })
    }

    /// Returns TLS without addresses, with certificates that another process obtains, or `None` if there is no certificate at all.
    ///
    /// They come after those from `files`, and before the one that is generated.
    #[must_use]
    pub fn with_issued(
        issued: Vec<IssuedCertificate>,
        files: Vec<CertificateFiles>,
        self_signed: Option<SelfSigned>,
    ) -> Option<Tls> {
        if issued.is_empty() {
            return Tls::new(files, self_signed);
        }
        Some(Tls {
            listen: Vec::new(),
            http3: Some(Http3::default()),
            ticket_seed: None,
            files,
            issued,
            self_signed,
        })
    }

    /// Returns the certificates that another process obtains.
    #[must_use]
    pub fn issued(&self) -> &[IssuedCertificate] {
        &self.issued
    }

    /// Returns the files of certificates and keys.
    #[must_use]
    pub fn files(&self) -> &[CertificateFiles] {
        &self.files
    }

    /// Returns the kind of the temporary certificate, if one is generated.
    #[must_use]
    pub fn self_signed(&self) -> Option<SelfSigned> {
        self.self_signed
    }
}

/// HTTP/3 settings. HTTP/3 is served if there is an address, or if sockets are passed to the process.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Http3 {
    /// Addresses for UDP sockets. Port 0 selects a free port.
    pub listen: Vec<Address>,
    /// Host and port to be announced in `Alt-Svc`. `None` means the port of the first socket.
    pub alternative: Option<String>,
    /// Server number to put into connection IDs, so that a load balancer can route datagrams.
    pub server_id: Option<ServerId>,
}

/// Where to redirect requests without TLS: the port of the `https` URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpsRedirect {
    /// Port of the server's first TLS listener, or 443 if we do not know.
    OwnPort,
    /// A fixed port, e.g. one that a router or container maps to the server's port.
    Port(u16),
}

impl HttpsRedirect {
    /// Returns the port for a server with these listeners.
    pub(crate) fn port(self, addresses: &[(ListenerKind, Address)]) -> u16 {
        let own = addresses.iter().find_map(|(kind, address)| match (kind, address) {
            (ListenerKind::Tls, address) => address.port(),
            _ => None,
        });
        match self {
            HttpsRedirect::OwnPort => own.unwrap_or(443),
            HttpsRedirect::Port(port) => port,
        }
    }
}
