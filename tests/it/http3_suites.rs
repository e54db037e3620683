//! Other implementations as clients of HTTP/3: aioquic for the features of QUIC and for the violations of h3spec with their
//! error codes, and libcurl.

use std::process::Command;

use crate::fixture_site::{FixtureSite, noise};
use crate::harness::{QUIC_FLAGS, Server, TLS_FLAGS, compile, python, skip_outside, write_folder};

/// Runs a suite of tests/outside, which must have at least this number of cases.
fn run_suite(suite: &str, cases: usize) {
    if skip_outside() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    write_folder(&source, &[(b"index.html", b"<title>page</title>"), (b"large.bin", &noise(2_000_000))]);
    compile(&source, &archive, &["--compress", "identity"]);
    let archive = ["--archive", archive.to_str().unwrap()];
    let server = Server::start(&[&archive, &TLS_FLAGS[..], &QUIC_FLAGS].concat());
    let address = server.read_quic_address();

    let mut command = Command::new(python());
    command.args(["tests/outside/quic_cases.py", suite, "127.0.0.1", &address.port().to_string()]);
    let output = command.arg(source.join("large.bin")).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let passed = stdout.lines().filter(|line| line.starts_with("passed ")).count();
    assert!(passed >= cases, "only {passed} cases");
}

#[test]
fn aioquic_uses_each_feature_of_quic() {
    run_suite("interop", 22);
}

#[test]
fn violations_get_their_error_codes() {
    run_suite("errors", 88);
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
