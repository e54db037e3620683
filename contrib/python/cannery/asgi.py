"""ASGI adapter (version 3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote, unquote

from cannery.archive import Archive
from cannery.site import respond

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def application(archive: Archive) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Returns an ASGI application that serves the archive."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await _serve(archive, scope, send)
            case "lifespan":
                await _live(receive, send)
            case "websocket":
                await receive()
                await send({"type": "websocket.close"})
            case other:
                raise ValueError(f"unknown type of scope: {other!r}")

    return app


async def _serve(archive: Archive, scope: Scope, send: Send) -> None:
    response = respond(archive, scope["method"], _target(scope), scope["headers"])
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


def _target(scope: Scope) -> bytes:
    """Returns the request target below the mount point, as received unless middleware has changed the path."""
    path = scope["path"]
    raw: bytes = scope.get("raw_path") or b""
    if unquote(raw.decode("latin-1")) != path:
        raw = path.encode() if path == "*" else quote(path, safe="/", errors="replace").encode("ascii")
    mount = quote(scope.get("root_path", ""), safe="/").encode("ascii")
    if mount and (raw == mount or raw.startswith(mount + b"/")):
        raw = raw[len(mount) :]
    query: bytes = scope.get("query_string", b"")
    return (raw or b"/") + (b"?" + query if query else b"")
