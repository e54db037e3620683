//! Tests that answers never allocate.

mod support;

use cannery_site::{Conditions, Method, Request, Scratch, Single, Values};

#[test]
fn answers_do_not_allocate() {
    let site = support::site();
    let mut scratch = Scratch::default();
    type Case = (&'static [u8], Option<&'static [u8]>, u16);

    let requests: [Case; 9] = [
        (b"/docs/7.html", Some(b"gzip, deflate, br, zstd"), 200),
        (b"/docs/%37.html?query", None, 200),
        (b"/docs/7.html/", None, 308),
        (b"/app/old/a/b%20c?d", None, 301),
        (b"/app/anything", Some(b"br;q=0.5, *;q=0.1"), 200),
        (b"/app/missing.js", None, 404),
        (b"/app/missing.png", Some(b"gzip"), 404),
        (b"/nothing/at/all", None, 404),
        (b"/%zz", None, 400),
    ];

    for (target, accept_encoding, status) in requests {
        let mut request = Request::new(Method::Get, target);
        request.accept_encoding = accept_encoding.map_or(Values::NONE, Values::one);

        let mut got = 0;
        let counted = allocation_counter::measure(|| got = site.answer(&request, &mut scratch).status);
        assert_eq!((got, counted.count_total), (status, 0), "{}", String::from_utf8_lossy(target));
    }
}

#[test]
fn hosts_and_refusals_do_not_allocate() {
    let site = support::site();
    let mut scratch = Scratch::default();
    for (host, target, status) in [
        (b"a.b.example.org".as_slice(), b"/docs/7.html".as_slice(), 200),
        (b"a.b.example.org:80", b"/app/missing.js", 404),
        (b"example.com", b"/docs/7.html", 200),
    ] {
        let request = Request { host: Some(host), ..Request::new(Method::Get, target) };
        let mut got = 0;
        let counted = allocation_counter::measure(|| got = site.answer(&request, &mut scratch).status);
        assert_eq!((got, counted.count_total), (status, 0), "{}", String::from_utf8_lossy(host));
    }
    let mut got = 0;
    let counted = allocation_counter::measure(|| got = site.refusal(431).status);
    assert_eq!((got, counted.count_total), (431, 0));
}

#[test]
fn conditions_and_ranges_do_not_allocate() {
    let site = support::site();
    let mut scratch = Scratch::default();
    let none = Conditions { any: true, ..Conditions::NONE };
    let date = Single::Value(b"Sun, 06 Nov 1994 08:49:37 GMT");
    for (conditions, status) in [
        (Conditions { if_match: Values::one(b"\"x\", W/\"y\""), ..none }, 412),
        (Conditions { if_none_match: Values::one(b"\"x\", *"), ..none }, 200),
        (Conditions { if_none_match: Values::one(b"*"), ..none }, 304),
        (Conditions { if_modified_since: date, if_unmodified_since: date, ..none }, 200),
        (Conditions { range: Single::Value(b"bytes=1-2"), if_range: Single::Absent, ..none }, 206),
        (Conditions { range: Single::Value(b"bytes=0-0,2-2,-1"), ..none }, 200),
        (Conditions { range: Single::Value(b"bytes=99-"), ..none }, 416),
    ] {
        let request = Request { conditions, ..Request::new(Method::Get, b"/docs/7.html") };
        let mut got = 0;
        let counted = allocation_counter::measure(|| got = site.answer(&request, &mut scratch).status);
        assert_eq!((got, counted.count_total), (status, 0), "{conditions:?}");
    }
}
