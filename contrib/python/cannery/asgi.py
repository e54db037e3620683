"""ASGI adapter (version 3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote, unquote

from cannery.archive import Archive
from cannery.errors import ArchiveClosedError
from cannery.handler import Handler
from cannery.paths import below, percent_encode
from cannery.site import respond, unavailable

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def application(source: Archive | Handler) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Returns an ASGI application that serves the archive. If the archive is closed, the response is a 503.

    If the application is mounted at a path (`root_path`), redirects lead below this path.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await _serve(source, scope, send)
            case "lifespan":
                await _live(receive, send)
            case "websocket":
                await receive()
                await send({"type": "websocket.close"})
            case other:
                raise ValueError(f"unknown type of scope: {other!r}")

    return app


async def _serve(source: Archive | Handler, scope: Scope, send: Send) -> None:
    mount = scope.get("root_path", "").rstrip("/").encode("utf-8", "replace")
    target = _target(scope, mount)
    try:
        response = respond(source, scope["method"], target, scope["headers"], mount=percent_encode(mount))
    except ArchiveClosedError:
        response = unavailable()
    fields = [(name.lower(), value) for name, value in response.fields]
    await send({"type": "http.response.start", "status": response.status, "headers": fields})
    for block in response.blocks():
        await send({"type": "http.response.body", "body": block, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _live(receive: Receive, send: Send) -> None:
    """Acknowledges that the server starts and stops. The archive is open already, and its owner closes it."""
    while True:
        event = (await receive())["type"]
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return


def _target(scope: Scope, mount: bytes) -> bytes:
    """Returns the request target below the mount, as received unless middleware has changed the path.

    It is empty for the path of the mount itself. Servers for earlier versions of ASGI have removed the mount already.
    """
    path = scope["path"]
    raw: bytes = scope.get("raw_path") or b""
    if unquote(raw.decode("latin-1")) != path:
        raw = path.encode() if path == "*" else quote(path, safe="/", errors="replace").encode("ascii")
    rest = below(raw, mount)
    if rest is None:
        # The path begins below the root of the program, whose path Starlette keeps. A proxy may have removed it.
        root = scope.get("app_root_path", "").rstrip("/").encode("utf-8", "replace")
        rest = below(raw, mount.removeprefix(root))
    if rest is None:
        rest = raw
    if rest == b"" and mount == b"":
        rest = b"/"
    query: bytes = scope.get("query_string", b"")
    return rest + (b"?" + query if query else b"")
