//! Compares `Site::respond` and its variants with `cannery-server`. There are also tests for places where
//! they may differ.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::sync::LazyLock;

use bytes::Bytes;
use cannery::Site;
use cannery_archive::{Archive, Loading};
use cannery_site::{Method, Request, Scratch, Single, Values, VirtualHosts};
use cannery_wire::{ArchiveRef, Output, Response, ServerFields, h1};
use http::header;
use proptest::collection::vec;
use proptest::prelude::*;

fn request(method: &str, target: &str, fields: &[(&str, &str)]) -> http::Request<()> {
    let mut request = http::Request::builder().method(method).uri(target);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// Returns the status and the sorted fields as `cannery-server` sends them, without `Date`.
fn expected(
    archive: &Archive,
    site: &cannery_site::Site,
    case: &http::Request<()>,
) -> (u16, Vec<(String, String)>) {
    let mut wanted = Request::new(
        Method::of(case.method().as_str().as_bytes()),
        case.uri().path_and_query().unwrap().as_str().as_bytes(),
    );
    let single =
        |name| case.headers().get(name).map_or(Single::Absent, |value| Single::Value(value.as_bytes()));
    let list = |name| {
        let mut values = Values::NONE;
        case.headers().get_all(name).iter().for_each(|value| values.push(value.as_bytes()).unwrap());
        values
    };
    wanted.host = case.headers().get(header::HOST).map(|host| host.as_bytes());
    wanted.accept_encoding = list(header::ACCEPT_ENCODING);
    wanted.conditions.if_match = list(header::IF_MATCH);
    wanted.conditions.if_none_match = list(header::IF_NONE_MATCH);
    wanted.conditions.if_modified_since = single(header::IF_MODIFIED_SINCE);
    wanted.conditions.if_unmodified_since = single(header::IF_UNMODIFIED_SINCE);
    wanted.conditions.range = single(header::RANGE);
    wanted.conditions.any = true;

    let mut scratch = Scratch::default();
    let now = 2_000_000_000;
    scratch.set_now(now);
    let answer = site.answer(&wanted, &mut scratch);
    let mut output = Output::new();
    let archive = ArchiveRef { number: 0, bytes: archive.bytes(), identity: 0 };
    let fields = ServerFields::new(&[], now);
    h1::put_head(&mut output, &Response { answer: &answer, archive, fields: &fields });
    let head = String::from_utf8(output.inline_only().unwrap().to_vec()).unwrap();
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let fields = lines.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let mut fields: Vec<_> = fields.filter(|(name, _)| name != "date").collect();
    fields.sort();
    (answer.status, fields)
}

fn fields<B>(response: &http::Response<B>) -> Vec<(String, String)> {
    let fields = response.headers().iter();
    let mut fields: Vec<_> =
        fields.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    fields.sort();
    fields
}

#[test]
fn responses_are_those_of_the_server() {
    let fixture = support::site();
    let archive = || Archive::open(&fixture.archive, Loading::InMemory).unwrap();
    let reference = cannery_site::Site::new(archive(), VirtualHosts::Enabled);
    let embedded: &'static [u8] = std::fs::read(&fixture.archive).unwrap().leak();
    let sites = [Site::open(&fixture.archive).unwrap(), Site::from_static(embedded).unwrap()];
    for (method, target, lines) in support::REQUESTS {
        let case = request(method, target, lines);
        let (status, wanted) = expected(&archive(), &reference, &case);
        // Fields from a site's first response could remain in the second.
        for site in sites.iter().chain(&sites) {
            let response = site.respond(&case);
            assert_eq!((response.status().as_u16(), fields(&response)), (status, wanted.clone()), "{case:?}");

            let length = response.headers().get(header::CONTENT_LENGTH);
            let length = length.map_or(0, |length| length.to_str().unwrap().parse().unwrap());
            let sent = if method == "HEAD" { 0 } else { length };
            assert_eq!(response.body().len(), sent, "{case:?}");
            assert_eq!(Bytes::from(response.into_body()).len() as u64, sent, "{case:?}");
        }
    }
}

#[test]
fn several_ranges_are_one_body() {
    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap();
    let whole = Bytes::from(site.respond(&request("GET", "/page", &[])).into_body());
    let response = site.respond(&request("GET", "/page", &[("range", "bytes=0-9,20-29")]));
    let body = Bytes::from(response.into_body());
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert!(
        text.contains(str::from_utf8(&whole[..10]).unwrap())
            && text.contains(str::from_utf8(&whole[20..30]).unwrap())
    );
}

#[test]
fn invalid_hosts_are_refused() {
    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap();
    let status = |target, fields: &[_]| site.respond(&request("GET", target, fields)).status().as_u16();
    for host in ["a b", "a/b", "user@a", "a:x", "[::1"] {
        assert_eq!(status("/page", &[("host", host)]), 400, "{host}");
        assert_eq!(status("http://a/page", &[("host", host)]), 400, "{host}");
    }
    assert_eq!(status("/page", &[("host", "a"), ("host", "a")]), 400);
    assert_eq!(status("http://user@a/page", &[]), 400);
    for host in ["", "a:80", "[::1]:80", "%61"] {
        assert_eq!(status("/page", &[("host", host)]), 200, "{host}");
    }
    assert_eq!(status("http://a/page", &[("host", "b")]), 200);
    assert_eq!(status("/page", &[]), 200);
}

#[test]
fn missing_pages_are_left_to_others() {
    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap();
    let status = |method, target| {
        site.try_respond(&request(method, target, &[])).map(|response| response.status().as_u16())
    };
    assert_eq!(status("GET", "/page"), Some(200));
    assert_eq!(status("GET", "/docs"), Some(308));
    assert_eq!(status("GET", "/app/any"), Some(200));
    assert_eq!(status("POST", "/page"), Some(405));
    assert_eq!(status("OPTIONS", "/page"), Some(204));
    assert_eq!(status("GET", "/api/forecast"), None);
    assert_eq!(status("POST", "/api/forecast"), None);
    assert_eq!(status("OPTIONS", "/api/forecast"), None);
    assert_eq!(status("GET", "/app/missing.js"), None);
    assert_eq!(status("GET", "/%00"), None);
    for target in ["/page", "/api/forecast"] {
        let response = site.try_respond(&request("GET", target, &[("host", "a b")]));
        assert_eq!(response.map(|response| response.status().as_u16()), Some(400), "{target}");
    }
}

#[test]
fn mounted_site_stays_below_its_path() {
    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap().mount("/help/");
    let location = |target| {
        let response = site.respond(&request("GET", target, &[]));
        let location =
            response.headers().get(header::LOCATION).map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), location)
    };
    assert_eq!(location("/help/page"), (200, None));
    assert_eq!(location("/help?a"), (308, Some("/help/?a".into())));
    assert_eq!(location("/help/docs?a"), (308, Some("/help/docs/?a".into())));
    assert_eq!(location("/help/old/x"), (301, Some("/help/docs/x".into())));
    assert_eq!(location("/help/elsewhere"), (302, Some("https://example.com/".into())));
    assert_eq!(location("/helpful"), (404, None));
    assert_eq!(location("/page"), (404, None));
    assert!(site.try_respond(&request("GET", "/page", &[])).is_none());
    assert!(site.try_respond(&request("GET", "/help/missing", &[])).is_none());
}

