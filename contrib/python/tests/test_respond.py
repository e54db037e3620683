"""Tests of `Archive` and `respond` with small archives that the tests write."""

from __future__ import annotations

import gzip
import random
import tempfile
import unittest
from pathlib import Path

from cannery import Archive, ArchiveError, CorruptArchiveError, Response, UnsupportedArchiveError, respond
from tests import writer

REQUESTS = [
    ("GET", b"/", [(b"Accept-Encoding", b"gzip")]),
    ("GET", b"/ten", [(b"Range", b"bytes=0-4,10-14")]),
    ("GET", b"/moved?x", []),
    ("GET", b"/copy", []),
    ("GET", b"/a", []),
    ("GET", b"/forced/x", []),
    ("GET", b"/blog/x/y", []),
    ("GET", b"/app/x", [(b"Host", b"a.host")]),
    ("GET", b"/none", [(b"Host", b"own.host")]),
    ("GET", b"/only", [(b"Host", b"b.host")]),
    ("OPTIONS", b"/", []),
]  # fmt: skip


def body(response: Response) -> bytes:
    return b"".join(response.body)


class RespondTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = Path(folder) / "site.cdb"
        writer.write_sample(self.path)
        self.archive = self.enterContext(Archive(self.path))

    def get(self, target: str, *fields: tuple[str, str], method: str = "GET") -> tuple[Response, dict[bytes, bytes]]:
        response = respond(self.archive, method, target, fields)
        return response, dict(response.fields)

    def test_smallest_accepted_coding_is_sent(self) -> None:
        response, fields = self.get("/", ("accept-encoding", "gzip"))
        self.assertEqual(fields[b"Content-Encoding"], b"gzip")
        self.assertIn(b"<title>index", gzip.decompress(body(response)))
        self.assertEqual(int(fields[b"Content-Length"]), len(body(response)))

    def test_bodies_are_slices_of_the_mapping(self) -> None:
        response, _ = self.get("/ten")
        self.assertIs(response.body[0].obj, self.archive.body(self.archive.path(None, b"/ten").representations[0]).obj)
        self.assertTrue(response.body[0].readonly)

    def test_ranges_and_conditions_apply(self) -> None:
        _, fields = self.get("/ten")
        etag = fields[b"ETag"].decode()
        self.assertEqual(self.get("/ten", ("If-None-Match", etag))[0].status, 304)
        self.assertEqual(self.get("/ten", ("If-Match", '"x"'))[0].status, 412)
        response, fields = self.get("/ten", ("Range", "bytes=990-"))
        self.assertEqual((response.status, body(response)), (206, b"0123456789"))
        self.assertEqual(fields[b"Content-Range"], b"bytes 990-999/1000")
        response, fields = self.get("/ten", ("Range", "bytes=0-4,10-14"))
        self.assertIn(b"multipart/byteranges", fields[b"Content-Type"])
        self.assertEqual(body(response).count(b"01234"), 2)
        self.assertEqual(self.get("/ten", ("Range", "bytes=1000-"))[0].status, 416)

    def test_rules_and_pages_apply(self) -> None:
        self.assertEqual(self.get("/moved?q=1")[1][b"Location"], b"/ten?q=1")
        self.assertEqual(self.get("/forced//evil")[1][b"Location"], b"/evil")
        self.assertEqual(self.get("/a?b")[1][b"Location"], b"/a/?b")
        self.assertEqual(self.get("/blog/x/y/z")[0].status, 200)
        self.assertEqual(self.get("/blog/x/y.png")[0].status, 404)
        self.assertEqual(self.get("/app/x/y")[0].status, 200)
        self.assertEqual(self.get("/app/x.js")[0].status, 404)
        response, fields = self.get("/none")
        self.assertEqual((response.status, body(response)), (404, b"<title>404</title>"))
        self.assertEqual(fields[b"Link"], b"a, b")

    def test_host_selects_the_site(self) -> None:
        self.assertEqual(body(self.get("/", ("Host", "OWN.host:80"))[0]), b"own")
        self.assertIn(b"start page", body(self.get("/ten", ("Host", "own.host"))[0]))
        self.assertEqual(body(self.get("/only", ("Host", "b.host"))[0]), b"wildcard")
        self.assertEqual(self.get("/ten", ("Host", "b.host"))[1][b"X-Host"], b"yes")
        self.assertEqual(self.get("/", ("Host", "a"), ("Host", "b"))[0].status, 400)

    def test_methods(self) -> None:
        response, fields = self.get("/ten", method="HEAD")
        self.assertEqual((response.status, response.body, fields[b"Content-Length"]), (200, (), b"1000"))
        self.assertEqual(self.get("/", method="OPTIONS")[0].status, 204)
        self.assertEqual(self.get("/", method="POST")[1][b"Allow"], b"GET, HEAD, OPTIONS")
        self.assertEqual(self.get("/", method="BREW")[0].status, 501)

    def test_body_outlives_the_archive(self) -> None:
        archive = Archive(self.path)
        response = respond(archive, "GET", "/ten", [])
        archive.close()
        self.assertEqual(body(response)[:10], b"0123456789")

    def test_wide_format_is_read(self) -> None:
        path = self.path.with_name("wide.cdb")
        writer.write_sample(path, wide=True)
        with Archive(path) as archive:
            for method, target, fields in REQUESTS:
                narrow = respond(self.archive, method, target, fields)
                wide = respond(archive, method, target, fields)
                self.assertEqual((narrow.status, body(narrow)), (wide.status, body(wide)))

    def test_other_files_are_refused(self) -> None:
        path = self.path.with_name("other.cdb")
        for content in (b"", b"x" * 5000, bytes(5000)):
            path.write_bytes(content)
            self.assertRaises(UnsupportedArchiveError, Archive, path)
        path.write_bytes(writer.sample()[:-1])
        self.assertRaises(CorruptArchiveError, Archive, path)
        self.assertRaises(OSError, Archive, self.path.with_name("none"))

    def test_damage_gives_an_error_and_no_other_exception(self) -> None:
        file = writer.sample()
        source = random.Random(1)
        statuses = set()
        # In the header, most bytes belong to tables that no request reads.
        positions = source.sample(range(2048), 100) + source.sample(range(2048, len(file)), 1000)
        for position in positions:
            damaged = bytearray(file)
            damaged[position] ^= 1 << source.randrange(8)
            statuses |= self.statuses(damaged)
        for _ in range(200):
            damaged = bytearray(file)
            for _ in range(20):
                damaged[source.randrange(len(file))] = source.randrange(256)
            statuses |= self.statuses(damaged)
        self.assertIn(500, statuses)

    def statuses(self, file: bytearray) -> set[int]:
        """Returns the statuses of all requests. A response never has a field that could split it."""
        path = self.path.with_name("damaged.cdb")
        path.write_bytes(file)
        try:
            archive = Archive(path)
        except ArchiveError:
            return set()
        statuses = set()
        with archive:
            for method, target, fields in REQUESTS:
                response = respond(archive, method, target, fields)
                statuses.add(response.status)
                for name, value in response.fields:
                    self.assertNotRegex(name + value, rb"[\r\n\0]")
        return statuses


if __name__ == "__main__":
    unittest.main()
