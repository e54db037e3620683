//! HTTP/2 connections (RFC 9113): concurrent requests, flow control, field compression, GOAWAY, and abuse of each of them.
//!
//! All other tests compare the responses over HTTP/2 with those over HTTP/1.1 (`transports`).

use std::io::{Read, Write};
use std::net::TcpStream;

use cannery_testkit::http2::{
    CANCEL, CONTINUATION, Client, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR,
    GOAWAY, HEADER_TABLE_SIZE, HEADERS, INITIAL_WINDOW_SIZE, NO_ERROR, OPEN_WINDOWS, PING, PRIORITY,
    PRIORITY_UPDATE, PROTOCOL_ERROR, RST_STREAM, SETTINGS, WINDOW_UPDATE, field_block,
};
use cannery_testkit::{Ended, Response};

use crate::fixture_site::{noise, text};
use crate::harness::{Server, TLS_FLAGS, decode, serve};
use crate::transports::connect_tls;

const LARGE: usize = 3_000_000;

/// Serves small files, a large one, and a page in each content coding.
fn site() -> Server {
    let files: [(&[u8], &[u8]); 5] = [
        (b"index.html", b"<title>home</title>"),
        (b"a.txt", b"content"),
        (b"page.html", &text(30_000)),
        (b"style.css", &text(80_000)),
        (b"large.bin", &noise(LARGE)),
    ];
    serve(&files, &["--compress", "identity,gzip,brotli"])
}

fn plain(server: &Server) -> Client<TcpStream> {
    Client::new(server.connect())
}

