"""Tests of the adapters: WSGI through `wsgiref` on loopback, and ASGI by hand."""

from __future__ import annotations

import asyncio
import http.client
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

from cannery import Archive, asgi, wsgi
from tests import writer


class QuietHandler(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class AdapterTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = Path(folder) / "site.cdb"
        writer.write_sample(path)
        self.archive = self.enterContext(Archive(path))

    def test_wsgiref_serves_the_archive(self) -> None:
        server = make_server("127.0.0.1", 0, wsgi.application(self.archive), handler_class=QuietHandler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            for method, target, status, length in (
                ("GET", "/ten", 200, 1000),
                ("HEAD", "/ten", 200, 0),
                ("GET", "/ten?x=y", 200, 1000),
                ("GET", "/a?x", 308, 0),
                ("GET", "/none", 404, 18),
                ("GET", "/%2e%2e/ten", 200, 1000),
            ):
                connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
                connection.request(method, target, headers={"Host": "localhost"})
                response = connection.getresponse()
                self.assertEqual((response.status, len(response.read())), (status, length), target)
                connection.close()
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def test_wsgi_application_is_valid(self) -> None:
        environ: dict[str, Any] = {
            "SCRIPT_NAME": "",
            "PATH_INFO": "/ten",
            "QUERY_STRING": "",
            "HTTP_RANGE": "bytes=1-2",
        }
        setup_testing_defaults(environ)
        statuses: list[str] = []

        def start_response(status: str, fields: list[tuple[str, str]], error: object = None) -> None:
            statuses.append(status)

        content = validator(wsgi.application(self.archive))(environ, start_response)
        self.assertEqual(list(content), [b"12"])
        content.close()
        self.assertEqual(statuses, ["206 Partial Content"])

    def test_wsgi_prefers_the_target_as_received(self) -> None:
        def location(environ: dict[str, str]) -> str | None:
            found: dict[str, str] = {}

            def start_response(status: str, fields: list[tuple[str, str]]) -> None:
                found.update(fields)

            list(wsgi.application(self.archive)({"REQUEST_METHOD": "GET", **environ}, start_response))
            return found.get("Location")

        decoded = {"SCRIPT_NAME": "", "PATH_INFO": "/forced/a/b"}
        self.assertEqual(location(decoded), "/a/b")
        self.assertEqual(location({**decoded, "REQUEST_URI": "/forced/a%2Fb?q"}), "/a%2Fb?q")
        # Middleware has changed the path.
        self.assertEqual(location({**decoded, "REQUEST_URI": "/other"}), "/a/b")
        mounted = {"SCRIPT_NAME": "/site", "PATH_INFO": "/forced/a/b", "RAW_URI": "/site/forced/a%2Fb"}
        self.assertEqual(location(mounted), "/a%2Fb")

    def drive(self, scope: dict[str, Any], *received: dict[str, Any]) -> list[dict[str, Any]]:
        """Runs the ASGI application, and returns the messages that it sends."""
        sent: list[dict[str, Any]] = []
        events = iter(received)

        async def receive() -> dict[str, Any]:
            return next(events)

        async def send(message: Any) -> None:
            sent.append(dict(message))

        asyncio.run(asgi.application(self.archive)(scope, receive, send))
        return sent

    def test_asgi_sends_start_and_body(self) -> None:
        scope = {
            "type": "http", "method": "GET", "path": "/ten", "raw_path": b"/ten", "query_string": b"x",
            "root_path": "", "headers": [(b"host", b"localhost"), (b"range", b"bytes=0-4,10-14")],
        }  # fmt: skip
        start, *bodies = self.drive(scope)
        self.assertEqual((start["type"], start["status"]), ("http.response.start", 206))
        self.assertTrue(all(name == name.lower() for name, _ in start["headers"]))
        content = b"".join(message["body"] for message in bodies)
        self.assertEqual(len(content), int(dict(start["headers"])[b"content-length"]))
        self.assertTrue(all(type(message["body"]) is bytes for message in bodies))
        self.assertEqual([message.get("more_body", False) for message in bodies], [True] * (len(bodies) - 1) + [False])

    def test_asgi_target_keeps_encoded_slashes(self) -> None:
        scope = {"type": "http", "method": "GET", "root_path": "/site", "query_string": b"q", "headers": []}
        raw = {**scope, "path": "/site/forced/a/b", "raw_path": b"/site/forced/a%2Fb"}
        self.assertEqual(dict(self.drive(raw)[0]["headers"])[b"location"], b"/a%2Fb?q")
        changed = {**scope, "path": "/forced/a b", "raw_path": b"/other"}
        self.assertEqual(dict(self.drive(changed)[0]["headers"])[b"location"], b"/a%20b?q")

    def test_asgi_acknowledges_lifespan_and_closes_websockets(self) -> None:
        events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
        sent = [message["type"] for message in self.drive({"type": "lifespan"}, *events)]
        self.assertEqual(sent, ["lifespan.startup.complete", "lifespan.shutdown.complete"])
        sent = self.drive({"type": "websocket"}, {"type": "websocket.connect"})
        self.assertEqual(sent, [{"type": "websocket.close"}])


if __name__ == "__main__":
    unittest.main()