#[test]
fn only_retrievals_of_a_mount_are_redirected() {
    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap().mount("/help");
    let status = |method| {
        let request = request(method, "/help?a", &[]);
        let tried = site.try_respond(&request).unwrap();
        let answered = site.respond(&request);
        assert_eq!(tried.status(), answered.status(), "{method}");
        assert_eq!(tried.headers().get(header::ALLOW), answered.headers().get(header::ALLOW), "{method}");
        (answered.status().as_u16(), answered.headers().contains_key(header::ALLOW))
    };
    assert_eq!(status("GET"), (308, false));
    assert_eq!(status("HEAD"), (308, false));
    assert_eq!(status("POST"), (405, true));
    assert_eq!(status("OPTIONS"), (204, true));
}

#[test]
fn replaced_archive_answers_the_next_request() {
    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap();
    let clone = site.clone();
    let old = site.respond(&request("GET", "/", &[]));

    let folder = fixture.directory.path().join("site");
    std::fs::write(folder.join("index.html"), "<title>New</title>").unwrap();
    let next = fixture.directory.path().join("next.cdb");
    cannery_archiver::compile(&cannery_archiver::Options::new(folder, &next), &()).unwrap();
    site.replace(&Site::open(&next).unwrap());

    let new = clone.respond(&request("GET", "/", &[]));
    assert_eq!(Bytes::from(new.into_body()), "<title>New</title>");
    assert_eq!(Bytes::from(old.into_body()), "<title>Home</title>");
}

