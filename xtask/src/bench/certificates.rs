//! The certificates of all servers under measurement: one for each kind of key, made by OpenSSL below `target/`.
//!
//! They are good for 127.0.0.1 only, and trusted by nobody but the clients here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::wire::Key;
use crate::error::Error;
use crate::project;

/// A certificate and its key, each kind of server finds it in the form that it wants.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    pub(crate) public: PathBuf,
    pub(crate) private: PathBuf,
    /// Both in one file.
    pub(crate) bundle: PathBuf,
}

impl Certificate {
    /// The certificate with some kind of key, made if it is not there.
    pub(crate) fn of(key: Key) -> Result<Certificate, Error> {
        let folder = project::outside().join("certificates").join(key.name());
        if !folder.is_dir() {
            make(key, &folder)?;
        }
        // Servers go to other folders, so they are told the whole path.
        let folder = folder.canonicalize().map_err(|source| Error::file(&folder, source))?;
        Ok(Certificate::in_folder(&folder))
    }

    fn in_folder(folder: &Path) -> Certificate {
        let [public, private, bundle] =
            ["public.pem", "private.pem", "bundle.pem"].map(|name| folder.join(name));
        Certificate { public, private, bundle }
    }
}

/// Makes it in a folder that gets its name when all of it is there.
fn make(key: Key, folder: &Path) -> Result<(), Error> {
    let unfinished = folder.with_extension("unfinished");
    let failed = |source| Error::file(&unfinished, source);
    fs::create_dir_all(&unfinished).map_err(failed)?;
    let Certificate { public, private, bundle } = Certificate::in_folder(&unfinished);
    let kind: &[&str] = match key {
        Key::P256 => &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
        Key::Rsa2048 => &["-newkey", "rsa:2048"],
    };
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-nodes", "-days", "3650", "-config"]).arg(settings()).args(kind);
    openssl.arg("-keyout").arg(&private).arg("-out").arg(&public).stderr(Stdio::null());
    project::run(&mut openssl)?;
    let both =
        [&public, &private].map(fs::read).into_iter().collect::<Result<Vec<_>, _>>().map_err(failed)?;
    fs::write(&bundle, both.concat()).map_err(failed)?;
    fs::rename(&unfinished, folder).map_err(failed)
}

/// What OpenSSL is told, for certificates and for the load generators that use it as a library: TLS 1.3 with one cipher
/// and one group, so that every server agrees on the same with them.
pub(crate) fn settings() -> PathBuf {
    project::root().join("bench/openssl.cnf")
}
