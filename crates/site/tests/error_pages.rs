//! Tests which error page is sent and which fields it has, as well as when the built-in page is sent instead.

#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use cannery_archive::{
    Coding, Digest, HeadId, Key, KeyBuffer, NewRecord, NewRepresentation, NewScope, Origin, Writer,
};
use cannery_site::{
    Answer, Body, Conditions, Fields, Method, Reason, Request, Scratch, Single, Site, Values,
};

const STATUSES: [u16; 8] = [400, 404, 405, 406, 412, 416, 431, 501];

/// Builds an archive. Each resource has a description of itself as content.
struct Builder {
    writer: Writer,
    head: HeadId,
    buffer: KeyBuffer,
}

impl Builder {
    fn new() -> Builder {
        let mut writer = support::writer();
        let head = writer.head(&support::plain_head(b"Cache-Control: no-store\r\n"));
        Builder { head: head.unwrap(), writer, buffer: KeyBuffer::new() }
    }

    fn resource(&mut self, content: &str, coding: Coding) -> NewRecord<'static> {
        let digest = Digest::of(content.as_bytes());
        let body = self.writer.body(&digest, content.len() as u64, &mut content.as_bytes()).unwrap();
        let form = NewRepresentation { coding, etag: digest.etag(), body, head: self.head };
        let representations = vec![form];
        NewRecord::Resource { status: 200, origin: Origin::File, modified: None, representations }
    }

    fn path(&mut self, host: Option<&str>, path: &str, coding: Coding) {
        let record = self.resource(&format!("{} {path}", host.unwrap_or("default")), coding);
        let key = Key::from_file(path.as_bytes(), &mut self.buffer).unwrap();
        self.writer.path(host, key, &record).unwrap();
    }

    /// Adds a directory with an error page for each status. Its content is the directory and the status.
    fn scope(&mut self, host: Option<&str>, directory: &str, own_site: bool, statuses: &[u16]) {
        let pages = statuses.iter().map(|status| {
            let content = format!("{}/{directory} {status}", host.unwrap_or_default());
            (*status, self.resource(&content, Coding::Identity))
        });
        let scope = NewScope { own_site, error_pages: pages.collect(), ..NewScope::default() };
        let key = Key::from_file(directory.as_bytes(), &mut self.buffer).unwrap();
        self.writer.scope(host, key, &scope).unwrap();
    }

    fn site(self) -> Site {
        support::finished(self.writer)
    }
}

/// Returns a site whose root has pages for all errors. `/deep/` and some hosts only have pages for some
/// errors.
fn site() -> Site {
    let mut builder = Builder::new();
    builder.path(None, "a", Coding::Identity);
    builder.path(None, "deep/a", Coding::Identity);
    builder.path(None, "coded", Coding::Gzip);
    builder.scope(None, "", false, &STATUSES);
    builder.scope(None, "deep/", false, &[404, 405]);
    builder.path(Some("own.example"), "a", Coding::Identity);
    builder.scope(Some("own.example"), "", true, &[404]);
    builder.scope(Some("rules.example"), "", false, &[405]);
    builder.site()
}

/// Returns the status and the page of an answer, using `None` for the built-in page.
fn page_of(site: &Site, answer: &Answer<'_>) -> (u16, Option<String>) {
    let page = match (answer.body, answer.fields) {
        (Body::Archive(extent), Fields::BuiltIn { page: Some(_), .. }) => {
            let bytes = site.archive().body(extent).unwrap();
            assert_eq!(answer.content_length, Some(bytes.len() as u64));
            Some(String::from_utf8(bytes.to_vec()).unwrap())
        }
        (Body::BuiltIn(page), Fields::BuiltIn { page: None, .. }) => {
            assert_eq!(answer.content_length, Some(page.len() as u64));
            None
        }
        other => panic!("not an error page: {other:?}"),
    };
    (answer.status, page)
}

fn page(site: &Site, request: &Request<'_>) -> (u16, Option<String>) {
    page_of(site, &site.answer(request, &mut Scratch::default()))
}

#[track_caller]
fn assert_page(site: &Site, request: Request<'_>, status: u16, expected: &str) {
    assert_eq!(page(site, &request), (status, Some(expected.to_owned())));
}

