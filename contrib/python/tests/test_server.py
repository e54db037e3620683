"""Differential test against the programs: `CANNERY_PROGRAMS` names the directory with `cannery-archiver` and `cannery-server`."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path

from cannery import Archive, respond
from tests import site

SERVER_FIELDS = {b"date", b"connection"}
BUILDS = [
    [],
    ["--compress", "identity,gzip,br,zstd", "--last-modified", "2020-01-01"],
    ["--format", "cdb64", "--compress", "gzip", "--exclude-slash-redirects", "--include-folder-listing"],
]


def exchange(stream: socket.socket, method: str, target: bytes, fields: list[tuple[bytes, bytes]]) -> bytes:
    """Sends a request that closes the connection, and returns the response."""
    lines = b"".join(b"%s: %s\r\n" % field for field in fields)
    stream.sendall(method.encode() + b" " + target + b" HTTP/1.1\r\n" + lines + b"Connection: close\r\n\r\n")
    return b"".join(iter(lambda: stream.recv(1 << 20), b""))


def accepts_connections(address: str) -> bool:
    """Returns whether a server listens. For a moment before that, its socket exists already."""
    with socket.socket(socket.AF_UNIX) as stream:
        return stream.connect_ex(address) == 0


@unittest.skipUnless("CANNERY_PROGRAMS" in os.environ, "CANNERY_PROGRAMS is not set")
class ServerTest(unittest.TestCase):
    def test_responses_equal_those_of_the_server(self) -> None:
        for flags in BUILDS:
            with self.subTest(flags=flags), tempfile.TemporaryDirectory() as name:
                self.compare(Path(name), flags)

    def test_bundled_server_is_opened(self) -> None:
        programs = Path(os.environ["CANNERY_PROGRAMS"])
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            site.write(folder / "site")
            path, app = folder / "site.cdb", folder / "app"
            built = subprocess.run(
                [programs / "cannery-archiver", folder / "site", path], capture_output=True, text=True
            )
            self.assertTrue(path.exists(), built.stderr)
            bundle = [programs / "cannery", "bundle", path, "-o", app]
            bundled = subprocess.run(bundle, capture_output=True, text=True)
            self.assertEqual(bundled.returncode, 0, bundled.stderr)
            with Archive(path) as alone, Archive(app) as within:
                for target in ("/", "/nothing"):
                    responses = [respond(archive, "GET", target, [], now=0) for archive in (alone, within)]
                    expected, got = ((response.status, b"".join(response.body)) for response in responses)
                    self.assertEqual(got, expected, target)

    def compare(self, folder: Path, flags: list[str]) -> None:
        programs = Path(os.environ["CANNERY_PROGRAMS"])
        site.write(folder / "site")
        path = folder / "site.cdb"
        build = [programs / "cannery-archiver", folder / "site", path, *flags]
        built = subprocess.run(build, capture_output=True, text=True)
        self.assertTrue(path.exists(), built.stderr)
        address = str(folder / "socket")
        command = [
            programs / "cannery-server",
            path,
            "--bind",
            f"unix:{address}",
            "--security-headers-disable",
            "--quiet",
        ]
        server = subprocess.Popen([*command, "--threads", "1"])
        try:
            while not accepts_connections(address):
                self.assertIsNone(server.poll(), "the server ended")
                time.sleep(0.01)
            with Archive(path) as archive:
                self.compare_all(archive, address)
        finally:
            server.terminate()
            server.wait()

    def compare_all(self, archive: Archive, address: str) -> None:
        local = (b"Host", b"localhost")
        etag_of = {}
        for target in (b"/", b"/plain.txt", b"/docs/guide/start", b"/headers/one", b"/404.html", b"/shell/a"):
            fields = dict(respond(archive, "GET", target, [local]).fields)
            etag_of[target] = fields.get(b"ETag", b'"none"')
        count = 0
        for method, target, fields in site.requests(etag_of):
            count += 1
            with socket.socket(socket.AF_UNIX) as stream:
                stream.connect(address)
                received = exchange(stream, method, target, fields)
            head, _, body = received.partition(b"\r\n\r\n")
            status_line, *lines = head.split(b"\r\n")
            theirs = Counter(tuple(line.split(b": ", 1)) for line in lines)
            theirs = Counter({(name.lower(), value): n for (name, value), n in theirs.items()})
            theirs = Counter({field: n for field, n in theirs.items() if field[0] not in SERVER_FIELDS})
            ours = respond(archive, method, target, fields)
            request = (method, target[:200], fields)
            self.assertEqual(ours.status, int(status_line.split()[1]), request)
            self.assertEqual(Counter((name.lower(), value) for name, value in ours.fields), theirs, request)
            self.assertEqual(b"".join(ours.body), body, request)
        self.assertGreater(count, 1000)
