//! Pebble, the certificate authority for tests of Let's Encrypt, with a name server that says what a test wants.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use cannery_testkit::tls;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};

use crate::authority::{Authority, replace};
use crate::harness::{free_address, send_at};
use crate::transports::{connect, connect_tls};

/// Settings of an authority that differ from the usual ones.
#[derive(Default)]
pub(crate) struct Options {
    /// The key identifier and the MAC key in base64url of an external account, which new accounts must name.
    pub(crate) external_account: Option<(&'static str, &'static str)>,
    /// The percentage of good nonces that are refused.
    pub(crate) refused_nonces: u32,
}

/// A running authority, and its name server. All names have the address 127.0.0.1.
pub(crate) struct Pebble {
    processes: Vec<Child>,
    /// The address at which the authority shows its root certificates.
    management: String,
    /// The address of its HTTPS server.
    pub(crate) address: String,
    /// The address at which the name server takes orders.
    pub(crate) names: String,
}

impl Pebble {
    /// Starts the authority. It requests challenges at `http_port`. Its own certificate is from `authority`.
    pub(crate) fn start(place: &Path, authority: &Authority, http_port: &str, options: &Options) -> Pebble {
        let [address, management, names, resolver] = std::array::from_fn(|_| free_address().to_string());
        authority.certify(&["127.0.0.1"]).write_pair(place);
        let external_account = options.external_account.map_or_else(String::new, |(id, key)| {
            format!(
                r#""externalAccountBindingRequired": true, "externalAccountMACKeys": {{ "{id}": "{key}" }},"#
            )
        });
        let config = format!(
            r#"{{ "pebble": {{
                {external_account}
                "listenAddress": "{address}",
                "managementListenAddress": "{management}",
                "certificate": "{certificate}",
                "privateKey": "{key}",
                "httpPort": {http_port},
                "tlsPort": 1,
                "retryAfter": {{ "authz": 1, "order": 1 }},
                "profiles": {{
                    "default": {{ "description": "90 days", "validityPeriod": 7776000 }},
                    "shortlived": {{ "description": "6 days", "validityPeriod": 518400 }}
                }}
            }} }}"#,
            certificate = place.join("public.pem").display(),
            key = place.join("private.pem").display(),
        );
        let config_path = place.join("pebble.json");
        replace(&config_path, &config);

        let mut name_server = Command::new(program("pebble-challtestsrv"));
        name_server.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""]);
        name_server.args(["-dnsserver", &resolver, "-management", &names]);
        let name_server = start(&mut name_server, "Starting management server");

        let mut pebble = Command::new(program("pebble"));
        pebble.arg("-config").arg(&config_path).args(["-dnsserver", &resolver, "-strict"]);
        // It doesn't wait before it checks a name.
        pebble.env("PEBBLE_VA_NOSLEEP", "1");
        pebble.env("PEBBLE_WFE_NONCEREJECT", options.refused_nonces.to_string());
        let pebble = start(&mut pebble, "ACME directory available");
        Pebble { processes: vec![pebble, name_server], management, address, names }
    }

    /// Returns the root certificate of the authority in DER. Each authority has another one.
    pub(crate) fn root(&self) -> CertificateDer<'static> {
        let mut client = connect_tls(&self.management, &[]);
        client.write_all(b"GET /roots/0 HTTP/1.0\r\n\r\n").unwrap();
        let mut response = Vec::new();
        // It may close the connection without saying so.
        let _ = client.read_to_end(&mut response);
        CertificateDer::from_pem_slice(&response).unwrap()
    }

    /// Does a handshake with the server of a name or address at `address`, as a client that trusts this authority. Returns the
    /// server's certificate.
    pub(crate) fn verify(&self, address: &str, name: &str) -> io::Result<CertificateDer<'static>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let tls = tls::connect(connect(address), name, Arc::new(config))?;
        Ok(tls.conn.peer_certificates().unwrap()[0].clone().into_owned())
    }

    /// Adds a TXT record to the name server. The host ends with a dot.
    pub(crate) fn set_txt(&self, host: &str, value: &str) {
        self.instruct_names("set-txt", &json!({ "host": host, "value": value }));
    }

    /// Removes all TXT records of a host.
    pub(crate) fn clear_txt(&self, host: &str) {
        self.instruct_names("clear-txt", &json!({ "host": host }));
    }

    /// Sends an order such as `add-a` to the name server.
    pub(crate) fn instruct_names(&self, order: &str, content: &Value) {
        let content = content.to_string();
        let length = format!("Content-Length: {}\r\n", content.len());
        let response = send_at(&self.names, "POST", &format!("/{order}"), &length, &content);
        assert_eq!(response.status, 200, "{content}");
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("CANNERY_PEBBLE").map_or_else(|| "target/outside/go".into(), PathBuf::from);
    // Absolute, because a path without a slash would be searched for.
    fs::canonicalize(folder.join(name)).expect("`cargo xtask test` installs pebble")
}

/// Starts a program and waits for a line with these words. The rest of its output is read, so that it never blocks.
fn start(command: &mut Command, words: &str) -> Child {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    loop {
        let Some(Ok(line)) = lines.next() else { panic!("no line with {words:?} in {seen:#?}") };
        if line.contains(words) {
            break;
        }
        seen.push(line);
    }
    std::thread::spawn(move || lines.for_each(drop));
    child
}
