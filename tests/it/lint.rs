//! HTTP linters: httplint for each kind of response, and REDbot, which uses it, for whole resources.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::fixture_site::FixtureSite;
use crate::harness::{python, skip_outside};

/// A finding that we accept.
struct Allowed {
    note: &'static str,
    /// Statuses of the responses that may have it. Empty for all.
    statuses: &'static [u16],
    because: &'static str,
}

/// The findings that we accept.
const ALLOWED: [Allowed; 4] = [
    Allowed {
        note: "STORE_PUBLIC_UNNECESSARY",
        statuses: &[],
        because: "`public` has no effect on caches that follow RFC 9111, and has one on older caches",
    },
    Allowed {
        note: "BAD_BROTLI",
        statuses: &[206],
        because: "a part of a coded representation cannot be decoded without the bytes before it",
    },
    Allowed {
        note: "PARTIAL_WITHOUT_RANGE",
        statuses: &[206],
        because: "each part of several states its range, and the head must not (RFC 9110, section 15.3.7.2)",
    },
    Allowed {
        note: "STATUS_BAD_REQUEST",
        statuses: &[400],
        because: "the request was bad, and the note only repeats the status",
    },
];

/// Returns requests for each kind of response, with the expected status.
fn requests(site: &FixtureSite) -> Vec<(u16, String)> {
    let tag = |target: &str, coding: &str| {
        let response = site.server.get_with_coding(target, coding);
        response.field("ETag").unwrap().to_owned()
    };

    let plain = tag("/big.txt", "identity");
    let coded = tag("/big.txt", "br");
    let mut requests = Vec::new();
    let mut expect = |status: u16, line: &str| requests.push((status, line.to_owned()));

    for method in ["GET", "HEAD"] {
        for target in [
            "/",
            "/guide/",
            "/guide/page",
            "/style.css",
            "/script.js",
            "/data.json",
            "/a.svg",
            "/big.txt",
            "/small.txt",
            "/empty.txt",
            "/noise.bin",
        ] {
            for coding in ["identity", "gzip", "br", "zstd", "gzip, deflate, br, zstd"] {
                expect(200, &format!("{method}\t{target}\tAccept-Encoding: {coding}"));
            }
            expect(200, &format!("{method}\t{target}"));
        }
        expect(404, &format!("{method}\t/nothing"));
        expect(404, &format!("{method}\t/nothing.png"));
        expect(404, &format!("{method}\t/404.html"));
        expect(410, &format!("{method}\t/gone"));
        expect(301, &format!("{method}\t/moved"));
        expect(308, &format!("{method}\t/guide"));
        expect(304, &format!("{method}\t/big.txt\tAccept-Encoding: identity\tIf-None-Match: {plain}"));
        expect(304, &format!("{method}\t/big.txt\tAccept-Encoding: br\tIf-None-Match: {coded}"));
        expect(304, &format!("{method}\t/small.txt\tIf-Modified-Since: Wed, 15 Nov 2023 00:00:00 GMT"));
        expect(412, &format!("{method}\t/small.txt\tIf-Match: \"other\""));
        expect(400, &format!("{method}\t/%00"));
    }

    expect(206, "GET\t/big.txt\tAccept-Encoding: identity\tRange: bytes=0-99");
    expect(206, "GET\t/big.txt\tAccept-Encoding: br\tRange: bytes=-99");
    expect(206, &format!("GET\t/big.txt\tAccept-Encoding: br\tRange: bytes=0-99\tIf-Range: {coded}"));
    expect(206, "GET\t/noise.bin\tRange: bytes=0-99,200-299");
    expect(416, "GET\t/noise.bin\tRange: bytes=10000000-");
    expect(204, "OPTIONS\t/");
    expect(405, "DELETE\t/");
    expect(501, "BREW\t/");

    requests
}

#[test]
fn httplint_accepts_each_kind_of_response() {
    if skip_outside() {
        return;
    }
    let site = FixtureSite::serve();
    let requests = requests(&site);
    let lines: Vec<&str> = requests.iter().map(|(_, line)| line.as_str()).collect();
    let output = lint(&site.server.address, &lines.join("\n"));
    let rows: Vec<Vec<&str>> = output.lines().map(|line| line.split('\t').collect()).collect();

    let statuses: Vec<u16> =
        rows.iter().filter(|row| row[0] == "answered").map(|row| row[1].parse().unwrap()).collect();
    assert_eq!(statuses.len(), requests.len(), "{output}");
    for ((expected, line), status) in requests.iter().zip(statuses) {
        assert_eq!(status, *expected, "{line:?}");
    }

    let notes: Vec<_> = rows.iter().filter(|row| !matches!(row[0], "answered" | "linted")).collect();
    let is_allowed = |row: &[&str], allowed: &Allowed| {
        row[4] == allowed.note
            && (allowed.statuses.is_empty() || allowed.statuses.contains(&row[0].parse().unwrap()))
    };
    let bad: Vec<String> = notes
        .iter()
        .filter(|row| !ALLOWED.iter().any(|allowed| is_allowed(row, allowed)))
        .map(|row| row.join("  "))
        .collect();
    assert!(bad.is_empty(), "{} findings:\n{}", bad.len(), bad.join("\n"));
    for allowed in &ALLOWED {
        let found = notes.iter().any(|row| is_allowed(row, allowed));
        assert!(found, "{} ({}) is no longer found: remove the exception", allowed.note, allowed.because);
    }
}

fn lint(address: &str, requests: &str) -> String {
    let mut child = Command::new(python())
        .args(["tests/outside/lint.py", address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{error}: `cargo xtask test` installs it"));
    child.stdin.take().unwrap().write_all(requests.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Resources that REDbot examines, with the expected status.
const EXAMINED: [(&str, u16); 9] = [
    ("/", 200),
    ("/guide/page", 200),
    ("/script.js", 200),
    ("/data.json", 200),
    ("/big.txt", 200),
    ("/empty.txt", 200),
    ("/nothing", 404),
    ("/gone", 410),
    ("/guide", 308),
];

/// Notes that it must make on a resource that supports everything.
const GOOD: [&str; 5] = ["CL_CORRECT", "CONNEG_GZIP_GOOD", "RANGE_CORRECT", "INM_304", "IMS_304"];

#[test]
fn redbot_accepts_each_resource() {
    if skip_outside() {
        return;
    }
    let site = FixtureSite::serve();
    let mut bad = Vec::new();
    for (target, status) in EXAMINED {
        let report = examine(&site.url(target));

        let mut lines = report.lines();
        assert_eq!(lines.next(), Some(&*status.to_string()), "{target}");
        let notes: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
        assert!(!notes.is_empty(), "{target}");

        let allowed =
            |note: &str| ALLOWED.iter().any(|allowed| allowed.note == note && allowed.statuses.is_empty());
        let found = notes.iter().filter(|note| matches!(note[0], "WARN" | "BAD") && !allowed(note[1]));
        bad.extend(found.map(|note| format!("{target}  {}", note.join("  "))));

        if target == "/big.txt" {
            for good in GOOD {
                assert!(notes.iter().any(|note| note[1] == good), "no note {good}: {report}");
            }
        }
    }

    bad.sort();
    bad.dedup();
    assert!(bad.is_empty(), "{} findings:\n{}", bad.len(), bad.join("\n"));
}

fn examine(url: &str) -> String {
    let output = Command::new(python())
        .args(["tests/outside/examine.py", url])
        .output()
        .unwrap_or_else(|error| panic!("{error}: `cargo xtask test` installs it"));
    assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
