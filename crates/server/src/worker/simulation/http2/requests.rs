//! Requests of every kind, and the responses that the HTTP/1 model returns for them.

use std::sync::Arc;

use cannery_testkit::http1;

use super::super::model::Responses;
use super::super::site::Releases;
use crate::content::Content;

pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) target: &'static str,
    pub(super) fields: &'static [(&'static str, &'static str)],
    pub(super) has_content: bool,
}

const fn get(target: &'static str, fields: &'static [(&'static str, &'static str)]) -> Request {
    Request { method: "GET", target, fields, has_content: false }
}

pub(super) const REQUESTS: [Request; 13] = [
    get("/small", &[]),
    get("/small", &[("user-agent", "a"), ("referer", "b")]),
    get("/middle", &[("accept-encoding", "gzip, br")]),
    get("/middle", &[]),
    get("/large", &[]),
    get("/large", &[("range", "bytes=1000-75000")]),
    get("/large", &[("range", "bytes=0-0,60000-79000,-3")]),
    get("/nothing", &[]),
    get("/small", &[("if-none-match", "*")]),
    Request { method: "HEAD", target: "/large", fields: &[], has_content: false },
    Request { method: "OPTIONS", target: "*", fields: &[], has_content: false },
    Request { method: "POST", target: "/small", fields: &[], has_content: true },
    Request { method: "GET", target: "/large", fields: &[], has_content: true },
];

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Response {
    /// `:status` and all other fields, sorted.
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// The responses of two releases, in the order of [`REQUESTS`].
pub(super) struct Expected {
    pub(super) first: Vec<Response>,
    pub(super) second: Vec<Response>,
}

impl Expected {
    pub(super) fn of(releases: &Releases) -> Expected {
        let all = |content: &Arc<Content>| REQUESTS.iter().map(|request| request.answer(content)).collect();
        Expected { first: all(&releases.first), second: all(&releases.second) }
    }
}

impl Request {
    fn answer(&self, content: &Content) -> Response {
        let Request { method, target, fields, .. } = self;
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let text = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        let bytes = Responses::to(text.as_bytes(), content).responses.remove(0);
        let (response, rest) = http1::parse(&bytes, method);
        assert!(rest.is_empty(), "bytes after the response");

        let mut fields = vec![(":status".to_owned(), response.status.to_string())];
        // HTTP/2 has no connection-specific fields (RFC 9113 §8.2.2).
        let others = response.fields.into_iter().filter(|(name, _)| name != "Connection");
        fields.extend(others.map(|(name, value)| (name.to_ascii_lowercase(), value)));
        fields.sort();
        Response { fields, body: response.body }
    }
}
