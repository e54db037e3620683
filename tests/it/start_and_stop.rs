//! Messages of the server at start and shutdown.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{Server, compile, pages, run, server_command, signal, wait_until, write_folder};

fn archive(folder: &Path, flags: &[&str]) -> String {
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

/// Sends a signal as soon as a server accepts a connection, and asserts that it obeys.
fn assert_obeyed_at_once(mut command: Command, socket: &Path, name: &str) {
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("a connection", || UnixStream::connect(socket).is_ok());
    signal(&server, name);
    if !["TERM", "INT", "QUIT"].contains(&name) {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        assert!(received.starts_with(b"HTTP/1.1 200 "), "{name}");
        assert_eq!(server.try_wait().unwrap(), None, "{name}");
        signal(&server, "TERM");
    }
    let status = server.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{name}: {status}, {command:?}");
    assert!(!socket.exists(), "{name}: the socket is removed");
}

/// In the first milliseconds, the server accepted connections, and signals ended it by their default action.
#[test]
fn signals_are_obeyed_from_the_first_connection_on() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let bind = format!("unix:{}", socket.display());
    for processes in ["0", "2"] {
        for name in ["TERM", "INT", "QUIT", "HUP", "USR1", "USR2"] {
            // A supervisor would start another one at SIGUSR2.
            if (processes, name) == ("2", "USR2") {
                continue;
            }

            let mut command = server_command();
            command.args(["--dummy", "--threads", "1", "--bind", &bind]);
            if processes != "0" {
                command.args(["--processes", processes]);
            }
            assert_obeyed_at_once(command, &socket, name);
        }
    }

    let site = folder.path().join("site");
    write_folder(&site, &pages(&[("index.html", "page")]));
    for name in ["TERM", "INT"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
        command.arg("serve").arg(&site).args(["--bind", &bind]);
        assert_obeyed_at_once(command, &socket, name);
    }
}
