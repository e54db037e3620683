//! Messages of the server at start and shutdown.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::harness::{Server, compile, pages, run, server_command, signal, write_folder};

fn archive(folder: &std::path::Path, flags: &[&str]) -> String {
    let source = folder.join("site");
    let archive = folder.join("site.cdb");
    write_folder(&source, &pages(&[("index.html", "page")]));
    std::fs::write(source.join("large.bin"), vec![7; 16 << 20]).unwrap();
    compile(&source, &archive, flags);
    archive.to_str().unwrap().to_owned()
}

#[test]
fn start_names_archive_release_digest_and_paths() {
    let folder = tempfile::tempdir().unwrap();
    let archive = archive(folder.path(), &["--serial", "7"]);
    let inspected = run("cannery", &["inspect", "--json", &archive]);
    let inspected: serde_json::Value = serde_json::from_slice(&inspected.stdout).unwrap();
    for (named, host, processes) in [
        (archive.clone(), "", &[][..]),
        (format!("example.com={archive}"), " for example.com", &["--processes", "2"]),
    ] {
        let mut command = server_command();
        command
            .args(["--archive", &named, "--bind", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(processes);
        let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = Vec::new();
        for line in BufReader::new(server.stderr.take().unwrap()).lines().map(Result::unwrap) {
            if line.contains("admin page and metrics at http://127.0.0.1:") {
                signal(&server, "TERM");
            }
            lines.push(line);
        }
        assert_eq!(server.wait().unwrap().code(), Some(0));
        let digest = inspected["digest"].as_str().unwrap();
        // Two files and two aliases.
        let expected = format!("serving {archive}{host}: release 7, 4 paths, digest {digest}");
        assert_eq!(lines.iter().filter(|line| **line == expected).count(), 1, "{expected} in {lines:#?}");
    }
}

#[test]
fn shutdown_reports_the_remaining_connections() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(&["--archive", &archive(folder.path(), &[]), "--drain", "300"]);
    let mut streams = [server.connect(), server.connect()];
    for stream in &mut streams {
        stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 1]).unwrap();
    }
    server.signal("TERM");
    let line = server.await_line("waiting up to 300 s");
    assert!(line.ends_with("for 2 connections; a second signal ends at once"), "{line}");
    server.signal("TERM");
    assert_eq!(server.await_end(), Some(130));
}
