//! Sites of the program that are replaced while a server serves them.

use super::*;
use cannery::{EmbeddedSite, Site};
use cannery_archiver::{Encoder, Options};

/// Length of the large file, more than the buffers of two sockets hold.
const LARGE_BYTES: usize = 24 << 20;

/// Returns the archive of a site with this front page, and a large file that repeats the letter.
fn archive(page: &str, letter: u8, large_bytes: usize) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("site");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("index.html"), page).unwrap();
    fs::write(folder.join("large.txt"), vec![letter; large_bytes]).unwrap();
    let archive = directory.path().join("site.cdb");
    let mut options = Options::new(&folder, &archive);
    options.encoders = [Encoder::Identity].into();
    cannery_archiver::compile(&options, &()).unwrap();
    fs::read(archive).unwrap()
}

/// Returns a site with only this front page.
fn site(page: &str) -> Site {
    Site::from_bytes(archive(page, b'-', 1)).unwrap()
}

/// Returns a site as `include_archive!` would.
fn embedded(archive: Vec<u8>) -> &'static EmbeddedSite {
    let archive: &'static [u8] = archive.leak();
    Box::leak(Box::new(EmbeddedSite::new(archive, archive, None)))
}

/// A persistent connection.
struct Connection(http1::Client<TcpStream>);

impl Connection {
    fn open(server: &RunningServer) -> Connection {
        Connection::to(server.local_addresses()[0])
    }

    fn to(address: SocketAddr) -> Connection {
        Connection(http1::Client::new(TcpStream::connect(address).unwrap()))
    }

    /// Returns the front page of a host.
    fn page(&mut self, host: &str) -> String {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let response = self.0.request(request.as_bytes(), "GET").unwrap();
        assert_eq!(response.status, 200);
        String::from_utf8(response.body).unwrap()
    }

    /// Requests the front page of a host until it is `page`.
    fn await_page(&mut self, host: &str, page: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.page(host) != page {
            assert!(Instant::now() < deadline, "{host} still has another page than {page}");
        }
    }
}

fn stop(server: RunningServer) {
    server.stop_handle().stop();
    server.wait();
}

#[test]
fn sites_of_two_hosts_are_replaced_separately() {
    let a = embedded(archive("first of a", b'-', 1));
    let b = embedded(archive("first of b", b'-', 1));
    let all = site("first of all");
    let server = Server::new()
        .embedded_site_of("a.example", a)
        .embedded_site_of("*.b.example", b)
        .embedded_site(&all)
        .threads(NonZeroUsize::MIN)
        .bind("127.0.0.1:0")
        .start()
        .unwrap();
    let mut connection = Connection::open(&server);
    let mut pages = || ["a.example", "x.b.example", "c.example"].map(|host| connection.page(host));
    assert_eq!(pages(), ["first of a", "first of b", "first of all"]);

    b.replace(&site("second of b"));
    Connection::open(&server).await_page("x.b.example", "second of b");
    assert_eq!(pages(), ["first of a", "second of b", "first of all"]);
    a.replace(&site("second of a"));
    all.clone().replace(&site("second of all"));
    Connection::open(&server).await_page("c.example", "second of all");
    assert_eq!(pages(), ["second of a", "second of b", "second of all"]);

    assert_eq!(a.file("/").unwrap().content, "second of a", "the program sees the same site");
    stop(server);
}

#[test]
fn body_in_flight_is_sent_from_the_replaced_archive() {
    let site_a = Site::from_bytes(archive("old", b'a', LARGE_BYTES)).unwrap();
    let server = Server::new().embedded_site(site_a.clone()).bind("127.0.0.1:0").start().unwrap();
    let address = server.local_addresses()[0];

    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /large.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut received = vec![0; 1000];
    stream.read_exact(&mut received).unwrap();
    let mut client = http2::Client::new(TcpStream::connect(address).unwrap());
    let id = client.send_request(&pseudo("GET", "/large.txt", &[])).unwrap();
    let mut over_http2 = Vec::new();
    while over_http2.is_empty() {
        let frame = client.receive_frame().unwrap();
        if frame.stream == id && frame.kind == DATA {
            over_http2.extend_from_slice(&frame.payload);
        }
    }

    site_a.replace(&Site::from_bytes(archive("new", b'b', 1)).unwrap());
    Connection::open(&server).await_page("a", "new");

    stream.read_to_end(&mut received).unwrap();
    let body = &received[received.len() - LARGE_BYTES..];
    assert!(received.starts_with(b"HTTP/1.1 200 ") && body.iter().all(|&letter| letter == b'a'));
    while over_http2.len() < LARGE_BYTES {
        let frame = client.receive_frame().unwrap();
        if frame.stream == id && frame.kind == DATA {
            over_http2.extend_from_slice(&frame.payload);
        }
    }
    assert!(over_http2.iter().all(|&letter| letter == b'a'));
    stop(server);
}