#[test]
fn nearest_page_is_sent() {
    let site = site();
    assert_page(&site, Request::new(Method::Get, b"/none"), 404, "/ 404");
    assert_page(&site, Request::new(Method::Get, b"/deep/none"), 404, "/deep/ 404");
    assert_page(&site, Request::new(Method::Get, b"/deep/er/none.js"), 404, "/deep/ 404");
    assert_page(&site, Request::new(Method::Other, b"/a"), 405, "/ 405");
    assert_page(&site, Request::new(Method::Other, b"/deep/a"), 405, "/deep/ 405");
    assert_page(&site, Request::new(Method::Unknown, b"/deep/a"), 501, "/ 501");
}

#[test]
fn conditions_ranges_and_codings_have_pages() {
    let site = site();
    let get = |target: &'static [u8]| Request::new(Method::Get, target);
    let fields = Conditions { any: true, ..Conditions::NONE };
    let conditions = Conditions { if_match: Values::one(b"\"x\""), ..fields };
    assert_page(&site, Request { conditions, ..get(b"/a") }, 412, "/ 412");
    let conditions = Conditions { range: Single::Value(b"bytes=99-"), ..fields };
    assert_page(&site, Request { conditions, ..get(b"/deep/a") }, 416, "/ 416");
    let mut scratch = Scratch::default();
    let request = Request { conditions, ..get(b"/a") };
    let Fields::BuiltIn { complete_length, .. } = site.answer(&request, &mut scratch).fields else {
        panic!("a 416 has built-in fields")
    };
    assert_eq!(complete_length, Some("default a".len() as u64));
    assert_page(&site, Request { accept_encoding: Values::one(b"br"), ..get(b"/coded") }, 406, "/ 406");
}

#[test]
fn invalid_path_has_page_of_root() {
    let site = site();
    assert_page(&site, Request::new(Method::Get, b"/deep/%00"), 400, "/ 400");
    assert_page(&site, Request::new(Method::Get, b"deep"), 400, "/ 400");
    assert_page(&site, Request::new(Method::Other, b"*"), 405, "/ 405");
}

#[test]
fn host_has_own_pages_or_those_of_default_site() {
    let site = site();
    let on = |host: &'static [u8], method, target: &'static [u8]| Request {
        host: Some(host),
        ..Request::new(method, target)
    };
    assert_page(&site, on(b"own.example", Method::Get, b"/deep/none"), 404, "own.example/ 404");
    assert_eq!(page(&site, &on(b"OWN.example:80", Method::Other, b"/a")), (405, None));
    assert_page(&site, on(b"rules.example", Method::Other, b"/deep/a"), 405, "rules.example/ 405");
    assert_page(&site, on(b"rules.example", Method::Get, b"/deep/none"), 404, "/deep/ 404");
}

#[test]
fn malformed_request_has_page_of_default_root() {
    let site = site();
    assert_eq!(page_of(&site, &site.refusal(431)), (431, Some("/ 431".to_owned())));
    assert_eq!(page_of(&site, &site.refusal(505)), (505, None));
    assert_eq!(site.refusal(431).reason, Reason::BadRequest);
}

#[test]
fn page_in_unaccepted_coding_is_not_sent() {
    let mut builder = Builder::new();
    let record = builder.resource("coded", Coding::Gzip);
    let scope = NewScope { error_pages: vec![(404, record.clone()), (400, record)], ..NewScope::default() };
    builder.writer.scope(None, Key::ROOT, &scope).unwrap();
    let site = builder.site();
    let get = Request::new(Method::Get, b"/none");
    assert_page(&site, get, 404, "coded");
    let plain = Request { accept_encoding: Values::one(b"identity"), ..get };
    assert_eq!(page(&site, &plain), (404, None), "the status code stays the same");
    assert_eq!(page_of(&site, &site.refusal(400)), (400, None), "the codings of the client are unknown");
}

#[test]
fn head_has_length_of_page() {
    let site = site();
    let request = Request::new(Method::Head, b"/none");
    let mut scratch = Scratch::default();
    let answer = site.answer(&request, &mut scratch);
    assert!(matches!(answer.body, Body::Empty));
    assert_eq!((answer.status, answer.content_length), (404, Some("/ 404".len() as u64)));
}
