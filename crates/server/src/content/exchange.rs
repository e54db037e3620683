//! Encodes responses for the protocol of their request.
//!
//! Note that the code which selects a response does not depend on the protocol.

use cannery_site::Method;
use cannery_wire::{Multiplexed, Output, OwnHead, RequestHead, Response, ServerFields, Version, h1};

use super::dummy::Dummy;
use crate::pages::{GeneratedResponse, Page, fields};

/// A request that needs to be answered once.
pub(crate) trait Exchange<'a> {
    /// Returns the request head.
    fn head(&self) -> &'a RequestHead<'a>;

    /// Encodes a response.
    fn respond(&mut self, response: &Response<'_>, output: &mut Output);

    /// Encodes a built-in page.
    fn respond_with_page(&mut self, page: &Page<'_>, fields: &ServerFields, output: &mut Output);

    /// Encodes a response composed for this request.
    fn respond_with_generated(&mut self, response: &GeneratedResponse, output: &mut Output);

    /// Encodes the response of `--dummy`. `Alt-Svc` is the only one of the server's fields that it contains.
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

    #[cold]
    fn respond_with_generated(&mut self, response: &GeneratedResponse, output: &mut Output) {
        let keeps = self.http.keeps_open(self.head);
        let mut bytes = response.head(h1::connection_option(keeps, self.head));
        if self.head.common.request.method != Method::Head {
            bytes.extend_from_slice(&response.body);
        }
        self.http.respond_with_bytes(self.head, &bytes, output);
    }

    #[inline]
    fn respond_with_dummy(&mut self, dummy: &Dummy, fields: &ServerFields, output: &mut Output) {
        let responses = dummy.responses(fields.alternative());
        let bytes = match (self.http.keeps_open(self.head), self.head.common.version) {
            (true, Version::Http10) => &responses.keep_alive,
            (true, _) => &responses.plain,
            (false, _) => &responses.close,
        };
        // The response to HEAD MUST NOT have any content (RFC 9110 §9.3.2).
        let is_head = self.head.common.request.method == Method::Head;
        let sent = if is_head { bytes.len() - dummy.body.len() } else { bytes.len() };
        self.http.respond_with_bytes(self.head, &bytes[..sent], output);
    }
}

/// A request on an HTTP/2 or HTTP/3 stream.
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
        let status = page.status.to_string();
        let length = page.body.len().to_string();
        let own = page.fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_bytes()));
        let own: Vec<(String, &[u8])> = own.collect();
        let mut all = vec![
            (":status", status.as_bytes()),
            ("content-type", page.media_type.as_bytes()),
            ("content-length", length.as_bytes()),
            ("cache-control", b"no-store"),
        ];
        all.extend(own.iter().map(|(name, value)| (name.as_str(), *value)));
        let head = OwnHead { fields: &all, server_fields: Some((fields, 0)) };
        self.http.respond_with_head(self.stream, &head, &page.body, output);
    }

    #[cold]
    fn respond_with_generated(&mut self, response: &GeneratedResponse, output: &mut Output) {
        let status = response.status.to_string();
        let length = response.body.len().to_string();
        let lines: Vec<(String, &[u8])> = fields(&response.lines)
            .map(|(name, value)| (String::from_utf8_lossy(name).to_ascii_lowercase(), value))
            .collect();
        let mut all = vec![(":status", status.as_bytes())];
        all.extend(lines.iter().map(|(name, value)| (name.as_str(), *value)));
        all.push(("content-length", length.as_bytes()));
        self.http.respond_with_head(self.stream, &OwnHead::new(&all), &response.body, output);
    }

    fn respond_with_dummy(&mut self, dummy: &Dummy, fields: &ServerFields, output: &mut Output) {
        let all = [
            (":status", b"200".as_slice()),
            ("content-length", dummy.length.as_bytes()),
            ("alt-svc", fields.alternative().unwrap_or_default().as_bytes()),
        ];
        let count = if fields.alternative().is_some() { 3 } else { 2 };
        self.http.respond_with_head(self.stream, &OwnHead::new(&all[..count]), dummy.body, output);
    }
}
