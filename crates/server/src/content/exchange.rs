//! Exchange of a request for a response, encoded for the protocol of the request.
//!
//! The code that selects the response does not depend on the protocol.

use cannery_site::Method;
use cannery_wire::{Multiplexed, Output, RequestHead, Response, ServerFields, Version, h1};

use super::dummy::Dummy;
use crate::pages::Page;

/// A request that is answered once.
pub(crate) trait Exchange<'a> {
    /// Returns the request head.
    fn head(&self) -> &'a RequestHead<'a>;

    /// Encodes a response.
    fn respond(&mut self, response: &Response<'_>, output: &mut Output);

    /// Encodes a built-in page.
    fn respond_with_page(&mut self, page: &Page<'_>, fields: &ServerFields, output: &mut Output);

    /// Encodes the response of `--dummy`. Of the server's fields, it has only `Alt-Svc`.
    fn respond_with_dummy(&mut self, dummy: &Dummy, fields: &ServerFields, output: &mut Output);
}

/// An HTTP/1 request.
pub(crate) struct OnH1<'a, 'c> {
    pub(crate) http: &'c mut h1::Connection,
    pub(crate) head: &'a h1::Head<'a>,
}

impl<'a> Exchange<'a> for OnH1<'a, '_> {
    #[inline]
    fn head(&self) -> &'a RequestHead<'a> {
        &self.head.common
    }

    #[inline]
    fn respond(&mut self, response: &Response<'_>, output: &mut Output) {
        self.http.respond(self.head, response, output);
    }

    fn respond_with_page(&mut self, page: &Page<'_>, fields: &ServerFields, output: &mut Output) {
        let keeps = self.http.keeps_open(self.head);
        let option = h1::connection_option(keeps, self.head);
        let mut bytes = page.head(option, fields.lines(0));
        if self.head.common.request.method != Method::Head {
            bytes.extend_from_slice(&page.body);
        }
        self.http.respond_with_bytes(self.head, &bytes, output);
    }

    #[inline]
    fn respond_with_dummy(&mut self, dummy: &Dummy, fields: &ServerFields, output: &mut Output) {
        let keeps_open = self.http.keeps_open(self.head);
        if let Some(alternative) = fields.alternative() {
            let option = h1::connection_option(keeps_open, self.head);
            let bytes = h1::dummy_response(dummy.body, option, Some(alternative));
            return self.respond_with_dummy_bytes(dummy, &bytes, output);
        }
        let bytes = match (keeps_open, self.head.common.version) {
            (true, Version::Http10) => &dummy.keep_alive,
            (true, _) => &dummy.plain,
            (false, _) => &dummy.close,
        };
        self.respond_with_dummy_bytes(dummy, bytes, output);
    }
}

impl OnH1<'_, '_> {
    /// Sends the bytes of a response, without the content if the method is HEAD (RFC 9110 §9.3.2).
    #[inline]
    fn respond_with_dummy_bytes(&mut self, dummy: &Dummy, bytes: &[u8], output: &mut Output) {
        let is_head = self.head.common.request.method == Method::Head;
        let sent = if is_head { bytes.len() - dummy.body.len() } else { bytes.len() };
        self.http.respond_with_bytes(self.head, &bytes[..sent], output);
    }
}

/// A request on a stream of HTTP/2 or HTTP/3.
pub(crate) struct OnStream<'a, 'c, C: Multiplexed> {
    pub(crate) http: &'c mut C,
    pub(crate) stream: C::StreamId,
    pub(crate) head: &'a RequestHead<'a>,
}

impl<'a, C: Multiplexed> Exchange<'a> for OnStream<'a, '_, C> {
    #[inline]
    fn head(&self) -> &'a RequestHead<'a> {
        self.head
    }

    #[inline]
    fn respond(&mut self, response: &Response<'_>, output: &mut Output) {
        self.http.respond(self.stream, response, output);
    }

    fn respond_with_page(&mut self, page: &Page<'_>, fields: &ServerFields, output: &mut Output) {
        with_page_fields(page, fields, |all| {
            self.http.respond_with_fields(self.stream, all, &page.body, output);
        });
    }

    fn respond_with_dummy(&mut self, dummy: &Dummy, fields: &ServerFields, output: &mut Output) {
        let all = [
            (":status", b"200".as_slice()),
            ("content-length", dummy.length.as_bytes()),
            ("alt-svc", fields.alternative().unwrap_or_default().as_bytes()),
        ];
        let count = if fields.alternative().is_some() { 3 } else { 2 };
        self.http.respond_with_fields(self.stream, &all[..count], dummy.body, output);
    }
}

/// Passes all fields of the response with a built-in page to `respond`.
fn with_page_fields(page: &Page<'_>, fields: &ServerFields, respond: impl FnOnce(&[(&str, &[u8])])) {
    let status = page.status.to_string();
    let length = page.body.len().to_string();
    let server_fields = String::from_utf8_lossy(fields.lines(0)).into_owned();
    let server_fields = parse_lines(&server_fields);
    let mut all: Vec<(&str, &[u8])> = vec![
        (":status", status.as_bytes()),
        ("content-type", page.media_type.as_bytes()),
        ("content-length", length.as_bytes()),
        ("cache-control", b"no-store"),
    ];
    let page_fields: Vec<_> =
        page.fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    all.extend(page_fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    all.extend(server_fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    respond(&all);
}

/// Splits HTTP/1 field lines into lowercase names and values.
fn parse_lines(lines: &str) -> Vec<(String, &str)> {
    let fields = lines.split("\r\n").filter_map(|line| line.split_once(": "));
    fields.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}
