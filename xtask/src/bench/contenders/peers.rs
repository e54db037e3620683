//! The servers that people would pick instead, as Debian packages them, with the configurations of `bench/peers/`.
//!
//! A configuration is a text with marks in it: `@ROOT@`, `@ADDRESS@`, `@PORT@`, `@FOLDER@`, `@THREADS@` and the like.
//! Where `@CODING@` and `@TLS@` stand comes what the server is told about content codings and TLS, from files beside it.

use std::fs;
use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;

use super::{Codings, Order};
use crate::bench::certificates::Certificate;
use crate::bench::machine;
use crate::bench::wire::{self, Key, Wire};
use crate::error::Error;
use crate::{outside, project};

/// A server of somebody else.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its name, here and of its configuration.
    pub(crate) name: &'static str,
    pub(crate) program: &'static str,
    /// What Debian calls its parts.
    pub(crate) packages: &'static [&'static str],
    /// What it is told on its command line; `@CONFIGURATION@` stands for the file.
    words: &'static [&'static str],
    /// How it tells its version.
    version: &'static str,
    /// Whether it will not serve as root. It is then somebody else, with root's right to read.
    refuses_root: bool,
    /// How many descriptors it wants for each connection.
    descriptors_each: u64,
    /// How many connections it keeps without closing some of them, where there is a bound.
    connections_most: Option<u32>,
}

pub(crate) static NGINX: Peer = Peer {
    name: "nginx",
    program: "nginx",
    packages: &["nginx", "libnginx-mod-http-brotli-static"],
    words: &["-p", "@FOLDER@", "-c", "@CONFIGURATION@", "-e", "@FOLDER@/early"],
    version: "-v",
    refuses_root: false,
    descriptors_each: 1,
    connections_most: None,
};

pub(crate) static LIGHTTPD: Peer = Peer {
    name: "lighttpd",
    program: "lighttpd",
    packages: &["lighttpd", "lighttpd-mod-deflate", "lighttpd-mod-openssl"],
    words: &["-D", "-f", "@CONFIGURATION@"],
    version: "-v",
    refuses_root: false,
    // It takes no more connections than half of its descriptors.
    descriptors_each: 2,
    connections_most: None,
};

pub(crate) static H2O: Peer = Peer {
    name: "h2o",
    program: "h2o",
    packages: &["h2o"],
    words: &["-m", "worker", "-c", "@CONFIGURATION@"],
    version: "-v",
    refuses_root: false,
    descriptors_each: 1,
    connections_most: None,
};

pub(crate) static APACHE: Peer = Peer {
    name: "apache2",
    program: "apache2",
    // The program without the service that would start with it.
    packages: &["apache2-bin"],
    words: &["-D", "FOREGROUND", "-f", "@CONFIGURATION@"],
    version: "-v",
    refuses_root: true,
    descriptors_each: 1,
    connections_most: Some(POOL_MOST - POOL_BESIDE),
};

pub(crate) static CADDY: Peer = Peer {
    name: "caddy",
    program: "caddy",
    packages: &["caddy"],
    words: &["run", "--adapter", "caddyfile", "--config", "@CONFIGURATION@"],
    version: "version",
    refuses_root: false,
    descriptors_each: 1,
    connections_most: None,
};

impl Peer {
    pub(super) fn version(&self) -> String {
        let version = machine::version(&self.path(), self.version);
        // Some say a name before their number, and some do not.
        if version.to_lowercase().contains(self.name) { version } else { format!("{} {version}", self.name) }
    }

    fn path(&self) -> String {
        let path = project::program(self.program).unwrap_or_else(|| self.program.into());
        path.display().to_string()
    }

