//! Conformance suites for HTTP/2 and TLS: h2spec, testssl.sh, and test cases written with tlslite-ng.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::authority::Authority;
use crate::harness::{Server, TLS_FLAGS, compile, python, serve, skip_outside, write_folder};

/// Serves one small page, which every case of the suites requests.
fn server() -> Server {
    serve(&[(b"index.html", b"<title>page</title>")], &[])
}

/// Runs h2spec with these flags. Returns the number of cases, and the names of those that failed.
fn h2spec(address: &str, flags: &[&str]) -> (usize, Vec<String>) {
    let program = std::env::var_os("CANNERY_H2SPEC");
    let program = program.map_or_else(|| "target/outside/go/h2spec".into(), PathBuf::from);
    let (host, port) = address.rsplit_once(':').unwrap();
    let output =
        Command::new(program).args(["--strict", "--host", host, "--port", port]).args(flags).output();
    let stdout = String::from_utf8(output.expect("`cargo xtask test` installs h2spec").stdout).unwrap();
    let count = stdout.lines().last().and_then(|summary| summary.split_once(" tests, ")?.0.parse().ok());
    // The output ends with a list of the failures.
    let failures = stdout.split("Failures:").nth(1).unwrap_or_default();
    let failed = failures.lines().filter_map(|line| line.trim().strip_prefix("\u{d7} "));
    (count.unwrap_or_else(|| panic!("no summary: {stdout}")), failed.map(str::to_owned).collect())
}

#[test]
fn h2spec_passes_over_tls() {
    if !skip_outside() {
        assert_eq!(h2spec(server().tls_address(), &["--tls", "--insecure"]), (146, Vec::new()));
    }
}

#[test]
fn h2spec_passes_over_tcp() {
    if !skip_outside() {
        // With HTTP/1.1 enabled, an invalid preface is a bad HTTP/1.1 request.
        let server = Server::start(&["--dummy", "--http1-disable"]);
        assert_eq!(h2spec(&server.address, &[]), (146, Vec::new()));
    }
}

/// Findings of testssl.sh that we accept, with the reasons.
const KNOWN: [(&str, &str); 5] = [
    ("cert_revocation", "the authority of the tests publishes no revocations"),
    ("DNS_CAArecord", "localhost has no DNS records"),
    ("cipher_order", "the client chooses, because some have no fast AES, and no suite is weak"),
    ("engine_problem", "a property of the test machine"),
    ("sessionresumption_ticket", "testssl.sh cannot test it in TLS 1.3 with the system's openssl"),
];

#[test]
fn testssl_finds_no_weakness() {
    if skip_outside() {
        return;
    }
    if std::env::var_os("CANNERY_TEST_IO").is_some() {
        println!("skipped: it takes a minute, and TLS doesn't depend on the event loop");
        return;
    }

    let place = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let [bundle, trusted] = ["bundle.pem", "authority.pem"].map(|name| place.path().join(name));
    authority.certify(&["localhost"]).write_bundle(&bundle);
    fs::write(&trusted, authority.pem()).unwrap();

    let archive = place.path().join("site.cdb");
    let folder = place.path().join("site");
    write_folder(&folder, &[(b"index.html", b"<title>page</title>")]);
    compile(&folder, &archive, &[]);
    let [archive, bundle] = [&archive, &bundle].map(|path| path.to_str().unwrap());

    let server = Server::start(&[
        "--archive",
        archive,
        "--bind-tls",
        "127.0.0.1:0",
        "--tls-bundle",
        bundle,
        "--security-headers-tls",
    ]);

    let report = place.path().join("report.json");
    let output = Command::new("testssl")
        .args([
            "--quiet",
            "--warnings",
            "off",
            "--color",
            "0",
            "--jsonfile",
            report.to_str().unwrap(),
            "--add-ca",
        ])
        .args([
            trusted.to_str().unwrap(),
            &format!("https://localhost:{}/", port_of(&server.read_tls_address())),
        ])
        .output()
        .expect("`cargo xtask test` installs testssl.sh");

    let findings: serde_json::Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    let findings = findings.as_array().unwrap();
    assert!(findings.len() > 100, "{}", String::from_utf8_lossy(&output.stdout));
    let is_weak = |finding: &&serde_json::Value| {
        let is_known = KNOWN.iter().any(|(name, _)| finding["id"] == *name);
        !is_known && finding["severity"] != "OK" && finding["severity"] != "INFO"
    };
    let weak: Vec<_> = findings.iter().filter(is_weak).map(ToString::to_string).collect();
    assert!(weak.is_empty(), "{}", weak.join("\n"));
}

#[test]
fn invalid_tls_messages_get_their_alerts() {
    if skip_outside() {
        return;
    }
    let server = Server::start(&[&["--dummy"], &TLS_FLAGS[..]].concat());
    let address = server.read_tls_address();
    let (host, port) = address.rsplit_once(':').unwrap();
    let output = Command::new(python()).args(["tests/outside/tls_cases.py", host, port]).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let passed = stdout.lines().filter(|line| line.starts_with("passed ")).count();
    assert!(passed >= 89, "only {passed} cases");
}

fn port_of(address: &str) -> &str {
    address.rsplit_once(':').unwrap().1
}
