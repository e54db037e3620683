//! Requirements of RFC 9110 and RFC 9112 that no other test covers, in the order of the two documents.
//!
//! docs/design/conformance.md lists the test of each requirement. Requirements on clients and proxies are out of scope.

mod fields;
mod framing;
mod methods;
mod representations;
mod statuses;
mod targets;

use cannery_testkit::http1;

use crate::harness::{Response, Server, pages, parse, serve};

/// Serves a small site with a negotiated page, a rule of each kind, and header fields of its own.
fn site() -> Server {
    // Long enough that a few small parts are shorter than the whole page in each coding.
    let lines: String = (0..1000).map(|number| format!("<p>{}</p>\n", number * 7919 % 10_007)).collect();

    let page = format!("<title>page</title>{lines}");
    serve(
        &pages(&[
            ("page.html", page.leak()),
            ("a.txt", "content"),
            ("a b.txt", "spaced"),
            ("docs/index.html", "<title>docs</title>"),
            ("gone.html", "<title>gone</title>"),
            (
                "_redirects",
                "/old /new 301\n/found /new 302\n/see /new 303\n/for-now /new 307\n/gone/* /gone.html 410\n",
            ),
            (
                "_headers",
                "/page.html\n  Expires: Sun, 06 Nov 1994 08:49:37 GMT\n  Content-Location: /page.html\n  X-Other: other\n",
            ),
        ]),
        &["--last-modified", "@784111777"],
    )
}

/// Sends bytes and parses all responses until the server closes the connection. `methods` are those of the first requests;
/// the others are GET.
fn responses(server: &Server, bytes: &[u8], methods: &[&str]) -> Vec<Response> {
    let received = server.raw(bytes);
    let mut rest = received.as_slice();
    let mut responses = Vec::new();
    while !rest.is_empty() {
        let method = methods.get(responses.len()).copied().unwrap_or("GET");
        let (response, others) = parse(rest, method);
        responses.push(response);
        rest = others;
    }
    responses
}

/// Sends bytes and returns the statuses of all responses until the server closes the connection.
fn statuses(server: &Server, bytes: &[u8]) -> Vec<u16> {
    responses(server, bytes, &[]).iter().map(|response| response.status).collect()
}

/// Returns the status of the response to a request with these header lines.
fn status(server: &Server, lines: &str) -> u16 {
    server.request("GET", "/a.txt", lines).status
}

/// Sends bytes and reads `count` responses from a connection that stays open.
fn exchange(server: &Server, bytes: &[u8], count: usize) -> Vec<Response> {
    let mut client = http1::Client::new(server.connect());
    client.send(bytes).unwrap();
    let responses = (0..count).map(|_| client.receive("GET").unwrap()).collect();
    assert!(!client.has_received(), "more than {count} responses");
    responses
}
