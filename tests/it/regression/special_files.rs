//! FIFOs and devices under a name that the running server opens: it reports them and continues.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::authority::Authority;
use crate::harness::{Server, compile, pages, run, write_folder};

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn archive_of(folder: &Path, name: &str) -> PathBuf {
    let source = folder.join(name);
    let archive = folder.join(format!("{name}.cdb"));
    write_folder(&source, &pages(&[("index.html", "page")]));
    fs::write(source.join("name.txt"), name).unwrap();
    compile(&source, &archive, &[]);
    archive
}

/// The housekeeping thread waited for a writer of the FIFO, and no longer checked any archive or lease.
#[test]
fn fifo_instead_of_an_archive_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let served = folder.path().join("served.cdb");
    fs::rename(archive_of(folder.path(), "first"), &served).unwrap();
    let server = Server::start(&["--archive", served.to_str().unwrap()]);

    let fifo = folder.path().join("fifo");
    make_fifo(&fifo);
    fs::rename(&fifo, &served).unwrap();
    let line = server.await_line("still served");
    assert!(line.contains("FIFO"), "{line}");
    assert_eq!(server.get("/name.txt").body, b"first");

    fs::rename(archive_of(folder.path(), "second"), &served).unwrap();
    server.await_line("serves a new release");
    assert_eq!(server.get("/name.txt").body, b"second");
}

/// The housekeeping thread waited for a writer of the FIFO, as above.
#[test]
fn fifo_instead_of_a_certificate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let bundle = folder.path().join("bundle.pem");
    let fifo = folder.path().join("fifo");
    authority.certify(&["localhost"]).write_bundle(&bundle);
    let server =
        Server::start(&["--dummy", "--bind-tls", "127.0.0.1:0", "--tls-bundle", bundle.to_str().unwrap()]);

    make_fifo(&fifo);
    fs::rename(&fifo, &bundle).unwrap();
    let line = server.await_line("previous certificates are still used");
    assert!(line.contains("not a regular file"), "{line}");

    authority.certify(&["localhost"]).write_bundle(&bundle);
    server.await_line("new certificates are used");
}

#[test]
fn server_does_not_start_with_a_fifo() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    make_fifo(&fifo);
    let fifo = fifo.to_str().unwrap();
    for (flags, code) in [
        (&["--archive", fifo][..], 3),
        (&["--dummy", "--bind-tls", "127.0.0.1:0", "--tls-bundle", fifo], 3),
        (&["--dummy", "--access-log", fifo], 4),
    ] {
        let output = run("cannery-server", &[&["--bind", "127.0.0.1:0"], flags].concat());
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{printed}");
        assert!(printed.contains("FIFO") || printed.contains("regular file"), "{printed}");
    }
}

#[test]
fn fifo_instead_of_a_log_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let fifo = folder.path().join("fifo");
    let server = Server::start(&["--dummy", "--access-log", log.to_str().unwrap()]);
    make_fifo(&fifo);
    fs::rename(&fifo, &log).unwrap();
    server.signal("USR1");
    let line = server.await_line("access log cannot be written");
    assert!(line.contains("FIFO"), "{line}");
    assert_eq!(server.stop(), Some(0));
}
