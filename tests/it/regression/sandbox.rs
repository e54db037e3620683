//! The sandbox: operations that the server needs, and restrictions that were missing.

#![cfg(not(feature = "portable"))]

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr as LocalAddress, UnixDatagram};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType, connect, socket};

use crate::harness::{Server, TIMEOUT, compile, pages, run, server_command, write_folder};

/// The user and group `nobody`.
const NOBODY: &str = "65534:65534";

/// More than the kernel buffers for a client that doesn't read.
const LARGE_BYTES: usize = 8 << 20;

/// Returns a directory that every user may enter, with an archive of one page and one large file.
fn site() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let source = folder.path().join("site");
    write_folder(&source, &pages(&[("a.txt", "a page")]));
    fs::write(source.join("large.bin"), vec![b'x'; LARGE_BYTES]).unwrap();
    compile(&source, &folder.path().join("site.cdb"), &["--compress", "identity"]);
    folder
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

/// Opens a connection with a tiny receive buffer.
fn narrow_connection(address: &str) -> TcpStream {
    let address: SocketAddr = address.parse().unwrap();
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_recv_buffer_size(&socket, 2048).unwrap();
    connect(&socket, &address).unwrap();
    TcpStream::from(socket)
}

/// The sandbox denied the socket option that resets a connection on close (SO_LINGER). The kernel then kept the unsent
/// bytes of the closed connections.
#[test]
fn stalled_readers_are_reset() {
    let folder = site();
    let archive = path(folder.path(), "site.cdb");
    let mut readers = Vec::new();
    let mut servers = Vec::new();
    for io in ["epoll", "io_uring"] {
        if io == "io_uring" && !has_rings() {
            println!("skipped: this kernel has no io_uring");
            continue;
        }

        let server = Server::start(&["--archive", &archive, "--io", io, "--sandbox", "require"]);
        for _ in 0..3 {
            let mut reader = narrow_connection(&server.address);
            reader.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            readers.push((io, reader));
        }
        servers.push(server);
    }

    // The server checks the progress of clients every half minute.
    for (io, reader) in readers {
        let end = await_end(&reader);
        assert_eq!(end, Some(ErrorKind::ConnectionReset), "{io}");
    }

    for server in servers {
        assert_eq!(server.get("/a.txt").body, b"a page");
        assert_eq!(server.stop(), Some(0));
    }
}

pub(super) fn has_rings() -> bool {
    let output = run("cannery-server", &["--io", "io_uring", "--archive", "/no/such/archive"]);
    !String::from_utf8_lossy(&output.stderr).contains("io_uring")
}

/// Returns how an unread connection was closed, or `None` if it stayed open much longer than the server's timeout.
fn await_end(reader: &TcpStream) -> Option<ErrorKind> {
    let end = Instant::now() + Duration::from_secs(90);
    while Instant::now() < end {
        if let Some(error) = reader.take_error().unwrap() {
            return Some(error.kind());
        }
        // Only a read shows that the peer has closed a connection.
        std::thread::sleep(Duration::from_millis(100));
    }
    None
}

/// The kernel rejected a rule for the removal of the socket. The server then ran without Landlock, and reported that the
/// kernel didn't support it.
#[test]
fn landlock_is_active_with_local_sockets() {
    let folder = site();
    let archive = path(folder.path(), "site.cdb");
    let local = folder.path().join("s.sock");
    let admin = folder.path().join("admin.sock");
    let bind = format!("unix:{}", local.display());
    let operators = format!("unix:{}", admin.display());
    for more in [&["--bind", &bind][..], &["--admin", &operators]] {
        let flags = ["--archive", &archive, "--sandbox", "require", "--debug"];
        let server = Server::start(&[&flags, more].concat());
        let line = server.await_line("system calls");
        assert!(line.contains("files restricted by landlock"), "{line}");
        assert!(local.exists() || admin.exists());
        assert_eq!(server.stop(), Some(0));
        assert!(!local.exists() && !admin.exists(), "the path is removed with the server");
    }
}

/// Files that only root can open were reported at the next release or log rotation, not at startup.
#[test]
fn files_that_the_user_cannot_open_are_named_at_startup() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let folder = site();
    let archive = path(folder.path(), "site.cdb");
    let log = path(folder.path(), "access.log");
    let start = || {
        let flags = ["--archive", &archive, "--access-log", &log, "--user", NOBODY, "--sandbox", "require"];
        Server::start(&flags)
    };
    fs::set_permissions(&archive, fs::Permissions::from_mode(0o600)).unwrap();
    let server = start();
    let line = server.await_line("may not read it");
    assert!(line.contains("warning") && line.contains(&archive) && line.contains("user 65534"), "{line}");
    let line = server.await_line("may not write to it");
    assert!(line.contains("warning") && line.contains(&log), "{line}");
    assert_eq!(server.get("/a.txt").body, b"a page");
    assert_eq!(server.stop(), Some(0));

    // With the permissions that the message requires, there is none.
    fs::set_permissions(&archive, fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(&log).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::chown(folder.path(), Some(65534), None).unwrap();
    fs::write(&log, "").unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o666)).unwrap();
    let server = start();
    assert_eq!(server.get("/a.txt").body, b"a page");
    server.signal("TERM");
    assert_eq!(server.lines().into_iter().find(|line| line.contains("warning")), None);
}

/// The cryptographic library opened a file for its first random number, which the sandbox denied.
#[test]
fn handshakes_succeed_in_the_sandbox() {
    let folder = site();
    let archive = path(folder.path(), "site.cdb");
    let flags = ["--archive", &archive, "--processes", "2", "--sandbox", "require"];
    let server = Server::start_on_all_transports(&flags);
    for _ in 0..4 {
        assert_eq!(server.get("/a.txt").body, b"a page");
    }
    assert_eq!(server.stop(), Some(0));
}

/// The system call filter denies sends to an address, so the socket of the service manager must be connected.
#[test]
fn service_manager_is_notified_from_within_the_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    let named = folder.path().join("notify");
    let name = format!("cannery-test-notify-{}", std::process::id());
    let in_abstract = LocalAddress::from_abstract_name(&name).unwrap();
    let sockets = [
        (named.to_str().unwrap().to_owned(), UnixDatagram::bind(&named).unwrap()),
        (format!("@{name}"), UnixDatagram::bind_addr(&in_abstract).unwrap()),
    ];

    for (name, socket) in sockets {
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let await_message = |expected: &str| {
            let mut buffer = [0; 512];
            loop {
                let bytes =
                    socket.recv(&mut buffer).unwrap_or_else(|error| panic!("{name}: {expected}: {error}"));
                if String::from_utf8_lossy(&buffer[..bytes]).lines().any(|line| line == expected) {
                    return;
                }
            }
        };

        let mut command = server_command();
        command.args(["--dummy", "--bind", "127.0.0.1:0", "--threads", "1"]);
        let server = Server::run({
            command.env("NOTIFY_SOCKET", &name).env("WATCHDOG_USEC", "200000");
            command
        });

        await_message("READY=1");
        await_message("WATCHDOG=1");
        server.signal("HUP");
        await_message("RELOADING=1");
        await_message("READY=1");
        server.signal("TERM");
        await_message("STOPPING=1");
    }
}
