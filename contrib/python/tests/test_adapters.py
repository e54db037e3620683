"""Tests of the adapters: WSGI through `wsgiref` on loopback, and ASGI by hand."""

from __future__ import annotations

import asyncio
import http.client
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

from cannery import Archive, Handler, asgi, respond, wsgi
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
        self.assertEqual(location(mounted), "/site/a%2Fb")

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
        self.assertEqual(dict(self.drive(raw)[0]["headers"])[b"location"], b"/site/a%2Fb?q")
        changed = {**scope, "path": "/forced/a b", "raw_path": b"/other"}
        self.assertEqual(dict(self.drive(changed)[0]["headers"])[b"location"], b"/site/a%20b?q")

    # The mount, the request target, and where it is redirected to.
    MOUNTED = (
        ("", "/a", "/a/"),
        ("/docs", "/docs", "/docs/"),
        ("/docs", "/docs?x=y", "/docs/?x=y"),
        ("/docs", "/docs/", None),
        ("/docs", "/docs/a", "/docs/a/"),
        ("/docs", "/docs/a?x=y", "/docs/a/?x=y"),
        ("/docs", "/%64ocs/%61", "/docs/a/"),
        ("/docs", "/docs/moved", "/docs/ten"),
        ("/docs", "/docs/forced/a%2Fb", "/docs/a%2Fb"),
        ("/docs", "/docs/a/", None),
        ("/x/y", "/x/y", "/x/y/"),
        ("/x/y", "/x/y/a", "/x/y/a/"),
        ("/a b", "/a%20b/a", "/a%20b/a/"),
        ("/\u00e4", "/%C3%A4/a", "/%C3%A4/a/"),
        ("/a", "/a/a", "/a/a/"),
        # A location that begins with two slashes would lead to another host.
        ("//evil.example", "//evil.example/a", "/evil.example/a/"),
    )

    def test_wsgi_redirects_lead_below_the_mount(self) -> None:
        app = wsgi.application(self.archive)
        for mount, target, expected in self.MOUNTED:
            for with_target in (True, False):
                if not with_target and "%2F" in target:
                    continue
                path, _, query = target.partition("?")
                environ = {
                    "REQUEST_METHOD": "GET",
                    "SCRIPT_NAME": mount.encode().decode("latin-1"),
                    "PATH_INFO": unquote(path, "latin-1")[len(mount.encode()) :],
                    "QUERY_STRING": query,
                }
                if with_target:
                    environ["REQUEST_URI"] = target
                start_response = mock.Mock()
                list(app(environ, start_response))
                status, fields = start_response.call_args.args
                self.assertEqual(dict(fields).get("Location"), expected, environ)
                self.assertTrue(status.startswith("3" if expected else "200"), environ)

    def test_asgi_redirects_lead_below_the_mount(self) -> None:
        for mount, target, expected in self.MOUNTED:
            path, _, query = target.partition("?")
            scope = {"type": "http", "method": "GET", "root_path": mount, "query_string": query.encode(), "headers": []}
            scopes = [
                {**scope, "path": unquote(path), "raw_path": path.encode()},
                # Without the target as received.
                {**scope, "path": unquote(path)},
            ]
            if path != mount and mount != "/a":
                # A server for earlier versions of ASGI. It can't tell the path `/a` below `/a` from the mount itself.
                scopes.append({**scope, "path": unquote(path)[len(mount) :]})
            for mounted in scopes if "%2F" not in target else scopes[:1]:
                start = self.drive(mounted)[0]
                location = dict(start["headers"]).get(b"location")
                self.assertEqual(location, expected and expected.encode(), mounted)
                self.assertEqual(start["status"] == 200, expected is None, mounted)

    def test_asgi_mount_is_below_a_root_that_a_proxy_removes(self) -> None:
        scope = {"type": "http", "method": "GET", "headers": [], "app_root_path": "/root", "root_path": "/root/docs"}
        for path in ("/docs/a", "/root/docs/a"):
            start = self.drive({**scope, "path": path})[0]
            self.assertEqual(dict(start["headers"])[b"location"], b"/root/docs/a/", path)

    def test_other_methods_are_answered_at_the_mount(self) -> None:
        response = respond(self.archive, "POST", "", [], mount="/docs")
        self.assertEqual(response.status, 405)
        response = respond(self.archive, "HEAD", "?x", [], mount="docs/")
        self.assertEqual((response.status, dict(response.fields)[b"Location"]), (308, b"/docs/?x"))
        self.assertEqual(respond(self.archive, "GET", "", []).status, 400)
        for mount in ("/a\r\nb", "/ü", "/%zz", "/a?b"):
            self.assertRaises(ValueError, respond, self.archive, "GET", "/", [], mount=mount)

    def test_closed_archive_gives_503(self) -> None:
        self.archive.close()
        for source in (self.archive, Handler(self.archive)):
            environ: dict[str, Any] = {"PATH_INFO": "/ten"}
            setup_testing_defaults(environ)
            start_response = mock.Mock()
            self.assertIn(b"503", b"".join(wsgi.application(source)(environ, start_response)))
            self.assertEqual(start_response.call_args.args[0], "503 Service Unavailable")
        start, *_ = self.drive({"type": "http", "method": "GET", "path": "/ten", "headers": []})
        self.assertEqual(start["status"], 503)

    def test_handler_is_served(self) -> None:
        handler = Handler(self.archive)
        environ: dict[str, Any] = {"PATH_INFO": "/ten"}
        setup_testing_defaults(environ)
        content = wsgi.application(handler)(environ, mock.Mock())
        handler.replace(Archive.from_bytes(writer.sample()))
        self.assertEqual(len(b"".join(content)), 1000)

    def test_asgi_acknowledges_lifespan_and_closes_websockets(self) -> None:
        events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
        sent = [message["type"] for message in self.drive({"type": "lifespan"}, *events)]
        self.assertEqual(sent, ["lifespan.startup.complete", "lifespan.shutdown.complete"])
        sent = self.drive({"type": "websocket"}, {"type": "websocket.connect"})
        self.assertEqual(sent, [{"type": "websocket.close"}])


if __name__ == "__main__":
    unittest.main()
