//! Self-signed certificates for all servers, one for each kind of key, made by OpenSSL below `target/`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::project;
use crate::scenario::{KeyExchange, Wire};

/// Creates a certificate with the key of the arguments.
const CREATE: &str = r#"
    openssl req -x509 -nodes -days 3650 "$@" -keyout private.pem -out public.pem &&
    cat public.pem private.pem >bundle.pem"#;

/// Returns a folder with a certificate for a wire, after creating it if it is missing: `public.pem`, `private.pem`, and both
/// in `bundle.pem`. Without TLS it is a P-256 certificate, which no client looks at.
pub(crate) fn folder(wire: Wire) -> Result<PathBuf> {
    let (name, key): (_, &[&str]) = match wire {
        Wire::Clear | Wire::Tls | Wire::H2 | Wire::H3 => {
            ("p256", &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        }
        Wire::TlsRsa => ("rsa2048", &["-newkey", "rsa:2048"]),
    };
    project::filled_once(&format!("certificates/{name}"), |folder| {
        fs::create_dir_all(folder)?;
        let mut shell = Command::new("sh");
        shell.args(["-c", CREATE, "sh"]).args(key).current_dir(folder);
        project::run(shell.env("OPENSSL_CONF", openssl_settings()).stderr(Stdio::null()))
    })
}

/// Returns OpenSSL's settings for certificates and for the clients that use OpenSSL: TLS 1.3 with one cipher suite and
/// one group, so all servers negotiate the same.
pub(crate) fn openssl_settings() -> PathBuf {
    project::folder().join("openssl.cnf")
}

/// Returns the same settings with another group, in a file of their own.
pub(crate) fn openssl_settings_with(group: KeyExchange) -> Result<PathBuf> {
    const USUAL: &str = "Groups = X25519\n";
    let text = fs::read_to_string(openssl_settings())?;
    ensure!(text.contains(USUAL), "openssl.cnf has no line `{}`", USUAL.trim_end());
    let path = project::scratch(&format!("running/openssl-{}.cnf", group.name()))?;
    fs::write(&path, text.replace(USUAL, &format!("Groups = {}\n", group.name())))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_differ_by_their_group_only() {
        let read = |path: PathBuf| fs::read_to_string(path).unwrap();
        let usual = read(openssl_settings());
        assert_eq!(read(openssl_settings_with(KeyExchange::X25519).unwrap()), usual);
        let hybrid = read(openssl_settings_with(KeyExchange::X25519Mlkem768).unwrap());
        assert_eq!(hybrid.replace("X25519MLKEM768", "X25519"), usual);
        assert_ne!(hybrid, usual);
    }
}
