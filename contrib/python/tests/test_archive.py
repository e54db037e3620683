"""Tests of opening, closing and replacing archives, and of the tables of rules."""

from __future__ import annotations

import mmap
import struct
import sys
import tempfile
import threading
import unittest
import zipfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from types import FrameType
from unittest import mock

from cannery import (
    Archive,
    ArchiveClosedError,
    ArchiveError,
    CorruptArchiveError,
    Handler,
    UnsupportedArchiveError,
    respond,
)
from cannery.archive import HeaderRule, Piece, PieceKind, Redirect, Rule, RuleTable
from cannery.program import PAGE_BYTES
from cannery.rules import match_exactly, match_path
from tests import writer

ROOT = Path(__file__).parents[3]


def program_64(size: int) -> bytes:
    """Returns the smallest program whose only segment ends after `size` bytes."""
    program = bytearray(size)
    program[:7] = b"\x7fELF\x02\x01\x01"
    struct.pack_into("<Q", program, 32, 64)
    struct.pack_into("<HH", program, 54, 56, 1)
    struct.pack_into("<Q", program, 64 + 32, size)
    return bytes(program)


def program_32(size: int) -> bytes:
    """Returns a program with two sections, of which the second has no bytes in the file."""
    program = bytearray(size)
    program[:7] = b"\x7fELF\x01\x01\x01"
    struct.pack_into("<I", program, 32, 52)
    struct.pack_into("<HH", program, 46, 40, 2)
    struct.pack_into("<I", program, 52 + 20, size)
    struct.pack_into("<I", program, 92 + 4, 8)
    struct.pack_into("<I", program, 92 + 20, 1 << 30)
    return bytes(program)


def bundle(program: bytes, archive: bytes) -> bytes:
    """Returns a file with a program and an archive, as `cannery bundle` makes it."""
    return program + bytes(-len(program) % PAGE_BYTES) + archive


def body(archive: Archive | Handler, target: str) -> bytes:
    return b"".join(respond(archive, "GET", target, []).body)


def site(text: bytes) -> bytes:
    """Returns an archive with one page."""
    pages = writer.Writer()
    pages.record(b"/", pages.resource(text, pages.head(b"text/plain")))
    pages.record(b"//", writer.scope())
    return bytes(pages.finish())


class OpenTest(unittest.TestCase):
    def setUp(self) -> None:
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "site.cdb"

    def test_archives_open_from_memory(self) -> None:
        content = site(b"hello")
        padded = memoryview(b"--" + content)[2:]
        for source in (content, bytearray(content), memoryview(content), padded):
            with Archive.from_bytes(source) as archive:
                self.assertEqual(body(archive, "/"), b"hello")
        self.path.write_bytes(content)
        with (
            self.path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            Archive.from_bytes(mapped) as archive,
        ):
            self.assertEqual(body(archive, "/"), b"hello")

    def test_archives_open_from_a_zipped_package(self) -> None:
        package = "cannery_test_package"
        path = self.path.with_suffix(".zip")
        with zipfile.ZipFile(path, "w") as zipped:
            zipped.writestr(f"{package}/__init__.py", "")
            zipped.writestr(f"{package}/site.cdb", site(b"hello"))
        self.enterContext(mock.patch.object(sys, "path", [str(path), *sys.path]))
        self.addCleanup(sys.modules.pop, package, None)
        with Archive.from_bytes(files(package).joinpath("site.cdb").read_bytes()) as archive:
            self.assertEqual(body(archive, "/"), b"hello")

    def test_memory_is_not_copied(self) -> None:
        content = site(b"hello")
        response = respond(Archive.from_bytes(content), "GET", "/", [])
        self.assertIs(response.body[0].obj, content)
        self.assertTrue(respond(Archive.from_bytes(bytearray(content)), "GET", "/", []).body[0].readonly)

    def test_archives_follow_programs(self) -> None:
        content = site(b"hello")
        for program in (program_64(5000), program_64(2 * PAGE_BYTES), program_32(300)):
            bundled = bundle(program, content)
            self.path.write_bytes(bundled)
            for archive in (Archive(self.path), Archive.from_bytes(bundled)):
                with archive:
                    self.assertEqual(body(archive, "/"), b"hello")

    @unittest.skipUnless(sys.platform == "linux", "programs aren't ELF executables on this platform")
    def test_archive_follows_the_interpreter(self) -> None:
        program = Path(sys.executable).read_bytes()
        self.assertRaises(UnsupportedArchiveError, Archive, sys.executable)
        with Archive.from_bytes(bundle(program, site(b"hello"))) as archive:
            self.assertEqual(body(archive, "/"), b"hello")

    def test_errors_tell_why_a_file_is_refused(self) -> None:
        content = site(b"hello")
        program = program_64(5000)
        version = bytearray(content)
        version[2048 + 8 + 7 + 4] += 1
        for refused, error in (
            (b"hello", UnsupportedArchiveError),
            (bytes(5000), UnsupportedArchiveError),
            (program, UnsupportedArchiveError),
            (program[:70], UnsupportedArchiveError),
            (version, UnsupportedArchiveError),
            (bundle(program, version), UnsupportedArchiveError),
            (content[:-1], CorruptArchiveError),
            (bundle(program, content)[:6000], CorruptArchiveError),
            (bundle(program, content)[:-1], CorruptArchiveError),
        ):
            self.path.write_bytes(refused)
            self.assertRaises(error, Archive.from_bytes, refused)
            with self.assertRaisesRegex(error, "site.cdb"):
                Archive(self.path)
        self.assertRaises(UnsupportedArchiveError, Archive.from_bytes, b"")

    def test_damaged_program_headers_give_no_other_exception(self) -> None:
        bundled = bundle(program_64(300), site(b"hello"))
        for at in range(120):
            for value in (0, 1, 0x7F, 0x80, 0xFF):
                damaged = bytearray(bundled)
                damaged[at] = value
                for content in (damaged, damaged[:at]):
                    try:
                        Archive.from_bytes(content)
                    except ArchiveError:
                        pass

    @unittest.skipUnless((ROOT / "LICENSE-MIT").exists(), "not in the repository of Cannery")
    def test_licenses_are_those_of_the_project(self) -> None:
        for name in ("LICENSE-APACHE", "LICENSE-MIT"):
            self.assertEqual((ROOT / name).read_bytes(), (ROOT / "contrib/python" / name).read_bytes())


