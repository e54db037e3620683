//! Tests of certificates whose files change.

use std::fs;

use cannery_archive::Loading;
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;

use super::*;
use crate::config::{Address, IssuedCertificate};

/// Returns a bundle with another key each time.
fn bundle() -> String {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    format!("{}{}", params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// Replaces the bundle, as the process does that issues.
fn replace(folder: &TempDir, text: &str) {
    let new = folder.path().join("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, folder.path().join("a.pem")).unwrap();
}

/// Opens the bundle in a folder, which another process has issued if `is_issued`. Archives aren't watched.
fn open(folder: &TempDir, is_issued: bool) -> CertificateLoader {
    let bundle = folder.path().join("a.pem");
    let tls = if is_issued {
        let issued = IssuedCertificate { bundle, names: vec!["a.example".to_owned()] };
        Tls::with_issued(vec![issued], Vec::new(), None)
    } else {
        Tls::new(vec![CertificateFiles::new(bundle)], None)
    };
    let mut tls = tls.unwrap();
    tls.listen = vec![Address::Internet("127.0.0.1:0".parse().unwrap())];
    let content = Content::Archives { archives: Vec::new(), loading: Loading::Automatic, watch: false };
    let mut config = Config::plain(content);
    config.tls = Some(tls);
    CertificateLoader::open(&config).unwrap().unwrap()
}

/// Checks the files until they count as stable.
fn check(loader: &mut CertificateLoader, trigger: Trigger) -> Vec<String> {
    let mut notices = Vec::new();
    for _ in 0..3 {
        notices.extend(loader.load_changed(trigger).iter().map(ToString::to_string));
    }
    notices
}

#[test]
fn issued_certificate_is_watched_without_archives() {
    let folder = tempfile::tempdir().unwrap();
    let mut loader = open(&folder, true);
    replace(&folder, &bundle());
    assert_eq!(check(&mut loader, Trigger::Interval), ["new certificates are used from now on"]);

    let mut loader = open(&folder, false);
    replace(&folder, &bundle());
    assert!(check(&mut loader, Trigger::Interval).is_empty());
    assert_eq!(check(&mut loader, Trigger::Request), ["new certificates are used from now on"]);
}

#[test]
fn only_new_certificates_are_announced() {
    let folder = tempfile::tempdir().unwrap();
    let first = bundle();
    replace(&folder, &first);
    let mut loader = open(&folder, true);
    // A copy.
    replace(&folder, &first);
    assert!(check(&mut loader, Trigger::Interval).is_empty());

    fs::remove_file(folder.path().join("a.pem")).unwrap();
    let refused = check(&mut loader, Trigger::Interval);
    assert!(refused.len() == 1 && refused[0].contains("previous certificates"), "{refused:?}");
    replace(&folder, &first);
    assert_eq!(check(&mut loader, Trigger::Interval), ["the certificate files can be used again"]);

    replace(&folder, &bundle());
    assert_eq!(check(&mut loader, Trigger::Interval), ["new certificates are used from now on"]);
}
