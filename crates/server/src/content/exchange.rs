//! Exchange of a request for a response, encoded for the protocol of the request.
//!
//! The code that selects the response does not depend on the protocol.

use cannery_site::{Answer, Method};
use cannery_wire::{ArchiveRef, Output, RequestHead, ServerFields, Version, h1, h2, h3};

use super::dummy::Dummy;
use crate::pages::Page;

/// A request that is answered once.
pub(crate) trait Exchange<'a> {
    /// Returns the request head.
    fn head(&self) -> &'a RequestHead<'a>;

    /// Encodes the response of a site. `archive` is the file that its ranges refer to.
    fn answer(
        &mut self,
        answer: &Answer<'_>,
        archive: ArchiveRef<'_>,
        fields: &ServerFields,
        output: &mut Output,
    );

    /// Encodes a built-in page.
    fn answer_page(&mut self, page: &Page<'_>, fields: &ServerFields, output: &mut Output);

    /// Encodes the response of `--dummy`.
    fn answer_dummy(&mut self, dummy: &Dummy, output: &mut Output);
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
    fn answer(
        &mut self,
        answer: &Answer<'_>,
        archive: ArchiveRef<'_>,
        fields: &ServerFields,
        output: &mut Output,
    ) {
        output.set_archive(archive.number);
        self.http.respond(self.head, answer, archive.bytes, fields, output);
    }

    fn answer_page(&mut self, page: &Page<'_>, fields: &ServerFields, output: &mut Output) {
        let keeps = self.http.keeps_open(self.head);
        let option = h1::connection_option(keeps, self.head);
        let mut bytes = page.head(option, fields.lines(0));
        if self.head.common.request.method != Method::Head {
            bytes.extend_from_slice(&page.body);
        }
        self.http.respond_with_bytes(self.head, &bytes, output);
    }

    #[inline]
    fn answer_dummy(&mut self, dummy: &Dummy, output: &mut Output) {
        let bytes = match (self.http.keeps_open(self.head), self.head.common.version) {
            (true, Version::Http10) => &dummy.keep_alive,
            (true, _) => &dummy.plain,
            (false, _) => &dummy.close,
        };
        // A response to HEAD has no content (RFC 9110 §9.3.2), here too.
        let is_head = self.head.common.request.method == Method::Head;
        let sent = if is_head { bytes.len() - dummy.body.len() } else { bytes.len() };
        self.http.respond_with_bytes(self.head, &bytes[..sent], output);
    }
}

/// A request on an HTTP/2 stream.
pub(crate) struct OnH2<'a, 'c> {
    pub(crate) http: &'c mut h2::Connection,
    pub(crate) stream: h2::StreamId,
    pub(crate) head: &'a RequestHead<'a>,
}

impl<'a> Exchange<'a> for OnH2<'a, '_> {
    #[inline]
    fn head(&self) -> &'a RequestHead<'a> {
        self.head
    }

    #[inline]
    fn answer(
        &mut self,
        answer: &Answer<'_>,
        archive: ArchiveRef<'_>,
        fields: &ServerFields,
        output: &mut Output,
    ) {
        self.http.respond(self.stream, answer, archive, fields, output);
    }

    fn answer_page(&mut self, page: &Page<'_>, fields: &ServerFields, output: &mut Output) {
        with_page_fields(page, fields, |all| {
            self.http.respond_with_fields(self.stream, all, &page.body, output);
        });
    }

    fn answer_dummy(&mut self, dummy: &Dummy, output: &mut Output) {
        self.http.respond_with_fields(self.stream, &dummy_fields(dummy), dummy.body, output);
    }
}

/// A request on an HTTP/3 stream.
pub(crate) struct OnH3<'a, 'c> {
    pub(crate) http: &'c mut h3::Connection,
    pub(crate) stream: u64,
    pub(crate) head: &'a RequestHead<'a>,
}

impl<'a> Exchange<'a> for OnH3<'a, '_> {
    #[inline]
    fn head(&self) -> &'a RequestHead<'a> {
        self.head
    }

    #[inline]
    fn answer(
        &mut self,
        answer: &Answer<'_>,
        archive: ArchiveRef<'_>,
        fields: &ServerFields,
        output: &mut Output,
    ) {
        self.http.respond(self.stream, answer, archive, fields, output);
    }

    fn answer_page(&mut self, page: &Page<'_>, fields: &ServerFields, output: &mut Output) {
        with_page_fields(page, fields, |all| {
            self.http.respond_with_fields(self.stream, all, &page.body, output);
        });
    }

    fn answer_dummy(&mut self, dummy: &Dummy, output: &mut Output) {
        self.http.respond_with_fields(self.stream, &dummy_fields(dummy), dummy.body, output);
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

/// Returns the fields of the response of `--dummy`.
fn dummy_fields(dummy: &Dummy) -> [(&'static str, &[u8]); 2] {
    [(":status", b"200".as_slice()), ("content-length", dummy.length.as_bytes())]
}

/// Splits HTTP/1 field lines into lowercase names and values.
fn parse_lines(lines: &str) -> Vec<(String, &str)> {
    let fields = lines.split("\r\n").filter_map(|line| line.split_once(": "));
    fields.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}