class CloseTest(unittest.TestCase):
    def test_closed_archive_raises(self) -> None:
        archive = Archive.from_bytes(site(b"hello"))
        archive.close()
        archive.close()
        for use in (
            lambda: respond(archive, "GET", "/", []),
            lambda: respond(Handler(archive), "GET", "/", []),
            lambda: archive.path(None, b"/"),
            lambda: archive.root(None),
            lambda: archive.head(5000),
        ):
            with self.assertRaisesRegex(ArchiveClosedError, "the archive is closed"):
                use()

    def test_close_waits_for_responses_that_are_computed(self) -> None:
        archive = Archive.from_bytes(site(b"hello")).acquire()
        archive.close()
        self.assertIsNotNone(archive.path(None, b"/"))
        self.assertRaises(ArchiveClosedError, archive.acquire)
        archive.release()
        self.assertRaises(ArchiveClosedError, archive.path, None, b"/")

    def test_swap_and_replace(self) -> None:
        first, second = (Archive.from_bytes(site(text)) for text in (b"first", b"second"))
        handler = Handler(first)
        self.assertIs(handler.swap(second), first)
        self.assertEqual((body(handler, "/"), body(first, "/")), (b"second", b"first"))
        handler.replace(second)
        self.assertEqual(body(handler, "/"), b"second")
        handler.replace(first)
        self.assertIs(handler.archive, first)
        self.assertRaises(ArchiveClosedError, body, second, "/")

    def test_request_with_a_closed_archive_uses_the_next_one(self) -> None:
        first, second = (Archive.from_bytes(site(text)) for text in (b"first", b"second"))
        handler = Handler(first)
        handler.replace(second)
        # As a request does that has loaded the first archive before.
        self.assertIs(handler._acquire(first), second)

    def test_each_archive_is_returned_by_one_swap(self) -> None:
        content = site(b"hello")
        first, *others = (Archive.from_bytes(content) for _ in range(100))
        handler = Handler(first)
        returned: list[Archive] = []

        def swap(archives: list[Archive]) -> None:
            for archive in archives:
                returned.append(handler.swap(archive))

        threads = [threading.Thread(target=swap, args=(others[start::4],)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({id(archive) for archive in (*returned, handler.archive)}, {id(a) for a in (first, *others)})

    def test_signal_handler_replaces_the_archive_during_a_request(self) -> None:
        """Replaces the archive once in a request, at each line where the request counts its use of an archive."""
        content = site(b"hello")
        for position in range(100):
            handler = Handler(Archive.from_bytes(content))
            lines = 0

            def trace(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
                nonlocal lines
                if event == "line" and frame.f_code.co_name in ("acquire", "_acquire", "release"):
                    lines += 1
                    if lines == position + 1:
                        sys.settrace(None)
                        handler.replace(Archive.from_bytes(content))
                return trace

            before = sys.gettrace()
            sys.settrace(trace)
            try:
                received = body(handler, "/")
            finally:
                sys.settrace(before)
            self.assertEqual(received, b"hello", position)
            if lines <= position:
                break
        self.assertGreater(position, 5)

    def test_no_request_fails_during_replacements(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for text in (b"0", b"1"):
                path = Path(folder) / text.decode()
                path.write_bytes(site(text * 5000))
                paths.append(path)
            handler = Handler(Archive(paths[0]))
            failures: list[object] = []
            stop = threading.Event()

            def request() -> None:
                while not stop.is_set() and not failures:
                    try:
                        content = body(handler, "/")
                    except Exception as error:
                        failures.append(error)
                    else:
                        if content not in (b"0" * 5000, b"1" * 5000):
                            failures.append(content[:20])

            clients = [threading.Thread(target=request) for _ in range(3)]
            for client in clients:
                client.start()
            for number in range(300):
                handler.replace(Archive(paths[number % 2]))
            stop.set()
            for client in clients:
                client.join()
            handler.archive.close()
            self.assertEqual(failures, [])


def pieces(*parts: bytes | PieceKind) -> tuple[Piece, ...]:
    return tuple(Piece(part) if isinstance(part, PieceKind) else Piece(PieceKind.LITERAL, part) for part in parts)


class RulesTest(unittest.TestCase):
    def test_scopes_are_decoded_once(self) -> None:
        rules = b"".join(
            writer.rule(n, 0, writer.literal(b"old-%d/" % n) + writer.SPLAT, writer.redirect(301, writer.literal(b"/")))
            for n in range(100)
        )
        pages = writer.Writer()
        pages.record(b"//", writer.scope(rules=rules))
        with (
            mock.patch.object(Archive, "_decode_scope", autospec=True, side_effect=Archive._decode_scope) as decode,
            Archive.from_bytes(pages.finish()) as archive,
        ):
            for _ in range(3):
                self.assertEqual(respond(archive, "GET", "/nothing", []).status, 404)
                self.assertEqual(respond(archive, "GET", "/old-99/x", []).status, 301)
            self.assertEqual(decode.call_count, 1)

    def test_few_of_many_rules_are_candidates(self) -> None:
        rules = [HeaderRule(n, b"", pieces(b"old-%d/" % n, PieceKind.SPLAT), ()) for n in range(5000)]
        rules.append(HeaderRule(5000, b"", pieces(PieceKind.SPLAT), ()))
        table = RuleTable(reversed(rules))
        self.assertEqual([rule.ordinal for rule in table.candidates(b"nothing/here")], [5000])
        self.assertEqual([rule.ordinal for rule in table.candidates(b"old-7/x")], [7, 5000])
        table = RuleTable(HeaderRule(n, b"", pieces(b"a/", PieceKind.CAPTURE, b"/old-%d" % n), ()) for n in range(5000))
        self.assertEqual([rule.ordinal for rule in table.candidates(b"a/b/old-7")], [7])

    def test_candidates_include_all_matching_rules(self) -> None:
        splat, capture = PieceKind.SPLAT, PieceKind.CAPTURE
        patterns = [
            pieces(b"a/", splat),
            pieces(capture, b"/x"),
            pieces(b"a/x"),
            pieces(b"a", splat),
            pieces(b"b/", splat),
            pieces(splat),
            pieces(b"a"),
            pieces(),
            pieces(capture, b"/", capture, b"/y"),
            pieces(b"a/", capture, b"/y"),
            pieces(b"a/-", capture, b"/y/", splat),
            pieces(capture, b"/"),
            pieces(capture, b"-", capture),
            pieces(b"a/", splat, b"/y"),
            pieces(b"a", b"/", b"x"),
            pieces(b"a/x/"),
        ]
        target = Redirect(301, False, b"", ())
        table = RuleTable(Rule(n, False, False, pattern, target) for n, pattern in enumerate(patterns))
        for path in b" a/x a a/ b/x ab c/x a/x/ a/x/y a/x/y/ c/x/y a/-x/y/z a/-x/y/ c/ c-d a/b/c/y".split(b" "):
            for match in (match_exactly, match_path):
                found = [rule.ordinal for rule in table.candidates(path) if match(rule.pattern, path) is not None]
                expected = [n for n, pattern in enumerate(patterns) if match(pattern, path) is not None]
                self.assertEqual(found, expected, path)


if __name__ == "__main__":
    unittest.main()