#[test]
fn files_are_found_by_path() {
    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap();
    let home = site.file("/").unwrap();
    assert_eq!(
        (home.content.as_ref(), home.media_type.as_str()),
        (b"<title>Home</title>".as_slice(), "text/html; charset=utf-8")
    );
    assert!(home.etag.is_some());
    assert_eq!(site.file("/a%20b.txt").unwrap().content, "spaced");
    assert_eq!(site.file("/docs"), None);
    assert_eq!(site.file("/missing"), None);
    assert_eq!(site.file("not a path"), None);
}

/// Checks of paths in front of a site must see the path that the site looks up.
#[test]
fn files_have_one_spelling() {
    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap();
    let (mount, nested) = (site.mount("/in"), site.mount("/in").nested());
    for (target, normal) in [
        ("/%70age", "/page"),
        ("//page?a=%62", "/page?a=%62"),
        ("/x/../page", "/page"),
        ("/x/%2e%2E/page", "/page"),
        ("/./page", "/page"),
        ("/docs//", "/docs/"),
        ("/%64ocs/?", "/docs/?"),
        ("/a%20%62.txt", "/a%20b.txt"),
    ] {
        let below = |path: &str| format!("/in{path}");
        let location = |response: http::Response<cannery::Body>| {
            assert_eq!(response.status(), 308, "{target}");
            assert_eq!(response.headers()[header::CACHE_CONTROL], "no-cache", "{target}");
            response.headers()[header::LOCATION].to_str().unwrap().to_owned()
        };
        assert_eq!(location(site.respond(&request("GET", target, &[]))), normal);
        assert_eq!(location(site.try_respond(&request("HEAD", target, &[])).unwrap()), normal);
        assert_eq!(location(mount.respond(&request("GET", &below(target), &[]))), below(normal));
        assert_eq!(location(nested.respond(&request("GET", target, &[]))), below(normal));
        assert_eq!(site.respond(&request("GET", normal, &[])).status(), 200, "{normal}");
        assert_eq!(mount.respond(&request("GET", &below(normal), &[])).status(), 200, "{normal}");
    }
    assert_eq!(site.respond(&request("GET", "/x/../missing", &[])).status(), 404);
}

/// Proxies that decode and encode paths choose one of these. A redirect to another one would never end.
#[test]
fn spellings_of_escaped_characters_are_accepted() {
    let fixture = support::site();
    let folder = fixture.directory.path().join("site");
    std::fs::create_dir(folder.join("é")).unwrap();
    std::fs::write(folder.join("é/[a] (b).txt"), "found").unwrap();
    let archive = fixture.directory.path().join("other.cdb");
    cannery_archiver::compile(&cannery_archiver::Options::new(&folder, &archive), &()).unwrap();
    let site = Site::open(&archive).unwrap();
    let mount = site.mount("/in");
    for target in ["/%C3%A9/%5Ba%5D%20(b).txt", "/%c3%a9/%5ba%5d%20(b).txt", "/é/[a]%20(b).txt"] {
        assert_eq!(site.respond(&request("GET", target, &[])).status(), 200, "{target}");
        assert_eq!(mount.respond(&request("GET", &format!("/in{target}"), &[])).status(), 200, "{target}");
    }
    for target in ["/é//[a]%20(b).txt", "/é/[%61]%20(b).txt", "/%c3%a9/./[a]%20%28b).txt"] {
        let response = site.respond(&request("GET", target, &[]));
        assert_eq!(response.status(), 308, "{target}");
        assert_eq!(response.headers()[header::LOCATION], "/%C3%A9/%5Ba%5D%20(b).txt", "{target}");
    }
}

