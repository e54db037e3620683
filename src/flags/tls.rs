//! The flags of TLS: addresses, certificates, and the versions of HTTP.
//!
//! Reads no file.

use std::path::PathBuf;

use cannery_server::config::{Address, CertificateFiles, HttpsRedirect, SelfSigned, Tls};
use clap::{Args, value_parser};

use crate::output::Failure;

#[derive(Debug, Args)]
pub(super) struct TlsFlags {
    /// Listen here for HTTPS: TLS 1.3 or 1.2, with HTTP/2 or HTTP/1.1 as the client prefers. Addresses as for
    /// `--bind`. Repeatable.
    #[arg(long, value_name = "ADDRESS")]
    bind_tls: Vec<Address>,

    /// One more address. The flag that it is named after is repeatable.
    #[arg(long, value_name = "ADDRESS", hide = true)]
    bind_tls_2: Vec<Address>,

    /// A certificate with its chain and its private key, in one PEM file. Repeatable: the name that a client asks
    /// for decides which one it sees, and the first is for all other names. Read again when it changes.
    #[arg(long, value_name = "FILE")]
    tls_bundle: Vec<PathBuf>,

    /// A certificate with its chain, in PEM, whose key is in a file of its own. Repeatable.
    #[arg(long, value_name = "FILE", requires = "tls_private")]
    tls_public: Vec<PathBuf>,

    /// The private key for `--tls-public`, in PEM: the first key for the first certificate, and so on.
    #[arg(long, value_name = "FILE", requires = "tls_public")]
    tls_private: Vec<PathBuf>,

    /// An OCSP response, in DER, to staple: the first for the first certificate, and so on, bundles before pairs of
    /// files. Read again when it changes.
    #[arg(long, value_name = "FILE")]
    tls_ocsp: Vec<PathBuf>,

    /// An RSA certificate for trying out, made at the start with a key that stays in memory. No client trusts it.
    #[arg(long, conflicts_with_all = ["tls_self_ecdsa", "tls_self_ed25519"])]
    tls_self_rsa: bool,

    /// An ECDSA (P-256) certificate for trying out, made at the start with a key that stays in memory. No client
    /// trusts it.
    #[arg(long, conflicts_with_all = ["tls_self_rsa", "tls_self_ed25519"])]
    tls_self_ecdsa: bool,

    /// An Ed25519 certificate for trying out, made at the start with a key that stays in memory. No client trusts
    /// it. Browsers do not support this kind.
    #[arg(long, conflicts_with_all = ["tls_self_rsa", "tls_self_ecdsa"])]
    tls_self_ed25519: bool,

    /// Serve HTTP/2 alone, over TLS and without.
    #[arg(long, conflicts_with = "http2_disable")]
    pub(super) http1_disable: bool,

    /// Serve HTTP/1.1 alone, over TLS and without.
    #[arg(long)]
    pub(super) http2_disable: bool,

    /// Redirect requests without TLS to https, except below `/.well-known/acme-challenge/`. To the port of the
    /// first `--bind-tls`, if no other is named.
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
    /// Returns the addresses at which the server listens for TLS.
    pub(super) fn addresses(&self) -> Vec<Address> {
        [self.bind_tls.as_slice(), &self.bind_tls_2].concat()
    }

    /// Returns the target of redirects for requests without TLS. `None` if there are no redirects.
    pub(super) fn https_redirect(&self) -> Option<HttpsRedirect> {
        self.https_redirect.map(|port| port.map_or(HttpsRedirect::OwnPort, HttpsRedirect::Port))
    }

    /// Returns the certificates. `None` if there are none.
    ///
    /// # Errors
    /// An address for TLS has no certificate, a certificate has no key, or an OCSP response no certificate.
    pub(super) fn into_tls(self) -> Result<Option<Tls>, Failure> {
        let has_address = !self.addresses().is_empty();
        let self_signed = self.self_signed();
        let certificates = self.into_certificates()?;
        if certificates.is_empty() && self_signed.is_none() {
            if has_address {
                return Err(Failure::usage("`--bind-tls` needs a certificate")
                    .hint("`--tls-bundle FILE` names one, `--tls-self-ecdsa` makes one for trying out"));
            }
            return Ok(None);
        }
        Ok(Some(Tls { certificates, self_signed, seed: None }))
    }

    fn self_signed(&self) -> Option<SelfSigned> {
        let kinds = [
            (self.tls_self_rsa, SelfSigned::Rsa),
            (self.tls_self_ecdsa, SelfSigned::Ecdsa),
            (self.tls_self_ed25519, SelfSigned::Ed25519),
        ];
        kinds.into_iter().find_map(|(is_given, kind)| is_given.then_some(kind))
    }

    /// Returns the files of each certificate: bundles first, then pairs of files.
    fn into_certificates(self) -> Result<Vec<CertificateFiles>, Failure> {
        let (chains, keys) = (self.tls_public, self.tls_private);
        if chains.len() != keys.len() {
            return Err(Failure::usage(format!(
                "there are {} of `--tls-public` and {} of `--tls-private`: each certificate needs its key",
                chains.len(),
                keys.len()
            )));
        }
        let bundles = self.tls_bundle.into_iter().map(|chain| (chain, None));
        let pairs = chains.into_iter().zip(keys.into_iter().map(Some));
        let mut certificates: Vec<_> =
            bundles.chain(pairs).map(|(chain, key)| CertificateFiles { chain, key, staple: None }).collect();

        if self.tls_ocsp.len() > certificates.len() {
            return Err(Failure::usage("there are more of `--tls-ocsp` than certificates from files"));
        }
        for (files, staple) in certificates.iter_mut().zip(self.tls_ocsp) {
            files.staple = Some(staple);
        }
        Ok(certificates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn flags(line: &str) -> TlsFlags {
        let words = ["server"].into_iter().chain(line.split_whitespace());
        let command = TlsFlags::augment_args(Command::new("server"));
        TlsFlags::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
    }

    #[test]
    fn certificates_are_bundles_then_pairs_with_their_staples() {
        let line =
            "--tls-public a --tls-private b --tls-bundle c --tls-ocsp d --tls-public e --tls-private f";
        let tls = flags(line).into_tls().unwrap().unwrap();
        let shown = tls.certificates.iter().map(|files| {
            let name =
                |path: Option<&PathBuf>| path.map_or("-".to_owned(), |path| path.display().to_string());
            let (key, staple) = (name(files.key.as_ref()), name(files.staple.as_ref()));
            format!("{} {key} {staple}", files.chain.display())
        });
        assert_eq!(shown.collect::<Vec<_>>(), ["c - d", "a b -", "e f -"]);
        assert!(tls.self_signed.is_none());
    }

    #[test]
    fn incomplete_certificates_are_refused() {
        for line in [
            "--bind-tls 127.0.0.1:1",
            "--tls-public a --tls-private b --tls-public c",
            "--tls-self-ecdsa --tls-ocsp a",
        ] {
            assert!(flags(line).into_tls().is_err(), "{line}");
        }
        assert!(flags("").into_tls().unwrap().is_none());
    }

    #[test]
    fn https_redirect_takes_an_optional_port() {
        assert_eq!(flags("").https_redirect(), None);
        assert_eq!(flags("--https-redirect").https_redirect(), Some(HttpsRedirect::OwnPort));
        assert_eq!(flags("--https-redirect=8443").https_redirect(), Some(HttpsRedirect::Port(8443)));
    }
}
