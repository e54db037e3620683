//! The flags of TLS: where it is spoken, by which certificates, and what within.
//!
//! Reads no file.

use std::path::PathBuf;

use cannery_server::config::{Address, CertificateFiles, HttpsRedirect, SelfSigned, Tls};
use clap::{Arg, ArgAction, ArgMatches, value_parser};

use super::{all, path, switch, value};
use crate::output::Failure;

/// The flags that make a certificate, and what kind each makes.
const SELF_SIGNED: [(&str, SelfSigned); 3] = [
    ("tls-self-rsa", SelfSigned::Rsa),
    ("tls-self-ecdsa", SelfSigned::Ecdsa),
    ("tls-self-ed25519", SelfSigned::Ed25519),
];

/// The flags.
pub(super) fn arguments() -> Vec<Arg> {
    let repeated = |argument: Arg| argument.action(ArgAction::Append);
    let mut arguments = vec![
        repeated(value(
            "bind-tls",
            "ADDRESS",
            "Listen here for HTTPS: TLS 1.3 or 1.2, with HTTP/2 or HTTP/1.1 as the client prefers. Addresses as for \
             `--bind`. Repeatable.",
        ))
        .value_parser(value_parser!(Address)),
        repeated(path(
            "tls-bundle",
            "FILE",
            "A certificate with its chain and its private key, in one PEM file. Repeatable: the name that a client asks \
             for decides which one it sees, and the first is for all other names. Read again when it changes.",
        )),
        repeated(path("tls-public", "FILE", "A certificate with its chain, in PEM, whose key is in a file of its own. Repeatable."))
            .requires("tls-private"),
        repeated(path(
            "tls-private",
            "FILE",
            "The private key for `--tls-public`, in PEM: the first key for the first certificate, and so on.",
        ))
        .requires("tls-public"),
        repeated(path(
            "tls-ocsp",
            "FILE",
            "An OCSP response, in DER, to staple: the first for the first certificate, and so on, bundles before pairs of \
             files. Read again when it changes.",
        )),
    ];
    let made =
        "certificate for trying out, made at the start with a key that stays in memory. No client trusts it.";
    let kinds = [
        format!("An RSA {made}"),
        format!("An ECDSA (P-256) {made}"),
        format!("An Ed25519 {made} Browsers do not support this kind."),
    ];
    for ((name, _), help) in SELF_SIGNED.into_iter().zip(kinds) {
        let others = SELF_SIGNED.map(|(other, _)| other).into_iter().filter(move |other| *other != name);
        arguments
            .push(Arg::new(name).long(name).help(help).action(ArgAction::SetTrue).conflicts_with_all(others));
    }
    arguments.extend([
        switch("http1-disable", "Serve HTTP/2 alone, over TLS and without.").conflicts_with("http2-disable"),
        switch("http2-disable", "Serve HTTP/1.1 alone, over TLS and without."),
        value(
            "https-redirect",
            "PORT",
            "Redirect requests without TLS to https, except below `/.well-known/acme-challenge/`. To the port of the \
             first `--bind-tls`, if no other is named.",
        )
        .num_args(0..=1)
        .require_equals(true)
        .value_parser(value_parser!(u16).range(1..)),
    ]);
    arguments.into_iter().map(|argument| argument.help_heading("TLS")).collect()
}

/// How TLS is spoken, if anything is said of it.
///
/// # Errors
/// The flags do not go together.
pub(super) fn read(matches: &ArgMatches) -> Result<Option<Tls>, Failure> {
    let certificates = certificates(matches)?;
    let self_signed = SELF_SIGNED.into_iter().find(|(name, _)| matches.get_flag(name)).map(|(_, kind)| kind);
    if certificates.is_empty() && self_signed.is_none() {
        if ["bind-tls", "bind-tls-2"].iter().any(|name| matches.try_contains_id(name).unwrap_or(false)) {
            let failure = Failure::usage("`--bind-tls` needs a certificate".to_owned());
            return Err(
                failure.hint("`--tls-bundle FILE` names one, `--tls-self-ecdsa` makes one for trying out")
            );
        }
        return Ok(None);
    }
    Ok(Some(Tls { certificates, self_signed, seed: None }))
}

/// The files of each certificate.
fn certificates(matches: &ArgMatches) -> Result<Vec<CertificateFiles>, Failure> {
    let bundles: Vec<PathBuf> = all(matches, "tls-bundle");
    let (chains, keys): (Vec<PathBuf>, Vec<PathBuf>) =
        (all(matches, "tls-public"), all(matches, "tls-private"));
    if chains.len() != keys.len() {
        let (chains, keys) = (chains.len(), keys.len());
        return Err(Failure::usage(format!(
            "there are {chains} of `--tls-public` and {keys} of `--tls-private`: each certificate needs its key"
        )));
    }
    let bundles = bundles.into_iter().map(|chain| CertificateFiles { chain, key: None, staple: None });
    let pairs = chains.into_iter().zip(keys).map(|(chain, key)| CertificateFiles {
        chain,
        key: Some(key),
        staple: None,
    });
    let mut certificates: Vec<_> = bundles.chain(pairs).collect();
    let staples: Vec<PathBuf> = all(matches, "tls-ocsp");
    if staples.len() > certificates.len() {
        return Err(Failure::usage("there are more of `--tls-ocsp` than certificates from files".to_owned()));
    }
    for (files, staple) in certificates.iter_mut().zip(staples) {
        files.staple = Some(staple);
    }
    Ok(certificates)
}

/// Where what is asked in the clear is sent to.
pub(super) fn https_redirect(matches: &ArgMatches) -> Option<HttpsRedirect> {
    let is_asked = matches.contains_id("https-redirect");
    let port = matches.get_one::<u16>("https-redirect");
    is_asked.then(|| port.map_or(HttpsRedirect::OwnPort, |port| HttpsRedirect::Port(*port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    fn matches(line: &str) -> ArgMatches {
        let words = ["server"].into_iter().chain(line.split_whitespace());
        Command::new("server").args(arguments()).try_get_matches_from(words).unwrap()
    }

    #[test]
    fn certificates_are_bundles_and_then_pairs_each_with_its_staple() {
        let line =
            "--tls-public a --tls-private b --tls-bundle c --tls-ocsp d --tls-public e --tls-private f";
        let tls = read(&matches(line)).unwrap().unwrap();
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
    fn what_does_not_go_together_is_refused() {
        for line in [
            "--bind-tls 127.0.0.1:1",
            "--tls-public a --tls-private b --tls-public c",
            "--tls-self-ecdsa --tls-ocsp a",
        ] {
            assert!(read(&matches(line)).is_err(), "{line}");
        }
        assert!(read(&matches("")).unwrap().is_none());
    }

    #[test]
    fn a_redirect_may_have_a_port() {
        assert_eq!(https_redirect(&matches("")), None);
        assert_eq!(https_redirect(&matches("--https-redirect")), Some(HttpsRedirect::OwnPort));
        assert_eq!(https_redirect(&matches("--https-redirect=8443")), Some(HttpsRedirect::Port(8443)));
    }
}
