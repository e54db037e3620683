//! What other people have written to find fault with servers of HTTP/2 and TLS, over all they find fault with.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::authority::Authority;
use crate::site::{OVER_TLS, Server, compile, python, serve, skip_outside, write_folder};

/// A server of one small page, which every case of the suites asks for.
fn server() -> Server {
    serve(&[(b"index.html", b"<title>page</title>")], &[])
}

/// Runs h2spec with these flags against a port; gives how many cases there are, and those that failed.
fn h2spec(address: &str, flags: &[&str]) -> (usize, Vec<String>) {
    let program = std::env::var_os("CANNERY_H2SPEC");
    let program = program.map_or_else(|| "target/outside/go/h2spec".into(), PathBuf::from);
    let (host, port) = address.rsplit_once(':').unwrap();
    let output =
        Command::new(program).args(["--strict", "--host", host, "--port", port]).args(flags).output();
    let said = String::from_utf8(output.expect("`cargo xtask test` installs h2spec").stdout).unwrap();
    let count = said.lines().last().and_then(|summary| summary.split_once(" tests, ")?.0.parse().ok());
    // It repeats what failed behind this word.
    let failures = said.split("Failures:").nth(1).unwrap_or_default();
    let failed = failures.lines().filter_map(|line| line.trim().strip_prefix("\u{d7} "));
    (count.unwrap_or_else(|| panic!("no summary: {said}")), failed.map(str::to_owned).collect())
}

#[test]
fn h2spec_finds_no_fault_over_tls() {
    if !skip_outside() {
        assert_eq!(h2spec(server().secured_address(), &["--tls", "--insecure"]), (146, Vec::new()));
    }
}

#[test]
fn h2spec_finds_no_fault_in_the_clear() {
    if !skip_outside() {
        // What is no preface would be a bad request where HTTP/1.1 is spoken too.
        let server = Server::start(&["--dummy", "--http1-disable"]);
        assert_eq!(h2spec(&server.address, &[]), (146, Vec::new()));
    }
}

/// What testssl.sh notes of any server on this machine, or of a choice of ours, by its name for it.
const KNOWN: [(&str, &str); 5] = [
    ("cert_revocation", "the made-up authority tells nobody what it has revoked"),
    ("DNS_CAArecord", "there is no name server for localhost"),
    ("cipher_order", "clients choose, of which some do AES slowly: none of the suites is weak"),
    ("engine_problem", "of the machine that it runs on"),
    ("sessionresumption_ticket", "it cannot ask for that in TLS 1.3 by the openssl of this system"),
];

#[test]
fn testssl_finds_no_weakness() {
    if skip_outside() {
        return;
    }
    if std::env::var_os("CANNERY_TEST_IO").is_some() {
        println!("skipped: it takes a minute, and TLS is the same over each interface of the kernel");
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
        .args([trusted.to_str().unwrap(), &format!("https://localhost:{}/", port_of(&server.secured()))])
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
fn what_no_tls_client_should_say_is_refused_by_its_alert() {
    if skip_outside() {
        return;
    }
    let server = Server::start(&[&["--dummy"], &OVER_TLS[..]].concat());
    let secured = server.secured();
    let (host, port) = secured.rsplit_once(':').unwrap();
    let output = Command::new(python()).args(["tests/outside/tls_cases.py", host, port]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let passed = said.lines().filter(|line| line.starts_with("passed ")).count();
    assert!(passed >= 89, "only {passed} cases");
}

fn port_of(address: &str) -> &str {
    address.rsplit_once(':').unwrap().1
}
