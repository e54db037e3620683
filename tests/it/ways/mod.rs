//! The four ways to ask one server one thing: HTTP/1.1 or HTTP/2, in the clear or over TLS.
//!
//! What an answer says must not depend on the way, so whoever asks a server that listens in all ways asks it in all of
//! them, and it fails here if they differ. Connections are kept from one request to the next. Of a request that
//! HTTP/2 has no words for, only the ways of HTTP/1.1 are compared.

pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod tls;

use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};

use http1::Http1;
use http2::{Ended, Http2};
use tls::Tls;

use crate::site::{PATIENCE, Response};

/// A connection that stays from one request to the next.
type Kept<C> = Mutex<Option<C>>;

/// Where a server listens, and the connections to it that are kept.
pub(crate) struct Ways {
    plain: String,
    secured: String,
    http1_over_tls: Kept<Http1<Tls>>,
    http2: Kept<Http2<TcpStream>>,
    http2_over_tls: Kept<Http2<Tls>>,
}

impl Ways {
    /// To a server that listens at these two addresses, in the clear and over TLS.
    pub(crate) fn to(plain: &str, secured: &str) -> Ways {
        Ways {
            plain: plain.to_owned(),
            secured: secured.to_owned(),
            http1_over_tls: Mutex::default(),
            http2: Mutex::default(),
            http2_over_tls: Mutex::default(),
        }
    }

    /// Where the server listens over TLS.
    pub(crate) fn secured_address(&self) -> &str {
        &self.secured
    }

    /// Fails unless the other three ways give the answer that HTTP/1.1 gave in the clear.
    pub(crate) fn must_agree(&self, host: &str, method: &str, target: &str, lines: &str, answer: &Response) {
        let compare = |given: &Response, way: &str| {
            let told =
                format!("{method} {target} of {host} {lines:?} by {way}, beside HTTP/1.1 in the clear");
            assert_eq!(essence(given), essence(answer), "{told}");
            assert!(given.body == answer.body, "other content: {told}");
        };

        let Some(secured_target) = with_scheme(target, "https") else { return };
        let request = format!("{method} {secured_target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n");
        let begin = || Http1::over(tls::connect(&self.secured, &["http/1.1"]));
        let ask = |connection: &mut Http1<Tls>| connection.ask(request.as_bytes(), method == "HEAD");
        compare(&ask_kept(&self.http1_over_tls, begin, ask), "HTTP/1.1 over TLS");

        let Some(fields) = http2_fields(host, method, target, lines, "http") else { return };
        let begin = || Http2::begin(connect(&self.plain));
        compare(&ask_kept(&self.http2, begin, |connection| connection.ask(&fields)), "HTTP/2");

        let Some(fields) = http2_fields(host, method, target, lines, "https") else { return };
        let begin = || Http2::begin(tls::connect(&self.secured, &["h2"]));
        compare(
            &ask_kept(&self.http2_over_tls, begin, |connection| connection.ask(&fields)),
            "HTTP/2 over TLS",
        );
    }
}

/// Asks on the connection that is kept, or on a new one if there is none or the server has ended it meanwhile.
fn ask_kept<C>(
    place: &Kept<C>,
    begin: impl Fn() -> C,
    ask: impl Fn(&mut C) -> Result<Response, Ended>,
) -> Response {
    // A test that failed while it asked has told so itself.
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mut connection) = place.take()
        && let Ok(answer) = ask(&mut connection)
    {
        *place = Some(connection);
        return answer;
    }
    let mut connection = begin();
    let answer = ask(&mut connection).unwrap_or_else(|ended| panic!("no answer: {ended}"));
    *place = Some(connection);
    answer
}

pub(crate) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// What must be the same on every way beside the content: status, and fields but for those of the connection. What is
/// said of the time in this second and in the next is alike.
fn essence(answer: &Response) -> (u16, Vec<(String, String)>) {
    let now = answer.field("Date");
    let alike = |value: &String| if Some(value.as_str()) == now { "now".to_owned() } else { value.clone() };
    let mut fields: Vec<_> = answer
        .fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), alike(value)))
        .filter(|(name, _)| !["connection", "keep-alive"].contains(&name.as_str()))
        .collect();
    fields.sort();
    (answer.status, fields)
}

/// An absolute target with this scheme, or any other as it is; nothing if the scheme is one to be refused.
fn with_scheme(target: &str, scheme: &str) -> Option<String> {
    match target.split_once("://") {
        Some((own, rest)) if own.eq_ignore_ascii_case("http") => Some(format!("{scheme}://{rest}")),
        Some((own, _)) if own.eq_ignore_ascii_case("https") => None,
        _ => Some(target.to_owned()),
    }
}

/// Fields that speak of the connection or of framing, which HTTP/2 has no place for (RFC 9113 §8.2.2), or that name the
/// host a second time.
const OF_HTTP1_ALONE: [&str; 9] = [
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

/// The request as HTTP/2 puts it (RFC 9113 §8.3.1), or nothing if it cannot.
fn http2_fields(
    host: &str,
    method: &str,
    target: &str,
    lines: &str,
    scheme: &str,
) -> Option<Vec<(String, String)>> {
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
    // What is no host has no answer to be compared with.
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
        if OF_HTTP1_ALONE.contains(&name.as_str()) {
            return None;
        }
        fields.push((name, value.trim_matches([' ', '\t']).to_owned()));
    }
    Some(fields)
}

#[test]
fn a_request_is_put_as_http2_does() {
    let put = |target: &str, lines: &str| {
        let fields = http2_fields("localhost", "GET", target, lines, "https")?;
        Some(fields.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    };
    let start = ":method=GET :scheme=https :authority=localhost :path=";
    assert_eq!(put("/a?b", ""), Some(format!("{start}/a?b")));
    assert_eq!(put("/", "If-Match: \"x\"\r\nX-Y:\t z \r\n"), Some(format!("{start}/ if-match=\"x\" x-y=z")));
    let absolute = |authority: &str, path: &str| {
        Some(format!(":method=GET :scheme=https :authority={authority} :path={path}"))
    };
    assert_eq!(put("HTTP://Other:80/a", ""), absolute("Other:80", "/a"));
    assert_eq!(put("http://other", ""), absolute("other", "/"));
    assert_eq!(put("http://other?q", ""), absolute("other", "/?q"));
    for (target, lines) in
        [("*", ""), ("https://a/", ""), ("a", ""), ("/", "TE: trailers\r\n"), ("/", "x\r\n")]
    {
        assert_eq!(put(target, lines), None, "{target} {lines:?}");
    }
}