fn get(path: &str) -> [(&str, &str); 4] {
    [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", path)]
}

/// Reads up to GOAWAY and returns its error code, or `None` if the connection closes without it.
fn goaway_code<S: Read + Write>(connection: &mut Client<S>) -> Option<u32> {
    loop {
        match connection.receive_frame() {
            Ok(frame) if frame.kind == GOAWAY => return Some(frame.number(4)),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

#[test]
fn concurrent_requests_get_their_responses() {
    let server = site();
    let mut connection = Client::new(connect_tls(server.tls_address(), &["h2"]));
    let paths = ["/a.txt", "/", "/page.html", "/style.css", "/nothing", "/large.bin"];
    let expected: Vec<Response> = paths.iter().map(|path| server.get(path)).collect();
    for _ in 0..10 {
        let requested: Vec<_> = (0..60).map(|number| paths[number % paths.len()]).collect();
        let ids: Vec<_> = requested.iter().map(|path| connection.send_request(&get(path)).unwrap()).collect();
        let responses = connection.receive_all(&ids, "GET").unwrap();
        for (number, response) in responses.iter().enumerate() {
            let expected = &expected[number % paths.len()];
            assert_eq!(response.status, expected.status, "{}", requested[number]);
            assert!(response.body == expected.body, "{}", requested[number]);
        }
        let received: usize = responses.iter().map(|response| response.body.len()).sum();
        connection.send_window_update(0, u32::try_from(received).unwrap());
    }
}

#[test]
fn targets_and_hosts_follow_the_same_grammar_as_http1() {
    let server = site();
    let mut connection = plain(&server);
    let mut status = |authority: &str, path: &str| {
        let fields = [(":method", "GET"), (":scheme", "http"), (":authority", authority), (":path", path)];
        let id = connection.send_request(&fields).unwrap();
        connection.receive(id, "GET").unwrap().status
    };
    for path in ["/a.txt#part", "/a.txt?q#part", "/#"] {
        assert_eq!(status("localhost", path), 400, "{path}");
    }
    for authority in ["a%zz", "[::zz]", "[::1", "[fe80::1%25eth0]", "user@localhost", "", ":80"] {
        assert_eq!(status(authority, "/a.txt"), 400, "{authority}");
    }
    for authority in ["%61", "[::1]:80", "localhost:"] {
        assert_eq!(status(authority, "/a.txt"), 200, "{authority}");
    }
}

#[test]
fn flow_control_windows_are_respected() {
    let server = site();
    let content = noise(LARGE);
    let mut connection = Client::with_settings(server.connect(), &[(INITIAL_WINDOW_SIZE, 1000)]);
    let id = connection.send_request(&get("/large.bin")).unwrap();
    // The window of the stream is set by SETTINGS, which may change it, and enlarged by WINDOW_UPDATE.
    let mut received = Vec::new();
    let receive_to = |connection: &mut Client<TcpStream>, length: usize, received: &mut Vec<u8>| {
        while received.len() < length {
            let frame = connection.receive_frame().unwrap();
            match frame.kind {
                DATA => received.extend_from_slice(&frame.payload),
                HEADERS => drop(connection.decode_head(frame)),
                SETTINGS | PING | WINDOW_UPDATE => {}
                _ => panic!("{frame:?}"),
            }
        }
        // The acknowledgement of a PING follows everything that was allowed before it.
        connection.send_frame(PING, 0, 0, b"in order");
        loop {
            let frame = connection.receive_frame().unwrap();
            match frame.kind {
                PING => break,
                SETTINGS => {}
                _ => panic!("{} bytes more than the window allows", frame.payload.len()),
            }
        }
        assert_eq!(received.len(), length);
    };

    receive_to(&mut connection, 1000, &mut received);
    connection.send_settings(&[(INITIAL_WINDOW_SIZE, 4000)]);
    receive_to(&mut connection, 4000, &mut received);
    connection.send_window_update(id, 1);
    receive_to(&mut connection, 4001, &mut received);

    // A window can become negative (RFC 9113, section 6.9.2).
    connection.send_settings(&[(INITIAL_WINDOW_SIZE, 0)]);
    connection.send_window_update(id, 4000);
    receive_to(&mut connection, 4001, &mut received);
    connection.send_window_update(id, 10_000_000);

    // Now the window of the connection is the limit.
    receive_to(&mut connection, 65_535, &mut received);
    connection.send_window_update(0, 100_000);
    receive_to(&mut connection, 165_535, &mut received);

    assert!(received == content[..165_535]);
    // A response without content needs no window.
    connection.send_settings(&[(INITIAL_WINDOW_SIZE, 65_535)]);
    let other = connection
        .send_request(&[(":method", "HEAD"), get("/a.txt")[1], get("/")[2], (":path", "/a.txt")])
        .unwrap();
    assert_eq!(connection.receive(other, "HEAD").unwrap().status, 200);
}

#[test]
fn slow_reader_receives_a_large_file() {
    let server = site();
    let content = noise(LARGE);
    let mut connection =
        Client::with_settings(connect_tls(server.tls_address(), &["h2"]), &[(INITIAL_WINDOW_SIZE, 20_000)]);
    let id = connection.send_request(&get("/large.bin")).unwrap();
    let mut received = Vec::new();

    while received.len() < LARGE {
        let frame = connection.receive_frame().unwrap();
        match frame.kind {
            HEADERS => drop(connection.decode_head(frame)),
            DATA => {
                let length = u32::try_from(frame.payload.len()).unwrap();
                received.extend_from_slice(&frame.payload);
                if length > 0 && received.len() < LARGE {
                    connection.send_window_update(id, length);
                    connection.send_window_update(0, length);
                }
            }
            _ => {}
        }
    }

    assert!(received == content);
}

#[test]
fn any_header_table_size_gives_the_same_fields() {
    let server = site();
    let paths = ["/a.txt", "/page.html", "/", "/nothing", "/a.txt", "/style.css"];
    for size in [0, 40, 100, 300, 4096, 1 << 20] {
        let mut connection = Client::with_settings(
            server.connect(),
            &[(HEADER_TABLE_SIZE, size), (INITIAL_WINDOW_SIZE, 1 << 20)],
        );

        connection.decoder().set_max_allowed_table_size((size as usize).max(4096));
        for path in paths.iter().cycle().take(24) {
            let fields = [&get(path)[..], &[("accept-encoding", "br")]].concat();
            let response = connection.request(&fields).unwrap();
            let expected = server.get_with_coding(path, "br");
            for (name, value) in &expected.fields {
                if !["Date", "Connection"].contains(&name.as_str()) {
                    assert_eq!(
                        response.field(name),
                        Some(value.as_str()),
                        "{name} of {path} with a table of {size}"
                    );
                }
            }
            let coding = expected.field("content-encoding");
            assert!(decode(coding, &response.body) == decode(coding, &expected.body), "{path}");
        }

        // The server announces a smaller table before it relies on it (RFC 7541, section 4.2).
        connection.send_settings(&[(HEADER_TABLE_SIZE, 0)]);
        connection.decoder().set_max_allowed_table_size(4096);
        assert_eq!(connection.request(&get("/a.txt")).unwrap().body, b"content");
        assert_eq!(connection.request(&get("/a.txt")).unwrap().body, b"content");
    }
}

#[test]
fn field_section_may_span_many_frames() {
    let server = site();
    let mut connection = plain(&server);

    let block = field_block(&get("/a.txt"));
    let (first, rest) = block.split_at(block.len() / 5);
    let pieces: Vec<_> = rest.chunks(block.len() / 5 + 1).collect();
    connection.send_frame(HEADERS, END_STREAM, 1, first);
    for (number, piece) in pieces.iter().enumerate() {
        let is_last = number + 1 == pieces.len();
        connection.send_frame(CONTINUATION, if is_last { END_HEADERS } else { 0 }, 1, piece);
    }

    assert_eq!(connection.receive(1, "GET").unwrap().body, b"content");
    // Padding and the deprecated priority fields are ignored (RFC 9113, section 6.2).
    let padded = [&[3], &[0, 0, 0, 0, 15][..], &block, &[0; 3]].concat();
    connection.send_frame(HEADERS, END_STREAM | END_HEADERS | 0x8 | 0x20, 3, &padded);
    assert_eq!(connection.receive(3, "GET").unwrap().body, b"content");

    // Cookies may be split, and frames of unknown types may arrive at any time (sections 8.2.3 and 5.5).
    connection.send_frame(0xbe, 0xef, 0, b"unknown");
    let block = field_block(&[&get("/a.txt")[..], &[("cookie", "a=b"), ("cookie", "c=d")]].concat());
    connection.send_frame(HEADERS, END_STREAM | END_HEADERS, 5, &block);
    assert_eq!(connection.receive(5, "GET").unwrap().body, b"content");
}

#[test]
fn malformed_request_ends_only_its_stream() {
    let server = site();
    let mut connection = plain(&server);
    let valid = get("/a.txt");
    let with = |more: &[(&'static str, &'static str)]| [&valid[..], more].concat();
    for (case, fields) in [
        ("no method", valid[1..].to_vec()),
        ("no path", valid[..3].to_vec()),
        ("no scheme", vec![valid[0], valid[2], valid[3]]),
        ("a path twice", with(&[(":path", "/a.txt")])),
        ("an empty path", [&valid[..3], &[(":path", "")]].concat()),
        ("an unknown pseudo-header field", with(&[(":protocol", "websocket")])),
        ("a status", with(&[(":status", "200")])),
        ("a path after other fields", [&valid[..3], &[("a", "b"), valid[3]]].concat()),
        ("a name in upper case", with(&[("Accept", "x")])),
        ("a connection-specific field", with(&[("connection", "close")])),
        ("a transfer coding", with(&[("transfer-encoding", "chunked")])),
        ("te that is not trailers", with(&[("te", "gzip")])),
        ("two hosts", with(&[("host", "other")])),
        ("a line break in a value", with(&[("accept", "a\r\nb: c")])),
        ("a space before a value", with(&[("accept", " x")])),
        ("a colon in a name", with(&[("a:b", "x")])),
    ] {
        match connection.request(&fields) {
            Err(Ended::Reset(PROTOCOL_ERROR)) => {}
            Ok(response) if response.status == 400 => {}
            other => panic!("{case}: {other:?}"),
        }
        assert_eq!(connection.request(&valid).unwrap().body, b"content", "after {case}");
    }

    assert_eq!(connection.request(&with(&[("te", "trailers")])).unwrap().status, 200);
}

#[test]
fn request_content_is_ignored() {
    let server = site();
    let mut connection = plain(&server);
    for (id, method, expected) in [(1, "GET", 200), (3, "POST", 405), (5, "PUT", 405)] {
        let fields = [&[(":method", method)], &get("/a.txt")[1..], &[("content-length", "20000")]].concat();
        connection.send_frame(HEADERS, END_HEADERS, id, &field_block(&fields));
        connection.send_frame(DATA, 0, id, &[b'x'; 10_000]);
        connection.send_frame(DATA, END_STREAM, id, &[b'x'; 10_000]);
        assert_eq!(connection.receive(id, "GET").unwrap().status, expected, "{method}");
    }
}

/// Reads this number of bytes of content. Returns the order of the streams, each once per uninterrupted run.
fn stream_order(connection: &mut Client<TcpStream>, bytes: usize) -> Vec<u32> {
    let mut order = Vec::new();
    let mut received = 0;
    while received < bytes {
        let frame = connection.receive_frame().unwrap();
        match frame.kind {
            HEADERS => drop(connection.decode_head(frame)),
            DATA => {
                received += frame.payload.len();
                if order.last() != Some(&frame.stream) {
                    order.push(frame.stream);
                }
            }
            SETTINGS | PING | WINDOW_UPDATE => {}
            _ => panic!("{frame:?}"),
        }
    }
    order
}

#[test]
fn priorities_order_responses() {
    let server = site();
    let mut connection = Client::with_settings(server.connect(), &OPEN_WINDOWS);
    let send = |connection: &mut Client<TcpStream>, path, priority| {
        connection.send_request(&[&get(path)[..], &[("priority", priority)]].concat()).unwrap()
    };
    // A large file exhausts the window of the connection.
    let large = send(&mut connection, "/large.bin", "u=6");
    assert_eq!(stream_order(&mut connection, 65_535), [large]);
    // Priorities come from the request (RFC 9218, section 5) and from later frames (section 7.1).
    let picture = send(&mut connection, "/page.html", "u=5, i");
    let other_picture = send(&mut connection, "/style.css", "u=5, i");
    let style = send(&mut connection, "/style.css", "u=1");
    let reordered = send(&mut connection, "/style.css", "u=7");
    let update = [&reordered.to_be_bytes()[..], b"u=0"].concat();
    connection.send_frame(PRIORITY_UPDATE, 0, 0, &update);
    connection.send_window_update(0, 160_000 + 110_000 + 100_000);
    // Incremental responses alternate: two frames each, then the rest of the longer one.
    let expected = [reordered, style, picture, other_picture, picture, other_picture, large];
    assert_eq!(stream_order(&mut connection, 160_000 + 110_000 + 100_000), expected);
}

#[test]
fn graceful_shutdown_completes_responses() {
    let server = site();
    let mut connection = Client::with_settings(server.connect(), &OPEN_WINDOWS);
    let id = connection.send_request(&get("/large.bin")).unwrap();

    // The window of the connection stays exhausted until the server has received the signal.
    let mut received = 0;
    let mut is_going_away = false;
    while received < 65_535 {
        let frame = connection.receive_frame().unwrap();
        match frame.kind {
            HEADERS => drop(connection.decode_head(frame)),
            DATA => received += frame.payload.len(),
            _ => {}
        }
    }

    server.signal("TERM");
    while received < LARGE {
        let frame = connection.receive_frame().unwrap();
        match frame.kind {
            DATA => received += frame.payload.len(),
            GOAWAY => {
                assert_eq!(frame.number(4), NO_ERROR);
                assert!(frame.number(0) >= id, "the stream is processed");
                if !is_going_away {
                    connection.send_window_update(0, 10_000_000);
                }
                is_going_away = true;
            }
            _ => {}
        }
    }

    assert!(is_going_away, "the server sent no GOAWAY");
}

#[test]
fn alpn_selects_http2_if_offered() {
    let server = site();
    let select = |offered: &[&str]| {
        let tls = connect_tls(server.tls_address(), offered);
        tls.conn.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned())
    };
    assert_eq!(select(&["http/1.1", "h2"]).as_deref(), Some("h2"));
    assert_eq!(select(&["h2", "http/1.1"]).as_deref(), Some("h2"));
    assert_eq!(select(&["spdy/3", "http/1.1"]).as_deref(), Some("http/1.1"));
    assert_eq!(select(&[]), None);

    let without = Server::start(&[&["--dummy", "--http2-disable"], &TLS_FLAGS[..]].concat());
    let tls = connect_tls(&without.read_tls_address(), &["h2", "http/1.1", "x"]);
    assert_eq!(tls.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    let answer = without.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    assert!(answer.starts_with(b"HTTP/1.1 505 "), "{}", String::from_utf8_lossy(&answer));
}

/// Sends one step of an attack; the number is the stream identifier of the step.
type Abuse = fn(&mut Client<TcpStream>, u32);

/// Attacks, each with the error code of the GOAWAY that must end its connection.
const ABUSES: [(&str, Abuse, u32); 14] = [
    (
        "rapid reset",
        |connection, id| {
            connection.send_frame(HEADERS, END_STREAM | END_HEADERS, id, &field_block(&get("/large.bin")));
            connection.send_frame(RST_STREAM, 0, id, &CANCEL.to_be_bytes());
        },
        ENHANCE_YOUR_CALM,
    ),
    (
        "endless CONTINUATION",
        |connection, id| match id {
            1 => connection.send_frame(HEADERS, END_STREAM, 1, &field_block(&get("/"))),
            _ => connection.send_frame(CONTINUATION, 0, 1, &field_block(&[("x", "y")])),
        },
        ENHANCE_YOUR_CALM,
    ),
    (
        "SETTINGS flood",
        |connection, _| connection.send_settings(&[(INITIAL_WINDOW_SIZE, 70_000)]),
        ENHANCE_YOUR_CALM,
    ),
    ("PING flood", |connection, _| connection.send_frame(PING, 0, 0, b"and more"), ENHANCE_YOUR_CALM),
    (
        "empty DATA frames",
        |connection, id| match id {
            1 => connection.send_frame(HEADERS, END_HEADERS, 1, &field_block(&get("/"))),
            _ => connection.send_frame(DATA, 0, 1, b""),
        },
        ENHANCE_YOUR_CALM,
    ),
    (
        "errors that make the server reset streams",
        |connection, id| {
            connection.send_frame(HEADERS, END_STREAM | END_HEADERS, id, &field_block(&get("/large.bin")));
            connection.send_window_update(id, 0);
        },
        ENHANCE_YOUR_CALM,
    ),
    (
        "more concurrent streams than allowed",
        |connection, id| {
            connection.send_frame(HEADERS, END_STREAM | END_HEADERS, id, &field_block(&get("/large.bin")));
        },
        ENHANCE_YOUR_CALM,
    ),
    (
        "HPACK bomb",
        |connection, id| {
            // Inserts 4,000 bytes into the table, then references them by one byte each.
            let stored = [b"\x40\x01a\x7f\x80\x1e".as_slice(), &[b'x'; 3967]].concat();
            let block = [&field_block(&get("/")), &stored, &[0xbe; 100][..]].concat();
            connection.send_frame(HEADERS, END_STREAM | END_HEADERS, id, &block);
        },
        ENHANCE_YOUR_CALM,
    ),
    (
        "tiny WINDOW_UPDATE frames",
        |connection, id| match id {
            1 => connection.send_frame(HEADERS, END_STREAM | END_HEADERS, 1, &field_block(&get("/a.txt"))),
            _ => connection.send_window_update(1, 1),
        },
        ENHANCE_YOUR_CALM,
    ),
    ("PRIORITY flood", |connection, id| connection.send_frame(PRIORITY, 0, id, &[0; 5]), ENHANCE_YOUR_CALM),
    (
        "PRIORITY_UPDATE flood",
        |connection, id| {
            connection.send_frame(PRIORITY_UPDATE, 0, 0, &[&id.to_be_bytes()[..], b"u=1"].concat());
        },
        ENHANCE_YOUR_CALM,
    ),
    (
        "frames of unknown types",
        |connection, _| connection.send_frame(0xbe, 0, 0, b"data"),
        ENHANCE_YOUR_CALM,
    ),
    ("window overflow", |connection, _| connection.send_window_update(0, 0x7fff_ffff), FLOW_CONTROL_ERROR),
    (
        "streams with even numbers",
        |connection, id| {
            connection.send_frame(HEADERS, END_STREAM | END_HEADERS, id + 1, &field_block(&get("/")));
        },
        PROTOCOL_ERROR,
    ),
];

#[test]
fn abuse_ends_only_its_connection() {
    let server = site();
    let mut other = plain(&server);
    assert_eq!(other.request(&get("/a.txt")).unwrap().body, b"content");
    for (name, abuse, code) in ABUSES {
        let mut connection = Client::new(server.connect());
        // The server may close the connection at any time; later frames are lost.
        for number in 0..20_000 {
            abuse(&mut connection, 2 * number + 1);
        }
        // GOAWAY arrives however much the client has sent.
        assert_eq!(goaway_code(&mut connection), Some(code), "{name}");
        assert!(connection.request(&get("/a.txt")).is_err(), "{name}: the connection is still open");
        assert_eq!(other.request(&get("/a.txt")).unwrap().body, b"content", "{name}");
    }
}
