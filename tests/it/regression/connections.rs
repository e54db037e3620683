//! Closed connections, and the responses that their clients receive.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cannery_testkit::{Ended, http1};

use crate::harness::{Response, Server, pages, parse, run, serve, write_folder};

/// Sends a request and reads its response. Fails if the connection ends first.
fn exchange_on(client: &mut http1::Client<TcpStream>) -> Result<Response, Ended> {
    client.request(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET")
}

#[test]
fn request_sent_during_shutdown_is_answered() {
    let mut server = Server::start(&["--dummy"]);
    let mut clients: Vec<_> = (0..4).map(|_| http1::Client::new(server.connect())).collect();
    for client in &mut clients {
        assert_eq!(exchange_on(client).unwrap().field("Connection"), None);
    }
    server.signal("TERM");
    for client in &mut clients {
        let next = || exchange_on(client).expect("no request is lost");
        let last = std::iter::repeat_with(next).find(|answer| answer.field("Connection") == Some("close"));
        assert_eq!(last.unwrap().status, 200);
        let end = client.receive("GET");
        let is_closed = matches!(&end, Err(Ended::Closed(error)) if error.kind() == ErrorKind::UnexpectedEof);
        assert!(is_closed, "the connection stays open: {end:?}");
    }
    drop(clients);
    assert_eq!(server.wait(), Some(0));
}

/// The kernel delivered a second signal to a worker thread, whose handler wrote a byte to a descriptor that is different in
/// workers: the signal was lost, and a client received the byte.
#[test]
#[cfg(target_os = "linux")]
fn signal_to_a_worker_is_handled() {
    let server = Server::start(&["--dummy"]);
    // With a hundred connections, all low descriptors are theirs.
    let mut clients: Vec<_> = (0..100).map(|_| http1::Client::new(server.connect())).collect();
    for client in &mut clients {
        assert_eq!(exchange_on(client).unwrap().status, 200);
    }

    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().map(|task| task.unwrap());
    let is_worker = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("worker"))
    };
    let workers: Vec<_> = tasks.filter(is_worker).map(|task| task.file_name()).collect();
    assert_eq!(workers.len(), 2);
    for worker in workers {
        // A signal to a thread ID is delivered to the process, preferably by this thread.
        let killed = Command::new("kill").arg("-USR2").arg(worker).status();
        assert!(killed.unwrap().success());
        server.await_line("SIGUSR2: this process cannot start a new program");
    }

    for client in &mut clients {
        assert_eq!(exchange_on(client).expect("a complete response").status, 200);
    }
}

/// A client with a persistent connection that obeys `Connection: close` loses no request during a series of takeovers.
#[test]
fn takeover_loses_no_request_on_a_persistent_connection() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cannery-server"));
    command.args(["--dummy", "--bind", "127.0.0.1:0", "--processes", "1", "--threads", "1"]);
    let mut server = Server::run(command);

    let address = server.address.clone();
    let stop = AtomicBool::new(false);
    let answered = AtomicUsize::new(0);
    let mut successor = 0;

    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let connect = || http1::Client::new(TcpStream::connect(&address).unwrap());
                let mut client = connect();
                while !stop.load(Ordering::Relaxed) {
                    let response = exchange_on(&mut client);
                    answered.fetch_add(1, Ordering::Relaxed);
                    let Ok(response) = response else {
                        stop.store(true, Ordering::Relaxed);
                        panic!("a request was lost");
                    };
                    if response.field("Connection") == Some("close") {
                        client = connect();
                    }
                }
            });
        }

        server.signal("USR2");
        let line = server.await_line("to take over");
        successor = line.split(' ').find_map(|word| word.parse::<u32>().ok()).unwrap();
        assert_eq!(server.wait(), Some(0), "the old program leaves");
        let before = answered.load(Ordering::Relaxed);
        while !stop.load(Ordering::Relaxed) && answered.load(Ordering::Relaxed) < before + 1000 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let kill = Command::new("kill").args(["-TERM", &successor.to_string()]).status();
    assert!(kill.unwrap().success());
    while Path::new(&format!("/proc/{successor}")).exists() {
        std::thread::yield_now();
    }
}

#[test]
fn plain_http_on_a_tls_port_is_explained() {
    // The site's own page for bad requests doesn't explain the cause.
    let server = serve(&pages(&[("a.txt", "content"), ("_400.html", "root 400")]), &[]);
    let mut stream = TcpStream::connect(server.tls_address()).unwrap();
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    let (answer, rest) = parse(&received, "GET");
    let page = String::from_utf8(answer.body.clone()).unwrap();
    assert_eq!((answer.status, answer.field("Connection"), rest.len()), (400, Some("close"), 0));
    assert!(page.contains("This port speaks TLS") && page.contains("https://"), "{page}");
}

#[test]
fn archive_beyond_the_memory_limit_names_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    let noise: Vec<u8> =
        (0..40_000_000_u32).map(|number| (number.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    write_folder(&source, &[(b"large.bin", &noise)]);
    crate::harness::compile(&source, &archive, &["--compress", "identity"]);
    let archive = archive.to_str().unwrap();
    let output = run(
        "cannery-server",
        &["--archive", archive, "--archive-inmem", "--limit-memory", "32", "--bind", "127.0.0.1:0"],
    );
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains("`--limit-memory 32`"), "{printed}");
}
