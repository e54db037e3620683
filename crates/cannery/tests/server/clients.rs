//! HTTP clients, one for each version, with which the tests send their requests.

use super::*;

/// The tests compare these parts of a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) status: u16,
    pub(super) media_type: String,
    pub(super) body: Vec<u8>,
}

pub(super) fn seen(status: u16, fields: &[(String, String)], body: Vec<u8>) -> Seen {
    let field = |wanted: &str| fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
    assert!(field("date").is_some(), "{fields:?}");
    assert!(field("x-content-type-options").is_some(), "{fields:?}");
    let media_type = field("content-type").map(|(_, value)| value.clone()).unwrap_or_default();
    Seen { status, media_type, body }
}

pub(super) type Lines<'a> = &'a [(&'a str, &'a str)];

/// Sends bytes on a connection of their own and reads to its end.
pub(super) fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    received
}

/// Sends one HTTP/1.1 request with chunked content over a new connection and reads until the end.
pub(super) fn over_http1(
    address: SocketAddr,
    method: &str,
    target: &str,
    lines: Lines<'_>,
    content: &[u8],
) -> Seen {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut text =
        format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n").into_bytes();
    for (name, value) in lines {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    if content.is_empty() {
        text.extend_from_slice(b"\r\n");
    } else {
        text.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in content.chunks(7000) {
            write!(text, "{:x}\r\n", chunk.len()).unwrap();
            text.extend_from_slice(chunk);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"0\r\n\r\n");
    }
    // The server may refuse the rest.
    let _ = stream.write_all(&text);
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();

    let end = received.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = str::from_utf8(&received[..end]).unwrap();
    let mut head_lines = head.split("\r\n");
    let status = head_lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let fields: Vec<_> = head_lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .collect();
    let rest = &received[end + 4..];
    let is_chunked = method != "HEAD" && fields.iter().any(|(name, _)| name == "Transfer-Encoding");
    let body = if is_chunked { unchunk(rest) } else { rest.to_vec() };
    seen(status, &fields, body)
}

/// Decodes a chunked body.
pub(super) fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n").expect("a chunk has a size");
        let size = usize::from_str_radix(str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        body.extend_from_slice(&rest[line + 2..][..size]);
        rest = &rest[line + 2 + size + 2..];
        if size == 0 {
            assert!(rest.is_empty(), "bytes after the last chunk");
            return body;
        }
    }
}

pub(super) fn pseudo<'a>(method: &'a str, target: &'a str, lines: Lines<'a>) -> Vec<(&'a str, &'a str)> {
    let mut fields =
        vec![(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", target)];
    fields.extend(lines);
    fields
}

pub(super) fn over_http2(
    address: SocketAddr,
    method: &str,
    target: &str,
    lines: Lines<'_>,
    content: &[u8],
) -> Seen {
    let mut client = http2::Client::new(TcpStream::connect(address).unwrap());
    let fields = pseudo(method, target, lines);
    let (stream, early) = if content.is_empty() {
        (client.send_request(&fields).unwrap(), Vec::new())
    } else {
        client.send_request_with_content(&fields, content).unwrap()
    };

    let mut early = early.into_iter();
    let mut response = None;

    loop {
        let frame = early.next().unwrap_or_else(|| client.receive_frame().unwrap());
        if frame.stream != stream {
            continue;
        }

        let is_last = frame.has(END_STREAM);
        match frame.kind {
            HEADERS => response = Some(client.decode_head(frame)),
            DATA => response.as_mut().unwrap().body.extend_from_slice(&frame.payload),
            _ => continue,
        }
        if is_last {
            let response = response.unwrap();
            return seen(response.status, &response.fields, response.body);
        }
    }
}

pub(super) fn over_http3(
    address: SocketAddr,
    method: &str,
    target: &str,
    lines: Lines<'_>,
    content: &[u8],
) -> Seen {
    let mut client = http3::Client::connect(address).unwrap();
    let mut fields = pseudo(method, target, lines);
    fields[1].1 = "https";
    let stream = client.send_request_with_content(&fields, content).unwrap();
    let bytes = client.receive_bytes(stream).unwrap();
    client.close();
    let mut rest = bytes.as_slice();
    let mut head = Vec::new();
    let mut body = Vec::new();
    while let Some((kind, payload)) = take_frame(&mut rest) {
        match kind {
            http3::HEADERS => head = decode(payload),
            http3::DATA => body.extend_from_slice(payload),
            _ => {}
        }
    }
    let status = head[0].1.parse().unwrap();
    seen(status, &head[1..], body)
}

/// Sends a request over each HTTP version. The response should be the same for all of them, and is
/// returned.
pub(super) fn request(at: Addresses, method: &str, target: &str, lines: Lines<'_>, content: &[u8]) -> Seen {
    let first = over_http1(at.plain, method, target, lines, content);
    assert_eq!(over_http2(at.plain, method, target, lines, content), first, "HTTP/2 {target}");
    assert_eq!(over_http3(at.quic, method, target, lines, content), first, "HTTP/3 {target}");
    first
}

/// Status and fields of a response.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    fields: Vec<(String, String)>,
}

impl Head {
    pub(super) fn values(&self, name: &str) -> Vec<&str> {
        let fields = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        fields.map(|(_, value)| value.as_str()).collect()
    }
}

pub(super) fn head_over_http1(address: SocketAddr, target: &str) -> Head {
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let received = exchange(address, request.as_bytes());
    let mut lines = received.split_once("\r\n\r\n").unwrap().0.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let fields = lines.map(|line| line.split_once(": ").unwrap());
    Head { status, fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
}

pub(super) fn head_over_http2(address: SocketAddr, target: &str) -> Head {
    let mut client = http2::Client::new(TcpStream::connect(address).unwrap());
    let response = client.request(&pseudo("GET", target, &[])).unwrap();
    Head { status: response.status, fields: response.fields }
}

pub(super) fn head_over_http3(address: SocketAddr, target: &str) -> Head {
    let options = http3::Options { timeout: Duration::from_secs(60), ..http3::Options::default() };
    let mut client = http3::Client::connect_with(address, &options).unwrap();
    let mut fields = pseudo("GET", target, &[]);
    fields[1].1 = "https";
    let response = client.request(&fields).unwrap();
    client.close();
    Head { status: response.status, fields: response.fields }
}

/// Sends a GET request over each HTTP version, at the same time.
pub(super) fn heads(at: Addresses, target: &str) -> [Head; 3] {
    thread::scope(|scope| {
        let http2 = scope.spawn(|| head_over_http2(at.plain, target));
        let http3 = scope.spawn(|| head_over_http3(at.quic, target));
        [head_over_http1(at.plain, target), http2.join().unwrap(), http3.join().unwrap()]
    })
}

pub(super) fn get(at: Addresses, target: &str) -> (u16, String) {
    let Seen { status, body, .. } = request(at, "GET", target, &[], b"");
    (status, String::from_utf8(body).unwrap())
}
