//! Single requests and their responses: methods, targets, framing, keep-alive, pipelining.

use std::io::{Read, Write};

use crate::harness::{Server, pages, parse, serve};

fn hello() -> Server {
    serve(
        &pages(&[
            ("hello.txt", "Hello World!\n"),
            ("index.html", "<title>home</title>"),
            ("a b.txt", "spaced"),
        ]),
        &[],
    )
}

#[test]
fn response_has_all_fields() {
    let response = hello().get("/hello.txt");
    assert_eq!((response.status, response.body.as_slice()), (200, b"Hello World!\n".as_slice()));
    assert_eq!(response.field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert_eq!(response.field("Content-Length"), Some("13"));
    assert_eq!(response.field("Cache-Control"), Some("public, max-age=3600"));
    assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"));
    let etag = response.field("ETag").unwrap();
    assert!(etag.len() == 18 && etag.starts_with('"') && etag.ends_with('"'), "{etag}");
    let date = response.field("Date").unwrap();
    assert!(date.len() == 29 && date.ends_with(" GMT"), "{date}");
}

#[test]
fn head_is_get_without_content() {
    let server = hello();
    for target in ["/hello.txt", "/", "/nothing"] {
        let mut get = server.get(target);
        let mut head = server.request("HEAD", target, "");
        for response in [&mut get, &mut head] {
            response.fields.retain(|(name, _)| name != "Date");
            response.body.clear();
        }
        assert_eq!(get, head, "{target}");
    }
}

#[test]
fn other_methods_get_405_with_allow() {
    let server = hello();
    for (method, status) in [
        ("OPTIONS", 204),
        ("POST", 405),
        ("DELETE", 405),
        ("TRACE", 405),
        ("QUERY", 405),
        ("VERSION-CONTROL", 405),
        ("query", 501),
        ("QUERYX", 501),
        ("BREW", 501),
    ] {
        let response = server.request(method, "/hello.txt", "");
        assert_eq!(response.status, status, "{method}");
        assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"), "{method}");
    }
}

#[test]
fn equivalent_paths_are_one_path() {
    let server = hello();
    for target in [
        "/hello.txt",
        "/%68ello.txt",
        "//hello.txt",
        "/./hello.txt",
        "/x/../hello.txt",
        "/x/%2e%2E/hello.txt",
        "/hello.txt?q",
        "/../hello.txt",
        "http://localhost/hello.txt",
        "HTTP://other:80/hello.txt",
    ] {
        assert_eq!(server.get(target).body, b"Hello World!\n", "{target}");
    }
    assert_eq!(server.get("/a%20b.txt").body, b"spaced");
    assert_eq!(server.get("/x%2Fhello.txt").status, 404);
    assert_eq!(server.get("/hello.txt%00").status, 400);
    assert_eq!(server.get("/%zz").status, 400);
}

#[test]
fn ambiguous_requests_are_refused() {
    let server = hello();
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        ("GET / HTTP/1.1\nHost: a\n\n", 400),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505),
    ] {
        let answer = server.raw(request.as_bytes());
        let (response, rest) = parse(&answer, "GET");
        assert_eq!(response.status, status, "{request:?}");
        assert_eq!(
            (response.field("Connection"), response.field("Cache-Control")),
            (Some("close"), Some("no-store"))
        );
        assert!(rest.is_empty());
    }

    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9000));
    assert_eq!(parse(&server.raw(long.as_bytes()), "GET").0.status, 414);
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(20_000));
    assert_eq!(parse(&server.raw(large.as_bytes()), "GET").0.status, 431);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = hello();

    let mut requests = String::new();
    for target in ["/hello.txt", "/nothing", "/", "/a%20b.txt"].iter().cycle().take(400) {
        requests.push_str(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
    }
    requests.push_str("GET /hello.txt HTTP/1.0\r\n\r\n");

    let answer = server.raw(requests.as_bytes());
    let mut rest = answer.as_slice();
    for number in 0..=400 {
        let (response, others) = parse(rest, "GET");
        let expected: (u16, &[u8]) = match number % 4 {
            0 => (200, b"Hello World!\n"),
            1 => (404, &response.body),
            2 => (200, b"<title>home</title>"),
            _ => (200, b"spaced"),
        };
        assert_eq!((response.status, response.body.as_slice()), expected, "answer {number}");
        rest = others;
    }
    assert!(rest.is_empty());
}

#[test]
fn request_may_arrive_byte_by_byte() {
    let server = hello();
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    for byte in b"GET /hello.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(parse(&answer, "GET").0.body, b"Hello World!\n");
}

#[test]
fn half_closed_connection_is_answered_and_closed() {
    let server = hello();
    let mut stream = server.connect();
    stream.write_all(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(parse(&answer, "GET").0.body, b"Hello World!\n");
}

#[test]
fn http_1_0_closes_unless_keep_alive() {
    let server = hello();
    let answer = server.raw(b"GET /hello.txt HTTP/1.0\r\n\r\n");
    assert_eq!(parse(&answer, "GET").0.field("Connection"), Some("close"));
    let answer =
        server.raw(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /hello.txt HTTP/1.0\r\n\r\n");
    let (first, rest) = parse(&answer, "GET");
    assert_eq!(first.field("Connection"), Some("keep-alive"));
    assert_eq!(parse(rest, "GET").0.body, b"Hello World!\n");
}

#[test]
fn slow_reader_receives_a_large_file() {
    let content: Vec<u8> = (0..6_000_000u32).flat_map(u32::to_le_bytes).collect();
    let server = serve(&[(b"large.bin", &content)], &["--compress", "identity"]);
    let mut stream = server.connect();
    stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let mut chunk = [0; 3001];
    loop {
        match stream.read(&mut chunk).unwrap() {
            0 => break,
            bytes => answer.extend_from_slice(&chunk[..bytes]),
        }
    }
    assert!(parse(&answer, "GET").0.body == content, "the bytes differ");
}

#[test]
fn dummy_gives_one_response_to_everything() {
    let server = Server::start(&["--dummy"]);
    let answer = server
        .raw(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\nGET /y HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let plain = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nhello world!\n";
    let last = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\nhello world!\n";
    assert_eq!(String::from_utf8(answer).unwrap(), format!("{plain}{last}"));
    let answer = server
        .raw(b"HEAD /x HTTP/1.1\r\nHost: h\r\n\r\nGET /y HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let head = plain.strip_suffix("hello world!\n").unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), format!("{head}{last}"));
    let answer = Server::start(&["--dummy-empty"]).raw(b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(answer, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

#[test]
fn request_content_is_not_parsed_as_a_request() {
    let content = "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n";
    let first = format!("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{content}", content.len());
    let answer = hello().raw(format!("{first}GET /hello.txt HTTP/1.0\r\n\r\n").as_bytes());
    let (first, rest) = parse(&answer, "GET");
    assert_eq!(first.body, b"<title>home</title>");
    assert_eq!(parse(rest, "GET").0.body, b"Hello World!\n");
}
