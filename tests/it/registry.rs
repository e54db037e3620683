//! A registry for container images and other artifacts: Debian's `docker-registry` on the loopback address.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::harness::{free_address, wait_until};

/// User and password that the registry accepts, as in Docker's configuration: `web:secret` in base64.
pub(crate) const RIGHT_PASSWORD: &str = "d2ViOnNlY3JldA==";

const BCRYPT_OF_SECRET: &str = "$2b$05$JIlxQxOlT5rB/y/cxduYP.5L4M8FhQNRqUZoUXl.46GPxLPnCGE8S";

/// A running registry.
pub(crate) struct Registry {
    child: Child,
    pub(crate) host: String,
}

impl Registry {
    /// Starts it with its files in a folder. Without a port, it takes a free one.
    pub(crate) fn start(folder: &Path, port: Option<u16>) -> Registry {
        let port = port.unwrap_or_else(|| free_address().port());
        let path = |name: &str| folder.join(name);
        let config = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n\
             auth:\n  htpasswd:\n    realm: test\n    path: {}\n",
            path("registry").display(),
            path("htpasswd").display(),
        );
        // The password of `web` is `secret`.
        fs::write(path("htpasswd"), format!("web:{BCRYPT_OF_SECRET}\n")).unwrap();
        fs::write(path("registry.yml"), config).unwrap();
        let log = fs::File::create(path("registry.log")).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(path("registry.yml")).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().expect("docker-registry is missing: `cargo xtask test` installs it");
        wait_until("the registry listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        Registry { child, host: format!("127.0.0.1:{port}") }
    }

    pub(crate) fn port(&self) -> u16 {
        self.host.split(':').nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes Docker's configuration into a folder, with the password for a registry.
pub(crate) fn write_docker_config(folder: &Path, registry: &str, auth: &str) {
    fs::create_dir_all(folder).unwrap();
    let config = format!("{{\"auths\": {{\"{registry}\": {{\"auth\": \"{auth}\"}}}}}}");
    fs::write(folder.join("config.json"), config).unwrap();
}
