//! The five transports of one server: HTTP/1.1 and HTTP/2, each over TCP and over TLS, and HTTP/3.
//!
//! A response must not depend on the transport. A test that requests something from a server with all transports sends the
//! request over each of them, and fails if the responses differ. We reuse connections. A request that HTTP/2 and HTTP/3
//! cannot express is compared over HTTP/1.1 only.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use cannery_testkit::tls::{self, ClientOptions, TlsStream};
use cannery_testkit::{Ended, Response, http1, http2, http3};

use crate::harness::TIMEOUT;

/// A connection that is reused by the next request.
type Reused<C> = Mutex<Option<C>>;

/// The addresses of a server, and the reused connections to it.
pub(crate) struct Transports {
    plain: String,
    tls: String,
    quic: SocketAddr,
    http1_over_tls: Reused<http1::Client<TlsStream>>,
    http2: Reused<http2::Client<TcpStream>>,
    http2_over_tls: Reused<http2::Client<TlsStream>>,
    http3: Reused<http3::Client>,
}

/// A request of a test.
pub(crate) struct Request<'a> {
    pub(crate) host: &'a str,
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    /// Further header lines, each with CRLF.
    pub(crate) lines: &'a str,
}

impl Transports {
    /// Connects to a server that listens at these addresses: without TLS, with TLS, and for HTTP/3.
    pub(crate) fn new(plain: &str, tls: &str, quic: SocketAddr) -> Transports {
        Transports {
            plain: plain.to_owned(),
            tls: tls.to_owned(),
            quic,
            http1_over_tls: Mutex::default(),
            http2: Mutex::default(),
            http2_over_tls: Mutex::default(),
            http3: Mutex::default(),
        }
    }

    /// Closes all connections. The server tells clients that it goes away, and waits some seconds for those that don't answer, as
    /// idle connections of a test don't.
    pub(crate) fn close(self) {
        if let Some(client) = self.http3.into_inner().unwrap_or_else(PoisonError::into_inner) {
            client.close();
        }
    }

    /// Returns the address of the TLS listener.
    pub(crate) fn tls_address(&self) -> &str {
        &self.tls
    }

    /// Panics unless the other transports give the response that HTTP/1.1 over TCP gave, and those over TLS name the HTTP/3
    /// listener in addition.
    pub(crate) fn assert_equal(&self, request: &Request<'_>, expected: &Response) {
        let Request { host, method, target, lines } = *request;
        let compare = |response: &Response, transport: &str| {
            let context = format!("{method} {target}, host {host}, {lines:?}, {transport} against HTTP/1.1");
            assert_eq!(comparable(response), comparable(expected), "{context}");
            assert!(response.body == expected.body, "other content: {context}");
            let alternative = format!("h3=\":{}\"; ma=86400", self.quic.port());
            let is_named = response.field("Alt-Svc").is_some_and(|value| value == alternative);
            assert_eq!(is_named, transport.ends_with("over TLS"), "{:?}: {context}", response.fields);
        };

        let Some(https_target) = with_scheme(target, "https") else { return };
        let head = format!("{method} {https_target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n");
        let open = || http1::Client::new(connect_tls(&self.tls, &["http/1.1"]));
        let send = |client: &mut http1::Client<_>| client.request(head.as_bytes(), method);
        compare(&request_reused(&self.http1_over_tls, open, send), "HTTP/1.1 over TLS");

        let Some(fields) = http2_fields(request, "http") else { return };
        let open = || http2::Client::new(connect(&self.plain));
        compare(&request_reused(&self.http2, open, |client| client.request(&fields)), "HTTP/2");

        let Some(fields) = http2_fields(request, "https") else { return };
        let open = || http2::Client::new(connect_tls(&self.tls, &["h2"]));
        compare(
            &request_reused(&self.http2_over_tls, open, |client| client.request(&fields)),
            "HTTP/2 over TLS",
        );

        let open = || http3::Client::connect(self.quic).unwrap_or_else(|ended| panic!("no HTTP/3: {ended}"));
        compare(&request_reused(&self.http3, open, |client| client.request(&fields)), "HTTP/3");
    }
}

/// Sends a request over the reused connection, or over a new one if there is none or the server has closed it.
fn request_reused<C>(
    reused: &Reused<C>,
    connect: impl Fn() -> C,
    send: impl Fn(&mut C) -> Result<Response, Ended>,
) -> Response {
    // A test that panicked during a request has reported it.
    let mut reused = reused.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mut client) = reused.take()
        && let Ok(response) = send(&mut client)
    {
        *reused = Some(client);
        return response;
    }

    let mut client = connect();
    let response = send(&mut client).unwrap_or_else(|ended| panic!("no response: {ended}"));
    *reused = Some(client);
    response
}

