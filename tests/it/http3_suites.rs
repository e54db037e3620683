//! Other implementations as clients of HTTP/3: aioquic for the features of QUIC and for the violations of h3spec with their
//! error codes, quic-go, libcurl, and Chromium. aioquic encodes and decodes QPACK with ls-qpack.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use crate::fixture_site::{FixtureSite, noise};
use crate::harness::{
    QUIC_FLAGS, Server, TLS_FLAGS, compile, python, request_at, skip_outside, wait_until, write_folder,
};

/// A server of a small and a large file.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    /// The folder that is served.
    pub(crate) source: PathBuf,
    large: PathBuf,
    admin: String,
    _server: Server,
    _folder: tempfile::TempDir,
}

impl Site {
    /// Starts a server with these flags.
    pub(crate) fn serve(flags: &[&str]) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("site");
        let archive = folder.path().join("site.cdb");
        let large = noise(2_000_000);
        write_folder(&source, &[(b"index.html", b"<title>page</title>"), (b"large.bin", &large)]);
        compile(&source, &archive, &["--compress", "identity"]);
        let archive = ["--archive", archive.to_str().unwrap()];
        let admin = ["--admin", "127.0.0.1:0"];
        let server = Server::start(&[&archive, &TLS_FLAGS[..], &QUIC_FLAGS, &admin, flags].concat());
        let address = server.read_quic_address();
        let admin = server.read_admin_address();
        let large = source.join("large.bin");
        Site { address, source, large, admin, _server: server, _folder: folder }
    }

    /// Returns the value of a metric, whose labels are a part of the name.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let metrics = String::from_utf8(request_at(&self.admin, "GET", "/metrics", "").body).unwrap();
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
    }

    /// Waits until a metric has this value.
    pub(crate) fn await_metric(&self, name: &str, value: u64) {
        wait_until(&format!("{name} {value}"), || self.metric(name) == value);
    }
}

/// Runs a program that prints a line for each case. Panics if one failed, or there were fewer cases.
fn run_cases(command: &mut Command, cases: usize) {
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let passed = stdout.lines().filter(|line| line.starts_with("passed ")).count();
    assert!(passed >= cases, "only {passed} cases");
}

/// Runs a suite of tests/outside against a server with these flags. The suite must have at least this number of cases. Returns
/// the site, unless the suite was skipped.
fn run_suite(suite: &str, cases: usize, flags: &[&str]) -> Option<Site> {
    if skip_outside() {
        return None;
    }
    let site = Site::serve(flags);
    let mut command = Command::new(python());
    command.args(["tests/outside/quic_cases.py", suite, "127.0.0.1", &site.address.port().to_string()]);
    run_cases(command.arg(&site.large), cases);
    Some(site)
}

#[test]
fn aioquic_uses_each_feature_of_quic() {
    run_suite("interop", 22, &[]);
}

#[test]
fn aioquic_sends_early_data() {
    run_suite("early", 3, &["--early-data"]);
}

#[test]
fn quic_go_uses_http3() {
    if skip_outside() {
        return;
    }
    let site = Site::serve(&["--early-data"]);
    let program =
        std::env::var_os("CANNERY_QUIC_GO").map_or_else(|| "target/outside/go/quic_go".into(), PathBuf::from);
    run_cases(Command::new(program).arg(site.address.to_string()).arg(&site.large), 4);
}

#[test]
fn violations_get_their_error_codes() {
    run_suite("errors", 89, &[]);
}

#[test]
#[cfg_attr(
    feature = "portable",
    ignore = "only Linux merges datagrams, and spreads connections over threads"
)]
fn merged_datagrams_reach_their_connections() {
    let Some(site) = run_suite("merged", 1, &[]) else { return };
    assert_eq!(site.metric("cannery_quic_datagrams_forwarded_total"), 1);
}

#[test]
fn libcurl_loads_each_kind_over_one_connection() {
    if skip_outside() {
        return;
    }
    let site = FixtureSite::serve();
    let before = site.connections();
    let mut command = Command::new(python());
    command.arg("tests/outside/http3.py").arg(format!("https://{}", site.quic)).arg(&site.list);
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let compared = format!("compared {}", 4 * site.targets);
    assert_eq!(stdout.trim(), compared, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(site.connections() - before, 1);
}

#[test]
fn chromium_loads_each_kind() {
    if skip_outside() {
        return;
    }
    let site = FixtureSite::serve();
    let before = site.connections();
    let mut command = Command::new("node");
    command.arg("tests/outside/multiplexed_pages.mjs").arg(format!("h3:{}", site.tls));
    command.arg(format!("https://{}", site.quic)).arg(&site.list).arg("/");
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let compared = format!("compared {}", site.targets);
    assert_eq!(stdout.trim(), compared, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(site.connections() > before);
}