#[test]
fn archive_that_can_be_truncated_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("site.cdb");
    fs::write(&path, archive("mapped", b'a', LARGE_BYTES)).unwrap();
    let mapped = || Site::open(&path).unwrap();
    let shared = mapped();
    let notices = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&notices);
    let server = Server::new()
        .embedded_site_of("a.example", &shared)
        .configure(|settings| settings.on_notice(move |notice| seen.lock().unwrap().push(notice.to_string())))
        .bind("127.0.0.1:0")
        .start()
        .unwrap();
    let report = "the embedded archive for a.example: the program has opened it as a mapped file";
    let reports =
        || notices.lock().unwrap().iter().filter(|notice: &&String| notice.starts_with(report)).count();
    assert_eq!(reports(), 1);
    shared.replace(&mapped());
    assert_eq!(reports(), 1, "it was said before");
    shared.replace(&site("in memory"));
    assert_eq!(reports(), 1);
    shared.replace(&mapped());
    assert_eq!(reports(), 2);
    stop(server);
}

#[test]
fn each_response_during_replacements_is_from_one_archive() {
    const REPLACEMENTS: usize = 40;
    const LENGTH: usize = 1000;
    // A page and its length must fit together.
    let page = |number: usize| format!("{number:04}").repeat(LENGTH + number);
    let shared = site(&page(0));
    let server = Server::new()
        .embedded_site(&shared)
        .threads(NonZeroUsize::new(2).unwrap())
        .bind("127.0.0.1:0")
        .start()
        .unwrap();

    let address = server.local_addresses()[0];
    let last = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut connection = Connection::to(address);
                let mut before = 0;
                while before < REPLACEMENTS {
                    let received = connection.page("a");
                    let number = received[..4].parse().unwrap();
                    assert!(received == page(number), "a mixture of two pages");
                    // All requests of a connection are answered by the same thread.
                    assert!(number >= before, "{number} after {before}");
                    before = number;
                    last.fetch_max(number, Ordering::SeqCst);
                }
            });
        }
        for number in 1..=REPLACEMENTS {
            shared.replace(&site(&page(number)));
            while number < REPLACEMENTS && last.load(Ordering::SeqCst) < number {
                thread::yield_now();
            }
        }
    });
    stop(server);
}

#[test]
fn handlers_and_notices_may_replace_the_site() {
    let shared = site("first");
    let (in_handler, in_notice) = (shared.clone(), shared.clone());
    let server = Server::new()
        .embedded_site(&shared)
        .threads(NonZeroUsize::MIN)
        .route("POST /replace", move |_: &Request<'_>| in_handler.replace(&site("second")))
        .route("GET /panic", |_: &Request<'_>| -> Response { panic!("this handler panics in a test") })
        .configure(|settings| settings.on_notice(move |_| in_notice.replace(&site("third"))))
        .bind("127.0.0.1:0")
        .start()
        .unwrap();
    let mut connection = Connection::open(&server);
    let post = b"POST /replace HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(connection.0.request(post, "POST").unwrap().status, 204);
    connection.await_page("a", "second");
    let panicking = b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(connection.0.request(panicking, "GET").unwrap().status, 500);
    connection.await_page("a", "third");
    stop(server);
}

#[test]
fn site_is_replaced_in_all_servers_that_run() {
    let shared = site("first");
    let start = || Server::new().embedded_site(&shared).bind("127.0.0.1:0").start().unwrap();
    let (stopped, one) = (start(), start());
    stop(stopped);
    shared.replace(&site("second"));
    let two = start();
    for server in [&one, &two] {
        Connection::open(server).await_page("a", "second");
    }
    shared.replace(&site("third"));
    for server in [&one, &two] {
        Connection::open(server).await_page("a", "third");
    }
    stop(one);
    stop(two);
    shared.replace(&site("fourth"));
}

#[test]
fn hosts_of_a_shared_site_can_be_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("site");
    for (name, page) in [("index.html", "default"), ("_hosts/a.example/index.html", "of the host")] {
        fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        fs::write(folder.join(name), page).unwrap();
    }
    let archive = directory.path().join("site.cdb");
    cannery_archiver::compile(&Options::new(&folder, &archive), &()).unwrap();
    let shared = Site::open(&archive).unwrap();
    for (virtual_hosts, page) in [
        (cannery::config::VirtualHosts::Enabled, "of the host"),
        (cannery::config::VirtualHosts::Ignored, "default"),
    ] {
        let server = Server::new()
            .embedded_site(&shared)
            .configure(|settings| settings.virtual_hosts(virtual_hosts))
            .bind("127.0.0.1:0")
            .start()
            .unwrap();
        assert_eq!(Connection::open(&server).page("a.example"), page);
        stop(server);
    }
}

#[test]
fn truncated_embedded_archive_is_an_error() {
    let mut bytes = archive("page", b'-', 1);
    bytes.truncate(bytes.len() - 1);
    let error = Server::new().embedded_site(embedded(bytes)).bind("127.0.0.1:0").start().unwrap_err();
    assert!(matches!(error, StartError::Archive { .. }), "{error}");
}