/// Opens a TCP connection with timeouts.
pub(crate) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Opens a TLS connection to `localhost` at this address and offers these protocols by ALPN. Panics if a single protocol
/// is offered and not selected.
pub(crate) fn connect_tls(address: &str, protocols: &[&str]) -> TlsStream {
    let tls = connect_tls_with(address, "localhost", ClientOptions::default().protocols(protocols));
    if let [protocol] = protocols {
        assert_eq!(tls.conn.alpn_protocol(), Some(protocol.as_bytes()));
    }
    tls
}

/// Opens a TLS connection to a server of this name.
pub(crate) fn connect_tls_with(address: &str, name: &str, options: ClientOptions) -> TlsStream {
    tls::connect(connect(address), name, Arc::new(options.build()))
        .unwrap_or_else(|error| panic!("the handshake failed: {error}"))
}

/// Returns the parts that must be equal over every transport in addition to the content: the status and the fields, without
/// those of the connection and `Alt-Svc`. The current time may differ by a second.
fn comparable(response: &Response) -> (u16, Vec<(String, String)>) {
    let date = response.field("Date");
    let normalize =
        |value: &String| if Some(value.as_str()) == date { "now".to_owned() } else { value.clone() };
    let mut fields: Vec<_> = response
        .fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), normalize(value)))
        .filter(|(name, _)| !["alt-svc", "connection", "keep-alive"].contains(&name.as_str()))
        .collect();
    fields.sort();
    (response.status, fields)
}

/// Returns an absolute target with this scheme, and any other target unchanged. Returns `None` for an `https` target, which
/// a server refuses over plain TCP.
fn with_scheme(target: &str, scheme: &str) -> Option<String> {
    match target.split_once("://") {
        Some((own, rest)) if own.eq_ignore_ascii_case("http") => Some(format!("{scheme}://{rest}")),
        Some((own, _)) if own.eq_ignore_ascii_case("https") => None,
        _ => Some(target.to_owned()),
    }
}

/// Connection-specific fields, which HTTP/2 and HTTP/3 don't have (RFC 9113, section 8.2.2), and fields of framing and host.
const HTTP1_FIELDS: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Returns the fields of the request in HTTP/2 (RFC 9113, section 8.3.1), or `None` if HTTP/2 cannot express it.
fn http2_fields(request: &Request<'_>, scheme: &str) -> Option<Vec<(String, String)>> {
    let Request { host, method, target, lines } = *request;
    let (authority, path) = match with_scheme(target, scheme)?.split_once("://") {
        Some((_, rest)) => {
            let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
            (authority.to_owned(), path)
        }
        None if target.starts_with('/') || (method, target) == ("OPTIONS", "*") => {
            (host.to_owned(), target.to_owned())
        }
        None => return None,
    };

    // HTTP/2 answers an invalid host in another way.
    let is_host = !authority.is_empty() && !authority.contains('@');
    if method == "CONNECT" || !is_host {
        return None;
    }

    let mut fields: Vec<_> =
        [(":method", method), (":scheme", scheme), (":authority", &authority), (":path", &path)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();

    for line in lines.split_terminator("\r\n") {
        let (name, value) = line.split_once(':')?;
        let name = name.to_ascii_lowercase();
        if HTTP1_FIELDS.contains(&name.as_str()) {
            return None;
        }
        fields.push((name, value.trim_matches([' ', '\t']).to_owned()));
    }

    Some(fields)
}

#[test]
fn http1_requests_convert_to_http2_fields() {
    let convert = |target: &str, lines: &str| {
        let request = Request { host: "localhost", method: "GET", target, lines };
        let fields = http2_fields(&request, "https")?;
        Some(fields.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    };

    let start = ":method=GET :scheme=https :authority=localhost :path=";
    assert_eq!(convert("/a?b", ""), Some(format!("{start}/a?b")));
    assert_eq!(
        convert("/", "If-Match: \"x\"\r\nX-Y:\t z \r\n"),
        Some(format!("{start}/ if-match=\"x\" x-y=z"))
    );

    let absolute = |authority: &str, path: &str| {
        Some(format!(":method=GET :scheme=https :authority={authority} :path={path}"))
    };
    assert_eq!(convert("HTTP://Other:80/a", ""), absolute("Other:80", "/a"));
    assert_eq!(convert("http://other", ""), absolute("other", "/"));
    assert_eq!(convert("http://other?q", ""), absolute("other", "/?q"));

    for (target, lines) in
        [("*", ""), ("https://a/", ""), ("a", ""), ("/", "TE: trailers\r\n"), ("/", "x\r\n")]
    {
        assert_eq!(convert(target, lines), None, "{target} {lines:?}");
    }
}
