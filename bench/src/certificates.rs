//! Self-signed certificates for all servers, one for each kind of key, made by OpenSSL below `target/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::project;
use crate::scenario::Wire;

/// Files of a certificate, in the forms that servers expect.
pub(crate) struct Certificate {
    pub(crate) public: PathBuf,
    pub(crate) private: PathBuf,
    /// Certificate and key in one file.
    pub(crate) bundle: PathBuf,
}

impl Certificate {
    /// Returns the certificate for a wire, after creating it if it is missing. Without TLS it is a P-256 certificate,
    /// which no client looks at.
    pub(crate) fn for_wire(wire: Wire) -> Result<Certificate> {
        let (name, key): (_, &[&str]) = match wire {
            Wire::Clear | Wire::Tls | Wire::H2 | Wire::H3 => {
                ("p256", &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            }
            Wire::TlsRsa => ("rsa2048", &["-newkey", "rsa:2048"]),
        };
        let folder = project::filled_once(&format!("certificates/{name}"), |folder| {
            fs::create_dir_all(folder)?;
            let Certificate { public, private, bundle } = Certificate::in_folder(folder);
            let mut openssl = Command::new("openssl");
            openssl.args(["req", "-x509", "-nodes", "-days", "3650"]).args(key);
            openssl.arg("-config").arg(openssl_settings());
            openssl.arg("-keyout").arg(&private).arg("-out").arg(&public).stderr(Stdio::null());
            project::run(&mut openssl)?;
            Ok(fs::write(&bundle, [fs::read(&public)?, fs::read(&private)?].concat())?)
        })?;
        Ok(Certificate::in_folder(&folder))
    }

    fn in_folder(folder: &Path) -> Certificate {
        let [public, private, bundle] =
            ["public.pem", "private.pem", "bundle.pem"].map(|name| folder.join(name));
        Certificate { public, private, bundle }
    }
}

/// Returns OpenSSL's settings for certificates and for the clients that use OpenSSL: TLS 1.3 with one cipher suite and
/// one group, so all servers negotiate the same.
pub(crate) fn openssl_settings() -> PathBuf {
    project::folder().join("openssl.cnf")
}
