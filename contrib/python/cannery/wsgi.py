"""WSGI adapter (PEP 3333)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import quote_from_bytes, unquote_to_bytes
from wsgiref.types import StartResponse, WSGIEnvironment

from cannery.archive import Archive
from cannery.site import respond


def application(archive: Archive) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    """Returns a WSGI application that serves the archive."""

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        response = respond(archive, environ["REQUEST_METHOD"], _target(environ), _fields(environ))
        fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.fields]
        start_response(f"{response.status} {response.reason}", fields)
        return response.blocks()

    return app


def _fields(environ: WSGIEnvironment) -> list[tuple[str, str]]:
    names = (name for name in environ if name.startswith("HTTP_"))
    return [(name[5:].replace("_", "-"), environ[name]) for name in names]


def _target(environ: WSGIEnvironment) -> bytes:
    """Returns the request target below the mount point.

    WSGI decodes the path. Many servers also have the target as received, which keeps encoded slashes apart. It is used unless
    middleware has changed the path.
    """
    mount = _bytes(environ, "SCRIPT_NAME")
    path = _bytes(environ, "PATH_INFO")
    for name in ("REQUEST_URI", "RAW_URI"):
        raw = _bytes(environ, name)
        raw_path = raw.partition(b"?")[0]
        if raw.startswith(mount) and unquote_to_bytes(raw_path[len(mount) :]) == path:
            return raw[len(mount) :] or b"/"
    if path == b"*":
        return path
    query = _bytes(environ, "QUERY_STRING")
    target = quote_from_bytes(path or b"/").encode("ascii")
    return target + b"?" + query if query else target


def _bytes(environ: WSGIEnvironment, name: str) -> bytes:
    text: str = environ.get(name, "")
    return text.encode("latin-1", "replace")
