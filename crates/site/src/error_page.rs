//! The pages that are built in, for errors of which the site has no page of its own.
//!
//! Small, readable in light and dark, and without a word about the server.

macro_rules! page {
    ($title:literal, $text:literal) => {
        concat!(
            "<!doctype html><html lang=en><meta charset=utf-8>",
            "<meta name=viewport content=\"width=device-width\"><meta name=color-scheme content=\"light dark\">",
            "<title>", $title, "</title>",
            "<style>body{font:1.1em/1.5 system-ui,sans-serif;max-width:30em;margin:20vh auto;padding:0 1em}",
            "h1{font-size:1.4em;margin:0}p{opacity:.8}</style>",
            "<h1>", $title, "</h1><p>", $text, "</p></html>\n"
        )
        .as_bytes()
    };
}

/// The page for a status: empty for one that has none.
#[must_use]
pub const fn error_page(status: u16) -> &'static [u8] {
    match status {
        400 => page!("Bad request", "The request cannot be understood."),
        404 => page!("Not found", "There is nothing at this address."),
        405 => page!("Method not allowed", "This address can only be read."),
        406 => {
            page!("Not acceptable", "This is held only in a content coding that the request does not accept.")
        }
        408 => page!("Request timeout", "The request did not arrive in time."),
        410 => page!("Gone", "What was at this address is there no more."),
        412 => page!("Precondition failed", "What is at this address is not what the request takes it for."),
        413 => page!("Content too large", "This address takes no content of that size."),
        414 => page!("Address too long", "The address is longer than this server reads."),
        416 => page!("Range not satisfiable", "There is nothing in the part that was asked for."),
        417 => page!("Expectation failed", "The request expects what this server does not do."),
        421 => page!("Misdirected request", "This server does not answer for this address."),
        431 => {
            page!("Request header too large", "The header of the request is larger than this server reads.")
        }
        500 => page!("Internal error", "The server cannot read its own files."),
        501 => page!("Not implemented", "The server does not know this method."),
        503 => page!("Service unavailable", "The server is too busy. Please try again."),
        505 => page!("Version not supported", "This server speaks HTTP/1.0 and HTTP/1.1."),
        _ => b"",
    }
}
