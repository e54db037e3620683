//! Which requests reach a handler, and which the site.

use super::*;

#[test]
fn handlers_answer_beside_the_site() {
    let fixture = Fixture::start();
    assert_eq!(get(fixture.at, "/hello/World?greeting=Good+day"), (200, "Good day World!".to_owned()));
    assert_eq!(get(fixture.at, "/hello/J%C3%BCrgen"), (200, "Hello Jürgen!".to_owned()));
    assert_eq!(get(fixture.at, "/"), (200, "<title>Home</title>".to_owned()));
    assert_eq!(get(fixture.at, "/nothing").0, 404);
    assert_eq!(get(fixture.at, "/hello/").0, 404, "a wildcard is not empty");
    assert_eq!(request(fixture.at, "HEAD", "/hello/x", &[], b"").body, b"");
    assert_eq!(get(fixture.at, "/thread").1, "handler-");
    let (status, headers) = {
        let lines = [("x-custom", "value"), ("cookie", "a=1; b=2")];
        let seen = request(fixture.at, "GET", "/headers", &lines, b"");
        (seen.status, String::from_utf8(seen.body).unwrap())
    };
    assert_eq!((status, headers.as_str()), (200, "Some(\"value\") Some(\"2\") Some(\"localhost\") true"));
}

#[test]
fn other_methods_of_a_route_are_not_allowed() {
    let fixture = Fixture::start();
    assert_eq!(request(fixture.at, "POST", "/hello/x", &[], b"").status, 405);
    assert_eq!(request(fixture.at, "OPTIONS", "/hello/x", &[], b"").status, 204);
    assert_eq!(request(fixture.at, "DELETE", "/page", &[], b"").status, 204);
    assert_eq!(get(fixture.at, "/page").0, 200, "the site has a page where the route has another method");
}

/// A client that misspells a route should learn that it doesn't exist.
#[test]
fn other_methods_need_a_route_or_a_page() {
    let fixture = Fixture::start();
    for (method, target, status) in [
        ("POST", "/nothing/here", 404),
        ("DELETE", "/nothing.js", 404),
        // For these, the site has a `200.html` and a page of a rule, which stand in for GET.
        ("POST", "/app/nothing", 404),
        ("POST", "/spa/nothing", 404),
        ("POST", "/page", 405),
        ("POST", "/old/a", 405),
        ("POST", "/", 405),
        ("OPTIONS", "/nothing/here", 204),
        ("BREW", "/nothing/here", 501),
        ("GET", "/nothing/here", 404),
    ] {
        assert_eq!(request(fixture.at, method, target, &[], b"").status, status, "{method} {target}");
    }
    let content = request(fixture.at, "POST", "/nothing/here", &[], b"content");
    assert_eq!((content.status, content.body.as_slice()), (404, b"There is no such page.\n".as_slice()));
}

#[test]
fn query_is_a_method_like_others() {
    let fixture = Fixture::start_with(|server| {
        server.route("QUERY /search", |request: &Request<'_>| {
            Response::bytes("text/plain", request.content().to_vec())
        })
    });
    let seen = request(fixture.at, "QUERY", "/search", &[], b"select");
    assert_eq!((seen.status, seen.body.as_slice()), (200, b"select".as_slice()));
    assert_eq!(request(fixture.at, "POST", "/search", &[], b"").status, 405);
    assert_eq!(request(fixture.at, "QUERY", "/hello/x", &[], b"").status, 405);
    assert_eq!(request(fixture.at, "QUERY", "/page", &[], b"").status, 405, "the site knows the method too");
}

#[test]
fn path_that_is_no_text_reaches_no_handler() {
    let fixture = Fixture::start_with(|server| {
        server
            .route("GET /files/{path...}", |request: &Request<'_>| request.param("path").into_owned())
            .blocking_route("GET /slow/{name}", |request: &Request<'_>| request.param("name").into_owned())
    });
    for target in ["/hello/%ff", "/hello/a%C3", "/files/a/%FF/b", "/files/%C3/%A9", "/slow/%80"] {
        assert_eq!(get(fixture.at, target).0, 400, "{target}");
    }
    // All characters are valid in a parameter.
    for (target, parameter) in
        [("/files/caf%C3%A9", "café"), ("/files/..%2Fkey", "../key"), ("/slow/%00", "\0")]
    {
        assert_eq!(get(fixture.at, target), (200, parameter.to_owned()), "{target}");
    }
    // The second one is only UTF-8 after decoding, so `Request::path` could not return it.
    for path in [&b"/hello/\xff"[..], b"/hello/\xc3%A9"] {
        let head = [b"GET ", path, b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"].concat();
        let received = exchange(fixture.at.plain, &head);
        assert!(received.starts_with("HTTP/1.1 400 "), "{received}");
    }
}
