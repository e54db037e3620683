//! Regression tests: each covers an error that we have fixed. One file per topic.

mod access_control;
mod builds;
mod command_lines;
mod connections;
mod deploys;
mod fallbacks;
mod links;
mod log;
mod memory;
mod memory_attacks;
mod own_pages;
mod reports;
mod rules;
mod sandbox;
mod serve;
mod special_files;
mod supervisor;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::harness::{Server, compile, pages, run, server_command, signal, write_folder};

/// The site's policy silently replaced that of the flag.
#[test]
fn site_policy_does_not_replace_that_of_the_server() {
    let rules = "/page\n  Content-Security-Policy: default-src 'self'\n/bare\n  ! Content-Security-Policy\n";
    let files = [("page.html", "page"), ("bare.html", "bare"), ("_headers", rules)];
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    write_folder(&source, &pages(&files));
    compile(&source, &archive, &[]);
    let server = Server::start(&["--archive", archive.to_str().unwrap(), "--security-headers-tls"]);
    let policies = |path: &str| {
        let response = server.get(path);
        let found = response.fields.iter().filter(|(name, _)| name == "Content-Security-Policy");
        found.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(policies("/page"), ["default-src 'self'", "upgrade-insecure-requests"]);
    assert_eq!(policies("/page.html"), ["upgrade-insecure-requests"]);
    assert!(policies("/bare").is_empty(), "a rule may take it away");
}

/// The error was about an ignore file inside the source file, and about its permissions.
#[test]
fn source_that_is_a_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, "page").unwrap();
    let archive = folder.path().join("site.cdb");
    let file = file.to_str().unwrap();
    let output = run("cannery-archiver", &["--sources", file, "--archive", archive.to_str().unwrap()]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(printed.contains("page.html is not a folder"), "{printed}");
}

/// The error contained only the message of the system.
#[test]
fn unwritable_access_log_is_named() {
    let output = run("cannery-server", &["--dummy", "--bind", "127.0.0.1:0", "--access-log", "/no/such/log"]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{printed}");
    assert!(printed.contains("/no/such/log"), "{printed}");
}

/// Each of several processes printed messages that concern all of them.
#[test]
fn messages_for_all_processes_are_printed_once() {
    let mut command = server_command();
    command.args(["--dummy", "--bind", "127.0.0.1:0", "--processes", "3", "--threads", "1", "--debug"]);
    command.args(["--index-all", "--index-paths"]).stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(server.stderr.take().unwrap()).lines().map(Result::unwrap) {
        // All processes are ready by now. Reads their messages up to the exit.
        if line.contains("listening at") {
            signal(&server, "TERM");
        }
        lines.push(line);
    }
    assert_eq!(server.wait().unwrap().code(), Some(0));
    let times = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
    assert_eq!((times("--index-all"), times("event loop ")), (1, 1), "{lines:#?}");
}
