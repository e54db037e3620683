//! The requirements of RFC 9110 and RFC 9112 that no other promise covers, in the order of the two texts.
//! docs/conformance.md says which test holds which requirement. Never tests what a client or a proxy must do.

mod fields;
mod framing;
mod methods;
mod representations;
mod statuses;
mod targets;

use std::io::{Read, Write};

use crate::site::{Response, Server, is_whole, pages, parse, serve};

/// A small site with a page to negotiate, a rule of each kind, and fields of its own.
fn site() -> Server {
    // Long enough in each coding that a few small parts of it are shorter than the whole.
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

/// Sends bytes, and takes all answers until the server closes apart; `head_only` says which of them have no content.
fn answers(server: &Server, bytes: &[u8], head_only: &[bool]) -> Vec<Response> {
    let received = server.raw(bytes);
    let (mut rest, mut answers) = (received.as_slice(), Vec::new());
    while !rest.is_empty() {
        let is_head = head_only.get(answers.len()).copied().unwrap_or_default();
        let (answer, others) = parse(rest, is_head);
        answers.push(answer);
        rest = others;
    }
    answers
}

/// The statuses of all answers to bytes, until the server closes.
fn statuses(server: &Server, bytes: &[u8]) -> Vec<u16> {
    answers(server, bytes, &[]).iter().map(|answer| answer.status).collect()
}

/// The status of the answer to a request with these lines of the head, on a connection that ends behind it.
fn status(server: &Server, lines: &str) -> u16 {
    server.ask("GET", "/a.txt", lines).status
}

/// Sends bytes on an open connection, and reads as many answers as are asked for.
fn converse(server: &Server, bytes: &[u8], count: usize) -> Vec<Response> {
    let mut stream = server.connect();
    stream.write_all(bytes).unwrap();
    let (mut received, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let mut answers = Vec::new();
        let mut rest = received.as_slice();
        while is_whole(rest) {
            let (answer, others) = parse(rest, false);
            answers.push(answer);
            rest = others;
        }
        if answers.len() >= count {
            assert!(rest.is_empty(), "more than {count} answers");
            return answers;
        }
        let bytes = stream.read(&mut chunk).unwrap();
        assert!(bytes > 0, "the server closed after {} of {count} answers", answers.len());
        received.extend_from_slice(&chunk[..bytes]);
    }
}
