"""WSGI adapter (PEP 3333)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import quote_from_bytes, unquote_to_bytes
from wsgiref.types import StartResponse, WSGIEnvironment

from cannery.archive import Archive
from cannery.errors import ArchiveClosedError
from cannery.handler import Handler
from cannery.paths import below, percent_encode
from cannery.site import respond, unavailable


def application(source: Archive | Handler) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    """Returns a WSGI application that serves the archive. If the archive is closed, the response is a 503.

    If the application is mounted at a path (`SCRIPT_NAME`), redirects lead below this path.
    """

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        mount = _bytes(environ, "SCRIPT_NAME").rstrip(b"/")
        target = _target(environ, mount)
        try:
            response = respond(source, environ["REQUEST_METHOD"], target, _fields(environ), mount=percent_encode(mount))
        except ArchiveClosedError:
            response = unavailable()
        fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.fields]
        start_response(f"{response.status} {response.reason}", fields)
        return response.blocks()

    return app


def _fields(environ: WSGIEnvironment) -> list[tuple[str, str]]:
    names = (name for name in environ if name.startswith("HTTP_"))
    return [(name[5:].replace("_", "-"), environ[name]) for name in names]


def _target(environ: WSGIEnvironment, mount: bytes) -> bytes:
    """Returns the request target below the mount, which is empty for the path of the mount itself.

    WSGI decodes the path. Many servers also have the target as received, which keeps encoded slashes apart. It is used unless
    middleware has changed the path.
    """
    path = _bytes(environ, "PATH_INFO")
    if path == b"" and mount == b"":
        path = b"/"
    if path == b"*":
        return path
    for name in ("REQUEST_URI", "RAW_URI"):
        raw_path, question_mark, query = _bytes(environ, name).partition(b"?")
        rest = below(raw_path, mount)
        if rest is not None and unquote_to_bytes(rest) == path:
            return rest + question_mark + query
    query = _bytes(environ, "QUERY_STRING")
    target = quote_from_bytes(path).encode("ascii")
    return target + b"?" + query if query else target


def _bytes(environ: WSGIEnvironment, name: str) -> bytes:
    text: str = environ.get(name, "")
    return text.encode("latin-1", "replace")
