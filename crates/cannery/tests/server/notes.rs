//! The example of a whole service, tested as its page says: mostly without sockets.

use super::*;
use cannery::RequestBuilder;

#[path = "../../examples/notes.rs"]
#[allow(dead_code)]
mod example;

use example::Service;

const ORIGIN: &str = "https://app.example";

/// Sends requests to the service, with the cookie of its session.
struct Client {
    server: Server,
    cookie: String,
}

impl Client {
    /// Opens the service, and logs in.
    fn new(folder: &std::path::Path, upstream: SocketAddr) -> Client {
        Client::of(Service::open(folder.join("data"), upstream).unwrap(), "Ada+L")
    }

    /// Logs in.
    fn of(service: &'static Service, user: &str) -> Client {
        let server = service.server(ORIGIN);
        let log_in = Request::builder("POST", "/api/session")
            .with_content("application/x-www-form-urlencoded", format!("user={user}"));
        let response = server.respond(&log_in).unwrap();
        assert_eq!(response.status(), 204);
        let cookie = response.header("Set-Cookie").unwrap();
        assert!(cookie.ends_with("; Path=/api; Secure; HttpOnly; SameSite=Lax"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Client { server, cookie }
    }

    fn send(&self, request: RequestBuilder) -> Response {
        self.server.respond(&request.with_header("Cookie", &self.cookie)).unwrap()
    }
}

fn post(text: &str) -> RequestBuilder {
    Request::builder("POST", "/api/notes").with_json(text).unwrap()
}

fn content(response: Response) -> String {
    String::from_utf8(response.into_content().unwrap()).unwrap()
}

/// An address where nothing listens.
fn nobody() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn notes_are_added_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::new(folder.path(), nobody());
    let added = client.send(post("first"));
    assert_eq!((added.status(), added.header("Location")), (201, Some("/api/notes/0")));
    let notes = r#"[{"author":"Ada L","text":"first"}]"#;
    assert_eq!(content(client.send(Request::builder("GET", "/api/notes"))), notes);
    let note = &notes[1..notes.len() - 1];
    assert_eq!(content(client.send(Request::builder("GET", "/api/notes/0"))), note);
    // The database as a crash would leave it now. Its sessions are kept, too.
    let copy = tempfile::tempdir().unwrap();
    fs::create_dir(copy.path().join("data")).unwrap();
    let [from, to] = [&folder, &copy].map(|folder| folder.path().join("data/notes.redb"));
    fs::copy(from, &to).unwrap();
    let token = client.cookie.split_once('=').unwrap().1.as_bytes();
    let stored = fs::read(&to).unwrap();
    assert!(!stored.windows(token.len()).any(|window| window == token), "the database has the token");
    let other = copy.path().join("other.redb");
    fs::copy(&to, &other).unwrap();
    redb::Builder::new().set_repair_callback(|repair| repair.abort()).open(other).unwrap();
    let mut again = Client::new(copy.path(), nobody());
    again.cookie = client.cookie;
    assert_eq!(again.send(post("second")).header("Location"), Some("/api/notes/1"));
    let notes = format!("{},{}", &notes[..notes.len() - 1], r#"{"author":"Ada L","text":"second"}]"#);
    assert_eq!(content(again.send(Request::builder("GET", "/api/notes"))), notes);
}

#[test]
fn file_of_another_kind_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.redb");
    fs::write(&file, "notes of another program").unwrap();
    assert!(Service::open(folder.path().into(), nobody()).is_err());
    assert_eq!(fs::read(file).unwrap(), b"notes of another program");
}

#[test]
fn errors_of_the_service_are_problems() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::new(folder.path(), nobody());
    client.send(post("first"));
    let text = Request::builder("POST", "/api/notes").with_content("text/plain", "first");
    let long = vec![0; (10 << 20) + 1];
    for (request, status) in [
        (post(""), 422),
        (text, 415),
        (Request::builder("GET", "/api/nothing"), 404),
        (Request::builder("GET", "/api/notes/1"), 404),
        (Request::builder("GET", "/api/notes/-1"), 404),
        (Request::builder("DELETE", "/api/notes"), 405),
        (Request::builder("GET", "/api/health"), 503),
        (Request::builder("PUT", "/api/pictures/..%2fnotes.redb"), 404),
        (Request::builder("PUT", "/api/pictures/0").with_content("image/png", long), 413),
    ] {
        let response = client.send(request);
        assert_eq!(response.status(), status);
        assert_eq!(response.header("Content-Type"), Some("application/problem+json"), "{status}");
        let problem: serde_json::Value = serde_json::from_str(&content(response)).unwrap();
        assert_eq!(problem["status"], status);
    }
    let files = fs::read_dir(folder.path().join("data")).unwrap();
    let mut names = files.map(|file| file.unwrap().file_name());
    assert!(names.all(|name| name == "notes.redb"), "nothing is left of the upload");
    let stranger = client.server.respond(&post("first")).unwrap();
    assert_eq!(stranger.status(), 401);
}