#[test]
fn few_allocations_are_made() {
    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap();
    let request = request("GET", "/page", &[("accept-encoding", "br"), ("host", "localhost")]);
    drop(site.respond(&request));
    let mut most = 0;
    for _ in 0..200 {
        let counted = allocation_counter::measure(|| drop(site.respond(&request)));
        most = most.max(counted.count_total);
    }
    // For the map of fields.
    assert!(most <= 2, "{most} allocations");
}

#[test]
fn other_files_are_refused() {
    let error = Site::from_bytes(vec![0; 4096]).unwrap_err().to_string();
    assert_eq!(error, "not an archive of Cannery: its first record is not `cannery`");
    assert!(Site::open("/nowhere/at/all.cdb").is_err());

    let fixture = support::site();
    let mut bytes = std::fs::read(&fixture.archive).unwrap();
    assert!(cannery_archive::has_schema_version(&bytes));
    bytes.pop();
    assert!(Site::from_bytes(bytes.clone()).unwrap_err().to_string().contains("truncated"));
    let prefix = &bytes[..cannery_archive::SCHEMA_PREFIX_BYTES];
    assert!(cannery_archive::has_schema_version(prefix));
    assert!(!cannery_archive::has_schema_version(&bytes[..2048]));
    assert!(!cannery_archive::has_schema_version(&vec![0; 8192]));
}

/// Makes a request from arbitrary parts. Returns `None` if the `http` crate can't.
fn arbitrary_request(method: &str, target: &str, fields: &[(usize, Vec<u8>)]) -> Option<http::Request<()>> {
    const NAMES: [&str; 8] = [
        "accept-encoding",
        "range",
        "if-none-match",
        "if-match",
        "if-modified-since",
        "if-range",
        "host",
        "x",
    ];
    let mut request = http::Request::builder().method(method).uri(target);
    for (name, value) in fields {
        request = request.header(NAMES[name % NAMES.len()], value.as_slice());
    }
    request.body(()).ok()
}

proptest! {
    #[test]
    fn every_request_has_a_response(
        method in "GET|HEAD|OPTIONS|POST|CONNECT|[!-~]{1,8}",
        target in r"/[ -~]{0,40}|/(help|docs|page|app|%|\.|/|\?|0|f){0,12}|\*|[a-z.]{1,9}(:[0-9]{1,6})?|http://[a-z:]{1,9}/?[ -~]{0,9}",
        fields in vec((0_usize..8, vec(any::<u8>(), 0..24)), 0..6),
        values in vec((0_usize..8, r#"(bytes=|[0-9]{1,20}|-|,|"[a-z]*"|W/|\*|br|gzip|;q=0){0,6}"#), 0..3),
    ) {
        static FIXTURE: LazyLock<(support::Fixture, Site)> = LazyLock::new(|| {
            let fixture = support::site();
            let site = Site::open(&fixture.archive).unwrap();
            (fixture, site)
        });
        let site = &FIXTURE.1;

        let values = values.into_iter().map(|(name, value)| (name, value.into_bytes()));
        let fields: Vec<_> = fields.into_iter().chain(values).collect();

        if let Some(request) = arbitrary_request(&method, &target, &fields) {
            let mount = site.mount("/help");
            for response in [site.respond(&request), mount.respond(&request)]
                .into_iter()
                .chain(site.try_respond(&request))
                .chain(mount.try_respond(&request))
            {
                prop_assert!((200..600).contains(&response.status().as_u16()), "{}", response.status());
                let length = response.headers().get(header::CONTENT_LENGTH).map(|value| value.to_str().unwrap().to_owned());
                let body = Bytes::from(response.into_body());
                if let Some(length) = length.filter(|_| !body.is_empty()) {
                    prop_assert_eq!(length, body.len().to_string());
                }
            }
        }
    }
}
