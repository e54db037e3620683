//! What HTTP/2 adds: many requests on one connection, windows, tables of fields, an end in good order, and peers who abuse
//! any of them (RFC 9113). That the answers are those of HTTP/1.1 is held by all other tests (`ways`).

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::gallery::{noise, text};
use crate::site::{OVER_TLS, Response, Server, decode, serve};
use crate::ways::http2::{
    self, CONTINUATION, DATA, END_HEADERS, END_STREAM, Ended, Frame, GOAWAY, HEADERS, Http2, PING, PRIORITY,
    PRIORITY_UPDATE, RST_STREAM, SETTINGS, WINDOW_UPDATE, field_block, number_at,
};
use crate::ways::tls;

/// Error codes (RFC 9113 §7).
const NO_ERROR: u32 = 0;
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const ENHANCE_YOUR_CALM: u32 = 11;

const LARGE: usize = 3_000_000;

/// A site of small files, of a large one, and of a page in each coding.
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

fn plain(server: &Server) -> Http2<TcpStream> {
    Http2::begin(server.connect())
}

fn get(path: &str) -> [(&str, &str); 4] {
    [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", path)]
}

/// The error code of the GOAWAY that the server ends the connection with, with whatever comes before it.
fn code_of_end<S: Read + Write>(connection: &mut Http2<S>) -> Option<u32> {
    loop {
        match connection.receive() {
            Ok(Frame { kind: GOAWAY, payload, .. }) => return Some(number_at(&payload, 4)),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

#[test]
fn requests_at_once_are_all_answered_on_one_connection() {
    let server = site();
    let mut connection = Http2::begin(tls::connect(server.secured_address(), &["h2"]));
    let paths = ["/a.txt", "/", "/page.html", "/style.css", "/nothing", "/large.bin"];
    let expected: Vec<Response> = paths.iter().map(|path| server.get(path)).collect();
    for _ in 0..10 {
        let asked: Vec<_> = (0..60).map(|number| paths[number % paths.len()]).collect();
        let ids: Vec<_> = asked.iter().map(|path| connection.request(&get(path)).unwrap()).collect();
        let answers = connection.answers(&ids, false).unwrap();
        for (number, answer) in answers.iter().enumerate() {
            let expected = &expected[number % paths.len()];
            assert_eq!(answer.status, expected.status, "{}", asked[number]);
            assert!(answer.body == expected.body, "{}", asked[number]);
        }
        let received: usize = answers.iter().map(|answer| answer.body.len()).sum();
        connection.send_window(0, u32::try_from(received).unwrap());
    }
}

#[test]
fn targets_and_hosts_follow_the_same_grammar_as_http1() {
    let server = site();
    let mut connection = plain(&server);
    let mut status = |authority: &str, path: &str| {
        let fields = [(":method", "GET"), (":scheme", "http"), (":authority", authority), (":path", path)];
        let id = connection.request(&fields).unwrap();
        connection.answer(id, false).unwrap().status
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
fn no_more_is_sent_than_the_windows_allow() {
    let server = site();
    let content = noise(LARGE);
    let mut connection = Http2::begin_with(server.connect(), &[(4, 1000)]);
    let id = connection.request(&get("/large.bin")).unwrap();
    // The window of the stream: by settings first, which may change it, and then by updates.
    let mut received = Vec::new();
    let receive_to = |connection: &mut Http2<TcpStream>, length: usize, received: &mut Vec<u8>| {
        while received.len() < length {
            let frame = connection.receive().unwrap();
            match frame.kind {
                DATA => received.extend_from_slice(&frame.payload),
                HEADERS => drop(connection.head(frame)),
                SETTINGS | PING | WINDOW_UPDATE => {}
                _ => panic!("{frame:?}"),
            }
        }
        // An answer to a PING comes behind everything that was allowed before it.
        connection.send(PING, 0, 0, b"in order");
        loop {
            let frame = connection.receive().unwrap();
            match frame.kind {
                PING => break,
                SETTINGS => {}
                _ => panic!("more than the window allows: {} octets", frame.payload.len()),
            }
        }
        assert_eq!(received.len(), length);
    };
    receive_to(&mut connection, 1000, &mut received);
    connection.send_settings(&[(4, 4000)]);
    receive_to(&mut connection, 4000, &mut received);
    connection.send_window(id, 1);
    receive_to(&mut connection, 4001, &mut received);
    // A window may become negative, and is then to be made good first (§6.9.2).
    connection.send_settings(&[(4, 0)]);
    connection.send_window(id, 4000);
    receive_to(&mut connection, 4001, &mut received);
    connection.send_window(id, 10_000_000);
    // The window of the connection is what is in the way now.
    receive_to(&mut connection, 65_535, &mut received);
    connection.send_window(0, 100_000);
    receive_to(&mut connection, 165_535, &mut received);
    assert!(received == content[..165_535]);
    // While one stream waits for room, others that have it are answered; the head needs none.
    connection.send_settings(&[(4, 65_535)]);
    let other = connection
        .request(&[(":method", "HEAD"), get("/a.txt")[1], get("/")[2], (":path", "/a.txt")])
        .unwrap();
    assert_eq!(connection.answer(other, true).unwrap().status, 200);
}

#[test]
fn a_large_file_arrives_whole_at_a_slow_reader() {
    let server = site();
    let content = noise(LARGE);
    let mut connection = Http2::begin_with(tls::connect(server.secured_address(), &["h2"]), &[(4, 20_000)]);
    let id = connection.request(&get("/large.bin")).unwrap();
    let mut received = Vec::new();
    while received.len() < LARGE {
        let frame = connection.receive().unwrap();
        match frame.kind {
            HEADERS => drop(connection.head(frame)),
            DATA => {
                let length = u32::try_from(frame.payload.len()).unwrap();
                received.extend_from_slice(&frame.payload);
                if length > 0 && received.len() < LARGE {
                    connection.send_window(id, length);
                    connection.send_window(0, length);
                }
            }
            _ => {}
        }
    }
    assert!(received == content);
}

#[test]
fn a_table_of_any_size_gives_the_same_fields() {
    let server = site();
    let paths = ["/a.txt", "/page.html", "/", "/nothing", "/a.txt", "/style.css"];
    for size in [0, 40, 100, 300, 4096, 1 << 20] {
        let mut connection = Http2::begin_with(server.connect(), &[(1, size), (4, 1 << 20)]);
        connection.decoder().set_max_allowed_table_size((size as usize).max(4096));
        for path in paths.iter().cycle().take(24) {
            let fields = [&get(path)[..], &[("accept-encoding", "br")]].concat();
            let answer = connection.ask(&fields).unwrap();
            let expected = server.get_coded(path, "br");
            for (name, value) in &expected.fields {
                if !["Date", "Connection"].contains(&name.as_str()) {
                    assert_eq!(
                        answer.field(name),
                        Some(value.as_str()),
                        "{name} of {path} with a table of {size}"
                    );
                }
            }
            let coding = expected.field("content-encoding");
            assert!(decode(coding, &answer.body) == decode(coding, &expected.body), "{path}");
        }
        // Less than before is told to the decoder before it is relied on (RFC 7541 §4.2).
        connection.send_settings(&[(1, 0)]);
        connection.decoder().set_max_allowed_table_size(4096);
        assert_eq!(connection.ask(&get("/a.txt")).unwrap().body, b"content");
        assert_eq!(connection.ask(&get("/a.txt")).unwrap().body, b"content");
    }
}

#[test]
fn a_request_is_one_however_many_frames_it_takes() {
    let server = site();
    let mut connection = plain(&server);
    let block = field_block(&get("/a.txt"));
    let (first, rest) = block.split_at(block.len() / 5);
    let pieces: Vec<_> = rest.chunks(block.len() / 5 + 1).collect();
    connection.send(HEADERS, END_STREAM, 1, first);
    for (number, piece) in pieces.iter().enumerate() {
        let is_last = number + 1 == pieces.len();
        connection.send(CONTINUATION, if is_last { END_HEADERS } else { 0 }, 1, piece);
    }
    assert_eq!(connection.answer(1, false).unwrap().body, b"content");
    // Padding and a priority of old, which mean nothing (§6.2).
    let padded = [&[3], &[0, 0, 0, 0, 15][..], &block, &[0; 3]].concat();
    connection.send(HEADERS, END_STREAM | END_HEADERS | 0x8 | 0x20, 3, &padded);
    assert_eq!(connection.answer(3, false).unwrap().body, b"content");
    // Cookies may come in pieces, and frames of unknown types at any time (§8.2.3, §5.5).
    connection.send(0xbe, 0xef, 0, b"unknown");
    let block = field_block(&[&get("/a.txt")[..], &[("cookie", "a=b"), ("cookie", "c=d")]].concat());
    connection.send(HEADERS, END_STREAM | END_HEADERS, 5, &block);
    assert_eq!(connection.answer(5, false).unwrap().body, b"content");
}

#[test]
fn a_malformed_request_ends_its_stream_and_not_the_connection() {
    let server = site();
    let mut connection = plain(&server);
    let whole = get("/a.txt");
    let with = |more: &[(&'static str, &'static str)]| [&whole[..], more].concat();
    for (what, fields) in [
        ("no method", whole[1..].to_vec()),
        ("no path", whole[..3].to_vec()),
        ("no scheme", vec![whole[0], whole[2], whole[3]]),
        ("a path twice", with(&[(":path", "/a.txt")])),
        ("an empty path", [&whole[..3], &[(":path", "")]].concat()),
        ("an unknown field of the request line", with(&[(":protocol", "websocket")])),
        ("a status", with(&[(":status", "200")])),
        ("a path behind other fields", [&whole[..3], &[("a", "b"), whole[3]]].concat()),
        ("a name in capitals", with(&[("Accept", "x")])),
        ("a field of the connection", with(&[("connection", "close")])),
        ("a transfer coding", with(&[("transfer-encoding", "chunked")])),
        ("te that is not trailers", with(&[("te", "gzip")])),
        ("two hosts", with(&[("host", "other")])),
        ("a line break in a value", with(&[("accept", "a\r\nb: c")])),
        ("a space before a value", with(&[("accept", " x")])),
        ("a colon in a name", with(&[("a:b", "x")])),
    ] {
        match connection.ask(&fields) {
            Err(Ended::Reset(PROTOCOL_ERROR)) => {}
            Ok(answer) if answer.status == 400 => {}
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!(connection.ask(&whole).unwrap().body, b"content", "behind {what}");
    }
    assert_eq!(connection.ask(&with(&[("te", "trailers")])).unwrap().status, 200);
}

#[test]
fn content_of_a_request_changes_no_answer() {
    let server = site();
    let mut connection = plain(&server);
    for (id, method, expected) in [(1, "GET", 200), (3, "POST", 405), (5, "PUT", 405)] {
        let fields = [&[(":method", method)], &get("/a.txt")[1..], &[("content-length", "20000")]].concat();
        connection.send(HEADERS, END_HEADERS, id, &field_block(&fields));
        connection.send(DATA, 0, id, &[b'x'; 10_000]);
        connection.send(DATA, END_STREAM, id, &[b'x'; 10_000]);
        assert_eq!(connection.answer(id, false).unwrap().status, expected, "{method}");
    }
}

/// The streams whose content comes, each time that it is another's than before, until so many octets have come.
fn turns_of(connection: &mut Http2<TcpStream>, octets: usize) -> Vec<u32> {
    let (mut turns, mut received) = (Vec::new(), 0);
    while received < octets {
        let frame = connection.receive().unwrap();
        match frame.kind {
            HEADERS => drop(connection.head(frame)),
            DATA => {
                received += frame.payload.len();
                if turns.last() != Some(&frame.stream) {
                    turns.push(frame.stream);
                }
            }
            SETTINGS | PING | WINDOW_UPDATE => {}
            _ => panic!("{frame:?}"),
        }
    }
    turns
}

#[test]
fn what_is_wanted_first_comes_first() {
    let server = site();
    let mut connection = Http2::begin_with(server.connect(), &http2::OPEN_WINDOWS);
    let ask = |connection: &mut Http2<TcpStream>, path, priority| {
        connection.request(&[&get(path)[..], &[("priority", priority)]].concat()).unwrap()
    };
    // A large file takes the whole window of the connection, and waits.
    let large = ask(&mut connection, "/large.bin", "u=6");
    assert_eq!(turns_of(&mut connection, 65_535), [large]);
    // By the field of the request (RFC 9218 §5), and by a frame that comes behind it (§7.1).
    let picture = ask(&mut connection, "/page.html", "u=5, i");
    let other_picture = ask(&mut connection, "/style.css", "u=5, i");
    let style = ask(&mut connection, "/style.css", "u=1");
    let reordered = ask(&mut connection, "/style.css", "u=7");
    let update = [&reordered.to_be_bytes()[..], b"u=0"].concat();
    connection.send(PRIORITY_UPDATE, 0, 0, &update);
    connection.send_window(0, 160_000 + 110_000 + 100_000);
    // Those of which a part can be used take turns: two frames each, and what is left of the longer.
    let expected = [reordered, style, picture, other_picture, picture, other_picture, large];
    assert_eq!(turns_of(&mut connection, 160_000 + 110_000 + 100_000), expected);
}

#[test]
fn a_server_that_stops_gives_the_answers_that_it_has_begun() {
    let server = site();
    let mut connection = Http2::begin_with(server.connect(), &http2::OPEN_WINDOWS);
    let id = connection.request(&get("/large.bin")).unwrap();
    // The window of the connection is not opened before the server has been told to stop.
    let mut received = 0;
    let mut is_away = false;
    while received < 65_535 {
        let frame = connection.receive().unwrap();
        match frame.kind {
            HEADERS => drop(connection.head(frame)),
            DATA => received += frame.payload.len(),
            _ => {}
        }
    }
    server.signal("TERM");
    while received < LARGE {
        let frame = connection.receive().unwrap();
        match frame.kind {
            DATA => received += frame.payload.len(),
            GOAWAY => {
                assert_eq!(number_at(&frame.payload, 4), NO_ERROR);
                assert!(number_at(&frame.payload, 0) >= id, "the stream is answered");
                if !is_away {
                    connection.send_window(0, 10_000_000);
                }
                is_away = true;
            }
            _ => {}
        }
    }
    assert!(is_away, "the client was told to go elsewhere");
}

#[test]
fn who_may_choose_speaks_http2_and_who_cannot_speaks_http1() {
    let server = site();
    let chosen = |offered: &[&str]| {
        let tls = tls::connect(server.secured_address(), offered);
        tls.conn.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned())
    };
    assert_eq!(chosen(&["http/1.1", "h2"]).as_deref(), Some("h2"));
    assert_eq!(chosen(&["h2", "http/1.1"]).as_deref(), Some("h2"));
    assert_eq!(chosen(&["spdy/3", "http/1.1"]).as_deref(), Some("http/1.1"));
    assert_eq!(chosen(&[]), None);

    let without = Server::start(&[&["--dummy", "--http2-disable"], &OVER_TLS[..]].concat());
    let tls = tls::connect(&without.secured(), &["h2", "http/1.1", "x"]);
    assert_eq!(tls.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    let answer = without.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    assert!(answer.starts_with(b"HTTP/1.1 505 "), "{}", String::from_utf8_lossy(&answer));
}

/// What is done to a server of HTTP/2 over and over, until it has had enough.
type Abuse = fn(&mut Http2<TcpStream>, u32);

/// Each abuse, and the error that it is told for an end.
const ABUSES: [(&str, Abuse, u32); 14] = [
    (
        "requests that are taken back",
        |connection, id| {
            connection.send(HEADERS, END_STREAM | END_HEADERS, id, &field_block(&get("/large.bin")));
            connection.send(RST_STREAM, 0, id, &8_u32.to_be_bytes());
        },
        ENHANCE_YOUR_CALM,
    ),
    (
        "a field section without end",
        |connection, id| match id {
            1 => connection.send(HEADERS, END_STREAM, 1, &field_block(&get("/"))),
            _ => connection.send(CONTINUATION, 0, 1, &field_block(&[("x", "y")])),
        },
        ENHANCE_YOUR_CALM,
    ),
    ("settings", |connection, _| connection.send_settings(&[(4, 70_000)]), ENHANCE_YOUR_CALM),
    ("pings", |connection, _| connection.send(PING, 0, 0, b"and more"), ENHANCE_YOUR_CALM),
    (
        "frames of nothing",
        |connection, id| match id {
            1 => connection.send(HEADERS, END_HEADERS, 1, &field_block(&get("/"))),
            _ => connection.send(DATA, 0, 1, b""),
        },
        ENHANCE_YOUR_CALM,
    ),
    (
        "faults that make the server take requests back",
        |connection, id| {
            connection.send(HEADERS, END_STREAM | END_HEADERS, id, &field_block(&get("/large.bin")));
            connection.send_window(id, 0);
        },
        ENHANCE_YOUR_CALM,
    ),
    (
        "more requests at once than there may be",
        |connection, id| {
            connection.send(HEADERS, END_STREAM | END_HEADERS, id, &field_block(&get("/large.bin")));
        },
        ENHANCE_YOUR_CALM,
    ),
    (
        "fields that stand for more than they are",
        |connection, id| {
            // Four thousand octets are put into the table, and then named by one each.
            let stored = [b"\x40\x01a\x7f\x80\x1e".as_slice(), &[b'x'; 3967]].concat();
            let block = [&field_block(&get("/")), &stored, &[0xbe; 100][..]].concat();
            connection.send(HEADERS, END_STREAM | END_HEADERS, id, &block);
        },
        ENHANCE_YOUR_CALM,
    ),
    (
        "windows in tiny steps",
        |connection, id| match id {
            1 => connection.send(HEADERS, END_STREAM | END_HEADERS, 1, &field_block(&get("/a.txt"))),
            _ => connection.send_window(1, 1),
        },
        ENHANCE_YOUR_CALM,
    ),
    ("priorities of old", |connection, id| connection.send(PRIORITY, 0, id, &[0; 5]), ENHANCE_YOUR_CALM),
    (
        "priorities",
        |connection, id| {
            connection.send(PRIORITY_UPDATE, 0, 0, &[&id.to_be_bytes()[..], b"u=1"].concat());
        },
        ENHANCE_YOUR_CALM,
    ),
    ("frames that nobody knows", |connection, _| connection.send(0xbe, 0, 0, b"what"), ENHANCE_YOUR_CALM),
    ("a window larger than any", |connection, _| connection.send_window(0, 0x7fff_ffff), FLOW_CONTROL_ERROR),
    (
        "streams of the server's",
        |connection, id| {
            connection.send(HEADERS, END_STREAM | END_HEADERS, id + 1, &field_block(&get("/")));
        },
        PROTOCOL_ERROR,
    ),
];

#[test]
fn abuse_ends_its_connection_and_no_other() {
    let server = site();
    let mut other = plain(&server);
    assert_eq!(other.ask(&get("/a.txt")).unwrap().body, b"content");
    for (name, abuse, code) in ABUSES {
        let mut connection = Http2::begin(server.connect());
        // The server may end at any time; what is sent behind that is lost.
        for number in 0..20_000 {
            abuse(&mut connection, 2 * number + 1);
        }
        // However much it has sent behind that, it is told why.
        assert_eq!(code_of_end(&mut connection), Some(code), "{name}");
        assert!(connection.ask(&get("/a.txt")).is_err(), "{name} goes on");
        assert_eq!(other.ask(&get("/a.txt")).unwrap().body, b"content", "{name}");
    }
}
