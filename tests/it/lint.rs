//! What httplint, the judge behind REDbot, has to say about each kind of answer, and REDbot itself about resources.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::gallery::Gallery;
use crate::site::{python, skip_outside};

/// A finding that we live with.
struct Allowed {
    note: &'static str,
    /// Status of the answers that it is allowed of; of all if there is none.
    statuses: &'static [u16],
    because: &'static str,
}

/// What it finds and we keep.
const ALLOWED: [Allowed; 4] = [
    Allowed {
        note: "STORE_PUBLIC_UNNECESSARY",
        statuses: &[],
        because: "`public` changes nothing for a cache that knows RFC 9111, and something for those that do not",
    },
    Allowed {
        note: "BAD_BROTLI",
        statuses: &[206],
        because: "the last bytes of a coded representation cannot be decoded without those before them",
    },
    Allowed {
        note: "PARTIAL_WITHOUT_RANGE",
        statuses: &[206],
        because: "of several parts each says its range, and the head must not (RFC 9110 §15.3.7.2)",
    },
    Allowed {
        note: "STATUS_BAD_REQUEST",
        statuses: &[400],
        because: "the request was bad: the note says no more than the status",
    },
];

/// Each request with the status that it must get, by kind of answer.
fn requests(gallery: &Gallery) -> Vec<(u16, String)> {
    let tag = |target: &str, coding: &str| {
        let response = gallery.server.get_coded(target, coding);
        response.field("ETag").unwrap().to_owned()
    };
    let (plain, coded) = (tag("/big.txt", "identity"), tag("/big.txt", "br"));
    let mut requests = Vec::new();
    let mut ask = |status: u16, line: &str| requests.push((status, line.to_owned()));
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
                ask(200, &format!("{method}\t{target}\tAccept-Encoding: {coding}"));
            }
            ask(200, &format!("{method}\t{target}"));
        }
        ask(404, &format!("{method}\t/nothing"));
        ask(404, &format!("{method}\t/nothing.png"));
        ask(404, &format!("{method}\t/404.html"));
        ask(410, &format!("{method}\t/gone"));
        ask(301, &format!("{method}\t/moved"));
        ask(308, &format!("{method}\t/guide"));
        ask(304, &format!("{method}\t/big.txt\tAccept-Encoding: identity\tIf-None-Match: {plain}"));
        ask(304, &format!("{method}\t/big.txt\tAccept-Encoding: br\tIf-None-Match: {coded}"));
        ask(304, &format!("{method}\t/small.txt\tIf-Modified-Since: Wed, 15 Nov 2023 00:00:00 GMT"));
        ask(412, &format!("{method}\t/small.txt\tIf-Match: \"other\""));
        ask(400, &format!("{method}\t/%00"));
    }
    ask(206, "GET\t/big.txt\tAccept-Encoding: identity\tRange: bytes=0-99");
    ask(206, "GET\t/big.txt\tAccept-Encoding: br\tRange: bytes=-99");
    ask(206, &format!("GET\t/big.txt\tAccept-Encoding: br\tRange: bytes=0-99\tIf-Range: {coded}"));
    ask(206, "GET\t/noise.bin\tRange: bytes=0-99,200-299");
    ask(416, "GET\t/noise.bin\tRange: bytes=10000000-");
    ask(204, "OPTIONS\t/");
    ask(405, "DELETE\t/");
    ask(501, "BREW\t/");
    requests
}

#[test]
fn httplint_finds_nothing_bad_on_any_kind_of_answer() {
    if skip_outside() {
        return;
    }
    let gallery = Gallery::open();
    let requests = requests(&gallery);
    let lines: Vec<&str> = requests.iter().map(|(_, line)| line.as_str()).collect();
    let said = lint(&gallery.server.address, &lines.join("\n"));
    let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split('\t').collect()).collect();

    let statuses: Vec<u16> =
        rows.iter().filter(|row| row[0] == "answered").map(|row| row[1].parse().unwrap()).collect();
    assert_eq!(statuses.len(), requests.len(), "{said}");
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
        assert!(found, "{} ({}) is not found any more: take it out", allowed.note, allowed.because);
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

/// Resources that REDbot examines, with the status that it must find.
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

/// What it must say of a resource that has all there is.
const GOOD: [&str; 5] = ["CL_CORRECT", "CONNEG_GZIP_GOOD", "RANGE_CORRECT", "INM_304", "IMS_304"];

#[test]
fn redbot_finds_nothing_bad_when_it_asks_for_itself() {
    if skip_outside() {
        return;
    }
    let gallery = Gallery::open();
    let mut bad = Vec::new();
    for (target, status) in EXAMINED {
        let said = examine(&gallery.url(target));
        let mut lines = said.lines();
        assert_eq!(lines.next(), Some(&*status.to_string()), "{target}");
        let notes: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
        assert!(!notes.is_empty(), "{target}");
        let allowed =
            |note: &str| ALLOWED.iter().any(|allowed| allowed.note == note && allowed.statuses.is_empty());
        let found = notes.iter().filter(|note| matches!(note[0], "WARN" | "BAD") && !allowed(note[1]));
        bad.extend(found.map(|note| format!("{target}  {}", note.join("  "))));
        if target == "/big.txt" {
            for good in GOOD {
                assert!(notes.iter().any(|note| note[1] == good), "{good} is not said: {said}");
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