#[test]
fn pictures_are_uploaded_to_notes() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::open(folder.path().join("data"), nobody()).unwrap();
    let client = Client::of(service, "Ada+L");
    let picture = vec![7; 2 << 20];
    let upload = || Request::builder("PUT", "/api/pictures/0").with_content("image/png", picture.clone());
    assert_eq!(client.send(upload()).status(), 404, "there is no note");
    client.send(post("first"));
    assert_eq!(client.send(upload()).status(), 204);
    let stored = || fs::read(folder.path().join("data/0.picture")).unwrap();
    assert!(stored() == picture);
    let other = Client::of(service, "Eve");
    let upload = Request::builder("PUT", "/api/pictures/0").with_content("image/png", "other");
    assert_eq!(other.send(upload).status(), 403);
    assert!(stored() == picture);
}

#[test]
fn pages_of_one_other_origin_may_use_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::new(folder.path(), nobody());
    let preflight = |origin: &str| {
        Request::builder("OPTIONS", "/api/notes")
            .with_header("Origin", origin)
            .with_header("Access-Control-Request-Method", "POST")
            .with_header("Access-Control-Request-Headers", "content-type")
    };
    let response = client.server.respond(&preflight(ORIGIN)).unwrap();
    assert_eq!((response.status(), response.header("Access-Control-Allow-Origin")), (204, Some(ORIGIN)));
    assert_eq!(response.header("Access-Control-Allow-Headers"), Some("Content-Type"));
    let response = client.send(post("").with_header("Origin", ORIGIN));
    assert_eq!((response.status(), response.header("Access-Control-Allow-Origin")), (422, Some(ORIGIN)));

    for origin in ["https://other.example", "null", "https://app.example.evil.example"] {
        for request in [preflight(origin), post("").with_header("Origin", origin)] {
            let response = client.send(request);
            assert_eq!(response.header("Access-Control-Allow-Origin"), None, "{origin}");
            assert_eq!(response.header("Vary"), Some("Origin"));
        }
    }
}

#[test]
fn service_waits_for_a_task_and_sends_events() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::new(folder.path(), upstream.local_addr().unwrap());
    assert_eq!(content(client.send(Request::builder("GET", "/api/health"))), "up");

    let Client { server, cookie } = client;
    let server = server.bind("127.0.0.1:0").start().unwrap();
    let address = server.local_addresses()[0];
    let mut listener = TcpStream::connect(address).unwrap();
    listener.write_all(b"GET /api/events HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut received = Vec::new();
    let mut await_text = |text: &[u8]| {
        while !received.windows(text.len()).any(|window| window == text) {
            let mut chunk = [0; 1000];
            let length = listener.read(&mut chunk).unwrap();
            assert!(length > 0, "the stream has ended");
            received.extend_from_slice(&chunk[..length]);
        }
    };
    await_text(b"text/event-stream");
    let request = format!(
        "POST /api/notes HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\nContent-Type: application/json\r\nContent-Length: 6\r\n\r\n\"late\""
    );
    let mut poster = http1::Client::new(TcpStream::connect(address).unwrap());
    assert_eq!(poster.request(request.as_bytes(), "POST").unwrap().status, 201);
    await_text(b"event: note\ndata: {\"author\":\"Ada L\",\"text\":\"late\"}\n\n");
    server.stop_handle().stop();
}

/// Copies the example into the page with `CANNERY_WRITE_PAGE=1`, and compares both otherwise.
#[test]
fn page_contains_the_example() {
    const BEGIN: &str = "<!-- crates/cannery/examples/notes.rs -->\n```rust\n";
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../docs/routes.md");
    let page = fs::read_to_string(&path).unwrap();
    let example = fs::read_to_string(root.join("examples/notes.rs")).unwrap();
    // The page says what the first comment does.
    let (_, code) = example.split_once("\n\n").unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has a mark for the example");
    let (_, after) = rest.split_once("```\n").unwrap();
    let wanted = format!("{before}{BEGIN}{code}```\n{after}");
    if std::env::var_os("CANNERY_WRITE_PAGE").is_some() {
        fs::write(&path, wanted).unwrap();
    } else {
        assert!(
            page == wanted,
            "docs/routes.md differs from the example: run this test with CANNERY_WRITE_PAGE=1"
        );
    }
}
