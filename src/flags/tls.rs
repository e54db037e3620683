//! TLS flags: addresses, certificates and HTTP versions.
//!
//! We don't read files here.

use std::path::PathBuf;

use cannery_server::config::{
    Address, CertificateFiles, HttpVersions, HttpsRedirect, IssuedCertificate, SelfSigned, Tls,
};
use clap::{Args, value_parser};

use crate::output::Failure;

#[derive(Debug, Args)]
pub(super) struct TlsFlags {
    /// Listen here for HTTPS: TLS 1.3 or 1.2, with HTTP/2 or HTTP/1.1 as the client prefers. Addresses as for
    /// `--bind`. Repeatable.
    #[arg(long, value_name = "ADDRESS")]
    bind_tls: Vec<Address>,

    /// Another address, as in kawipiko. `--bind-tls` is repeatable.
    #[arg(long, value_name = "ADDRESS", hide = true)]
    bind_tls_2: Vec<Address>,

    /// A certificate with its chain and its private key, in one PEM file. Repeatable: a client gets the certificate for the
    /// name that it requests (SNI), or the first one. The file is read again when it changes.
    #[arg(long, value_name = "FILE")]
    tls_bundle: Vec<PathBuf>,

    /// A certificate with its chain, in PEM, with the key in a separate file. Repeatable.
    #[arg(long, value_name = "FILE", requires = "tls_private")]
    tls_public: Vec<PathBuf>,

    /// The private key for `--tls-public`, in PEM: the first key for the first certificate, and so on.
    #[arg(long, value_name = "FILE", requires = "tls_public")]
    tls_private: Vec<PathBuf>,

    /// An OCSP response, in DER, to staple: the first for the first certificate, and so on, bundles before pairs of
    /// files. The file is read again when it changes.
    #[arg(long, value_name = "FILE")]
    tls_ocsp: Vec<PathBuf>,

    /// A file with a secret of 32 or more random bytes, the same on several servers: they resume each other's sessions, over TCP and
    /// QUIC. Other users must not be able to read it. It is read at startup.
    #[arg(long, value_name = "FILE")]
    tls_ticket_seed: Option<PathBuf>,

    /// Use an RSA certificate for tests, created at startup with a key that stays in memory. No client trusts it.
    #[arg(long, conflicts_with_all = ["tls_self_ecdsa", "tls_self_ed25519"])]
    tls_self_rsa: bool,

    /// Use an ECDSA (P-256) certificate for tests, created at startup with a key that stays in memory. No client trusts
    /// it.
    #[arg(long, conflicts_with_all = ["tls_self_rsa", "tls_self_ed25519"])]
    tls_self_ecdsa: bool,

    /// Use an Ed25519 certificate for tests, created at startup with a key that stays in memory. No client trusts it, and
    /// browsers do not support the algorithm.
    #[arg(long, conflicts_with_all = ["tls_self_rsa", "tls_self_ecdsa"])]
    tls_self_ed25519: bool,

    /// Serve only HTTP/2, with and without TLS.
    #[arg(long, conflicts_with = "http2_disable")]
    http1_disable: bool,

    /// Serve only HTTP/1.1, with and without TLS.
    #[arg(long)]
    http2_disable: bool,

    /// Redirect requests without TLS to https, except below `/.well-known/acme-challenge/`. The default is the port of the
    /// first `--bind-tls`.
    #[arg(
        long,
        value_name = "PORT",
        num_args = 0..=1,
        require_equals = true,
        value_parser = value_parser!(u16).range(1..)
    )]
    https_redirect: Option<Option<u16>>,
}

impl TlsFlags {
    /// Returns `true` if the server listens for TLS.
    pub(super) fn has_address(&self) -> bool {
        !self.bind_tls.is_empty() || !self.bind_tls_2.is_empty()
    }

    /// Listens on port 443 of every address, and redirects to it unless the command line says where to.
    pub(super) fn listen_by_default(&mut self) {
        self.bind_tls.push(Address::Every(443));
        self.https_redirect.get_or_insert(None);
    }

    /// Says where requests without TLS are redirected to, or returns `None` if they aren't.
    pub(super) fn https_redirect(&self) -> Option<HttpsRedirect> {
        self.https_redirect.map(|port| port.map_or(HttpsRedirect::OwnPort, HttpsRedirect::Port))
    }

    /// Returns the HTTP versions over TCP.
    pub(super) fn versions(&self) -> HttpVersions {
        match (self.http1_disable, self.http2_disable) {
            (true, _) => HttpVersions::Http2,
            (false, true) => HttpVersions::Http1,
            (false, false) => HttpVersions::All,
        }
    }

    /// Returns the certificates and the addresses, or `None` if there are none. Another process obtains those that are `issued`.
    ///
    /// # Errors
    /// There's an address for TLS but no certificate, a certificate without a key, or an OCSP response without a certificate.
    pub(super) fn into_tls(self, issued: Vec<IssuedCertificate>) -> Result<Option<Tls>, Failure> {
        let listen = [self.bind_tls.as_slice(), &self.bind_tls_2].concat();
        let self_signed = self.self_signed();
        let ticket_seed = self.tls_ticket_seed.clone();
        match Tls::with_issued(issued, self.into_certificates()?, self_signed) {
            Some(mut tls) => {
                tls.listen = listen;
                tls.ticket_seed = ticket_seed;
                Ok(Some(tls))
            }
            None if ticket_seed.is_some() => {
                Err(Failure::usage("`--tls-ticket-seed` needs a certificate, because sessions are those of TLS")
                    .hint("`--tls-bundle FILE` names one, `--certificates NAMES` obtains one"))
            }
            None if listen.is_empty() => Ok(None),
            None => Err(Failure::usage("`--bind-tls` needs a certificate")
                .hint(
                    "`--tls-bundle FILE` names one, `--certificates NAMES` obtains one, `--tls-self-ecdsa` creates one for tests",
                )),
        }
    }

    fn self_signed(&self) -> Option<SelfSigned> {
        let kinds = [
            (self.tls_self_rsa, SelfSigned::Rsa),
            (self.tls_self_ecdsa, SelfSigned::Ecdsa),
            (self.tls_self_ed25519, SelfSigned::Ed25519),
        ];
        kinds.into_iter().find_map(|(is_given, kind)| is_given.then_some(kind))
    }

    /// Pairs up the files of each certificate. Bundles come first, then pairs.
    fn into_certificates(self) -> Result<Vec<CertificateFiles>, Failure> {
        let (chains, keys) = (self.tls_public, self.tls_private);
        if chains.len() != keys.len() {
            return Err(Failure::usage(format!(
                "`--tls-public` is given {} times and `--tls-private` {} times: each certificate needs its key",
                chains.len(),
                keys.len()
            )));
        }
        let bundles = self.tls_bundle.into_iter().map(CertificateFiles::new);
        let pairs =
            chains.into_iter().zip(keys).map(|(chain, key)| CertificateFiles::new(chain).with_key(key));
        let mut certificates: Vec<_> = bundles.chain(pairs).collect();

        if self.tls_ocsp.len() > certificates.len() {
            return Err(Failure::usage(
                "`--tls-ocsp` is given more often than there are certificates from files",
            ));
        }
        for (files, staple) in certificates.iter_mut().zip(self.tls_ocsp) {
            files.staple = Some(staple);
        }
        Ok(certificates)
    }
}

#[cfg(test)]
mod tests;
