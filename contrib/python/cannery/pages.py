"""Built-in error pages, for status codes without an error page of the site. Byte for byte those of `cannery-server`."""

from __future__ import annotations

SUBJECT_BYTES_MAX = 300

_TEXTS = {
    400: ("Bad request", "The request cannot be understood."),
    404: ("Not found", "There is nothing at this address."),
    405: ("Method not allowed", "This address can only be read."),
    406: ("Not acceptable", "This is held only in a content coding that the request does not accept."),
    408: ("Request timeout", "The request did not arrive in time."),
    410: ("Gone", "What was at this address has been removed."),
    412: ("Precondition failed", "What is at this address is not the version that the request is about."),
    413: ("Content too large", "This address takes no content of that size."),
    414: ("Address too long", "The address is longer than this server reads."),
    416: ("Range not satisfiable", "There is nothing in the requested range."),
    417: ("Expectation failed", "The request expects what this server does not do."),
    421: (
        "No site for this host",
        (
            "This server has no site for the host name that was requested. If the name is yours, add "
            "it to the server's configuration, or point it to another server."
        ),
    ),
    431: ("Request header too large", "The header of the request is larger than this server reads."),
    500: ("Internal error", "The server cannot read its own files."),
    501: ("Not implemented", "The server does not know this method."),
    503: ("Service unavailable", "The server is too busy. Please try again."),
    505: ("Version not supported", "This server speaks HTTP/1.0, HTTP/1.1 and HTTP/2."),
}
_LINKS_HOME = frozenset({404, 405, 406, 410, 412, 413, 414, 416, 417})
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_STYLE = (
    "body{font:1.1em/1.5 system-ui,sans-serif;max-width:30em;margin:20vh auto;padding:0 1em}"
    "h1{font-size:1.4em;margin:0}h1 small{font-weight:400;margin-right:.4em}code{overflow-wrap:anywhere}"
)


def error_page(status: int, subject: bytes = b"") -> bytes:
    """Returns the page for a status code, with the requested path if it is known. Empty if there is no page."""
    if status not in _TEXTS:
        return b""
    title, text = _TEXTS[status]
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width"><meta name=color-scheme content="light dark">'
        f"<title>{status} {title}</title><style>{_STYLE}</style>"
        f"<main><h1><small>{status}</small>{title}</h1><p>{text}</p>"
    )
    if subject:
        shown = "".join(_escape(byte) for byte in subject[:SUBJECT_BYTES_MAX])
        ellipsis = "…" if len(subject) > SUBJECT_BYTES_MAX else ""
        page += f"<p><code>{shown}{ellipsis}</code></p>"
        if status in _LINKS_HOME and subject != b"/":
            page += '<p><a href="/">Go to the start page</a></p>'
    return (page + "</main></html>\n").encode()


def _escape(byte: int) -> str:
    """Escapes a byte of a request for HTML, and replaces bytes outside printable ASCII."""
    if not 0x20 <= byte <= 0x7E:
        return "\ufffd"
    return _ESCAPES.get(chr(byte), chr(byte))
