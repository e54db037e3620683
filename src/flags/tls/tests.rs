//! Tests of the flags of TLS.

use super::*;
use clap::{Command, FromArgMatches};

fn flags(line: &str) -> TlsFlags {
    let words = ["server"].into_iter().chain(line.split_whitespace());
    let command = TlsFlags::augment_args(Command::new("server"));
    TlsFlags::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
}

#[test]
fn certificates_are_bundles_then_pairs_with_their_staples() {
    let line = "--tls-public a --tls-private b --tls-bundle c --tls-ocsp d --tls-public e --tls-private f";
    let tls = flags(line).into_tls(Vec::new()).unwrap().unwrap();
    let shown = tls.files().iter().map(|files| {
        let name = |path: Option<&PathBuf>| path.map_or("-".to_owned(), |path| path.display().to_string());
        let (key, staple) = (name(files.key.as_ref()), name(files.staple.as_ref()));
        format!("{} {key} {staple}", files.chain.display())
    });
    assert_eq!(shown.collect::<Vec<_>>(), ["c - d", "a b -", "e f -"]);
    assert!(tls.self_signed().is_none());
}

#[test]
fn incomplete_certificates_are_refused() {
    for line in [
        "--bind-tls 127.0.0.1:1",
        "--tls-public a --tls-private b --tls-public c",
        "--tls-self-ecdsa --tls-ocsp a",
    ] {
        assert!(flags(line).into_tls(Vec::new()).is_err(), "{line}");
    }
    assert!(flags("").into_tls(Vec::new()).unwrap().is_none());
}

#[test]
fn https_redirect_takes_an_optional_port() {
    assert_eq!(flags("").https_redirect(), None);
    assert_eq!(flags("--https-redirect").https_redirect(), Some(HttpsRedirect::OwnPort));
    assert_eq!(flags("--https-redirect=8443").https_redirect(), Some(HttpsRedirect::Port(8443)));
}