    /// Writes its configuration into its folder, and says how to start it.
    pub(super) fn command(
        &self,
        order: &Order<'_>,
        address: SocketAddrV4,
        folder: &Path,
    ) -> Result<Command, Error> {
        let configuration = folder.join("configuration");
        let root = match order.codings {
            Codings::Precompressed => &order.site.with_siblings,
            Codings::Identity | Codings::Compressing => &order.site.sources,
        };
        let (descriptors, _) = machine::descriptors()?;
        let pool = (order.connections + POOL_BESIDE).clamp(POOL_LEAST, POOL_MOST);
        let key = order.wire.key;
        // All have a certificate, though in the clear none looks at it.
        let Certificate { public, private, bundle } = Certificate::of(key.unwrap_or(Key::P256))?;
        let marks = [
            ("@TLS@", if key.is_some() { read(&format!("{}.tls.conf", self.name))? } else { String::new() }),
            ("@LISTENS_FOR@", listens_for(order.wire).into()),
            ("@SCHEME@", order.wire.scheme().into()),
            ("@PUBLIC@", public.display().to_string()),
            ("@PRIVATE@", private.display().to_string()),
            ("@BUNDLE@", bundle.display().to_string()),
            ("@CODING@", self.coding(order.codings)?),
            ("@CONFIGURATION@", configuration.display().to_string()),
            ("@FOLDER@", folder.display().to_string()),
            ("@ROOT@", root.display().to_string()),
            ("@ADDRESS@", address.to_string()),
            ("@PORT@", address.port().to_string()),
            ("@THREADS@", order.threads.to_string()),
            // Processes beside the first, where one process alone needs none.
            ("@WORKERS@", if order.threads > 1 { order.threads.to_string() } else { "0".into() }),
            ("@SENDFILE@", if order.has_large_answers { "on" } else { "off" }.into()),
            ("@DESCRIPTORS@", descriptors.to_string()),
            ("@CONNECTIONS@", self.connections_max()?.to_string()),
            // The other half is for connections.
            ("@OPEN_FILES@", (descriptors / 2).to_string()),
            ("@POOL@", pool.to_string()),
            ("@POOLS@", (pool as usize * order.threads).to_string()),
        ];
        let text = fill_in(&read(&format!("{}.conf", self.name))?, &marks);
        fs::write(&configuration, text).map_err(|source| Error::file(&configuration, source))?;

        let mut command = if self.refuses_root && outside::is_root() {
            let mut command = Command::new("setpriv");
            command.args(SOMEBODY_WHO_READS).arg(self.path());
            command
        } else {
            Command::new(self.path())
        };
        command.args(self.words.iter().map(|word| fill_in(word, &marks)));
        // Only Caddy looks at these.
        command.env("GOMAXPROCS", order.threads.to_string());
        command.env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
        Ok(command)
    }

    /// How many connections it can hold, also by the descriptors that it may have; some of them are for files.
    pub(crate) fn connections_max(&self) -> Result<u64, Error> {
        let (descriptors, _) = machine::descriptors()?;
        let by_descriptors = descriptors.saturating_sub(DESCRIPTORS_BESIDE) / self.descriptors_each;
        Ok(self.connections_most.map_or(by_descriptors, |most| by_descriptors.min(most.into())))
    }

    /// How many files it can serve, where descriptors bound that: lighttpd keeps each open that it has served lately,
    /// whatever it is told about its cache, and answers 500 when there are no more.
    pub(crate) fn files_max(&self) -> Result<Option<u64>, Error> {
        let (descriptors, _) = machine::descriptors()?;
        Ok((self.descriptors_each > 1).then_some(descriptors / self.descriptors_each))
    }

    fn coding(&self, codings: Codings) -> Result<String, Error> {
        match codings {
            Codings::Identity => Ok(String::new()),
            Codings::Compressing => read(&format!("{}.compressing.conf", self.name)),
            Codings::Precompressed => read(&format!("{}.precompressed.conf", self.name)),
        }
    }
}

/// What nginx is told about a listener.
fn listens_for(wire: Wire) -> &'static str {
    match wire {
        wire::CLEAR => "",
        wire::HTTP2_CLEAR => "http2",
        _ => "ssl http2",
    }
}

/// Threads of a process that gives each busy connection one. With fewer, Apache closes connections that are kept as
/// soon as all are busy, and with more than these it hardly gets anything done on one processor.
const POOL_BESIDE: u32 = 32;
const POOL_LEAST: u32 = 64;
const POOL_MOST: u32 = 1100;

/// Words for setpriv: folders of root are not everybody's, and what is served lies below one.
const SOMEBODY_WHO_READS: [&str; 9] = [
    "--reuid",
    "daemon",
    "--regid",
    "daemon",
    "--clear-groups",
    "--inh-caps",
    "+dac_override",
    "--ambient-caps",
    "+dac_override",
];

/// Descriptors that a server needs beside those of connections.
const DESCRIPTORS_BESIDE: u64 = 500;

fn read(name: &str) -> Result<String, Error> {
    let path = project::root().join("bench/peers").join(name);
    fs::read_to_string(&path).map_err(|source| Error::file(&path, source))
}

/// Marks are filled in one after the other, so that the first may bring more of them.
fn fill_in(text: &str, marks: &[(&str, String)]) -> String {
    marks.iter().fold(text.to_owned(), |text, (mark, value)| text.replace(mark, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    static ALL: [&Peer; 5] = [&NGINX, &LIGHTTPD, &H2O, &APACHE, &CADDY];

    #[test]
    fn every_peer_has_a_configuration_for_tls_and_all_codings() {
        for peer in ALL {
            assert!(read(&format!("{}.conf", peer.name)).unwrap().contains("@CODING@"), "{}", peer.name);
            assert!(read(&format!("{}.tls.conf", peer.name)).unwrap().contains("1.3"), "{}", peer.name);
            for codings in [Codings::Compressing, Codings::Precompressed] {
                assert!(!peer.coding(codings).unwrap().is_empty(), "{}", peer.name);
            }
        }
    }

    #[test]
    fn what_a_mark_brings_is_filled_in_too() {
        let marks = [("@CODING@", "cache @FOLDER@".to_owned()), ("@FOLDER@", "/tmp".to_owned())];
        assert_eq!(fill_in("a @CODING@ b", &marks), "a cache /tmp b");
    }
}
