"""Archive writer for tests: only what they need of `crates/archive/FORMAT.md`, without digests, indexes and compressed heads."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

IDENTITY, GZIP = 0, 1
SPLAT = b"\x02\x00"
PADDING = bytes(16)


def u16(number: int) -> bytes:
    return struct.pack("<H", number)


def u32(number: int) -> bytes:
    return struct.pack("<I", number)


def literal(text: bytes) -> bytes:
    return b"\x00" + u16(len(text)) + text


def redirect(status: int, target: bytes) -> bytes:
    return b"\x02\x00" + u16(status) + u16(0) + target


def rewrite(status: int, path: bytes) -> bytes:
    return b"\x03" + u16(status) + path


def entry(kind: int, content: bytes) -> bytes:
    return bytes([kind]) + u32(len(content)) + content


def fallback(suffix: bytes, record: bytes) -> bytes:
    return entry(1, bytes([len(suffix)]) + suffix + record)


def error_page(status: int, record: bytes) -> bytes:
    return entry(2, u16(status) + record)


def rule(ordinal: int, flags: int, pattern: bytes, record: bytes) -> bytes:
    return entry(3, u32(ordinal) + bytes([flags]) + u16(len(pattern)) + pattern + record)


def header_rule(ordinal: int, host: bytes, pattern: bytes, fields: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    changes = b"".join(bytes([effect, 0, len(name)]) + u16(len(value)) + name + value for effect, name, value in fields)
    return entry(4, u32(ordinal) + bytes([len(host)]) + host + u16(len(pattern)) + pattern + changes)


def scope(pages: bytes = b"", rules: bytes = b"", own_site: bool = False) -> bytes:
    return bytes([own_site]) + u32(len(pages)) + u32(0) + pages + rules


class Writer:
    """Collects the records of an archive, in the 32-bit or the 64-bit format."""

    def __init__(self, flags: int = 0, wide: bool = False) -> None:
        self._flags = flags
        self._width = 8 if wide else 4
        self._start = 512 * self._width
        self._records = bytearray()
        self._slots: list[list[tuple[int, int]]] = [[] for _ in range(256)]
        self._heads = 0
        self.record(b"cannery", bytes(96))

    def quantity(self, number: int) -> bytes:
        return number.to_bytes(self._width, "little")

    def record(self, key: bytes, data: bytes) -> int:
        """Adds a record, and returns its position."""
        position = self._start + len(self._records)
        self._records += self.quantity(len(key)) + self.quantity(len(data)) + key + data
        hashed = 5381
        for byte in key:
            hashed = (hashed * 33 ^ byte) & ((1 << 8 * self._width) - 1)
        self._slots[hashed % 256].append((hashed, position))
        return position

    def head(self, content_type: bytes, coding: int = IDENTITY, caching: bytes = b"no-cache", status: int = 200) -> int:
        """Adds a head, and returns its position."""
        runs = [
            b"HTTP/1.1 %d X\r\n" % status,
            b"Content-Type: %s\r\n" % content_type,
            b"Content-Encoding: gzip\r\n" if coding else b"",
            b"Cache-Control: %s\r\nVary: Accept-Encoding\r\nAccept-Ranges: bytes\r\n" % caching,
        ]
        lengths = b"".join(u16(len(run)) for run in runs)
        self._heads += 1
        return self.record(b"H" + u32(self._heads), u16(status) + b"\x01\x00" + lengths + b"".join(runs))

    def resource(self, content: bytes, head: int, gzip_head: int | None = None, status: int = 200) -> bytes:
        """Adds the bodies of a resource, and returns its path record."""
        contents = [(IDENTITY, content, head)]
        if gzip_head is not None:
            contents.insert(0, (GZIP, zlib.compress(content, wbits=31), gzip_head))
        representations = b""
        for coding, body, position in contents:
            key = b"B" + b"%032d" % len(self._records)
            start = self.record(key, body) + 2 * self._width + len(key)
            etag = b"etag%012d" % zlib.crc32(body)
            representations += bytes([coding]) + etag + b"".join(map(self.quantity, (start, len(body), position)))
        return b"\x01\x00" + u16(status) + bytes([len(contents)]) + representations

    def finish(self) -> bytearray:
        """Returns the file."""
        header = b""
        tables = b""
        tables_start = self._start + len(self._records)
        for slots in self._slots:
            header += self.quantity(tables_start + len(tables)) + self.quantity(2 * len(slots))
            table = [(0, 0)] * (2 * len(slots))
            for hashed, position in slots:
                at = (hashed >> 8) % len(table)
                while table[at][1]:
                    at = (at + 1) % len(table)
                table[at] = hashed, position
            tables += b"".join(self.quantity(hashed) + self.quantity(position) for hashed, position in table)
        file = bytearray(header + self._records + tables)
        facts = struct.pack("<4sIIHHQQQQQH", b"CANR", 4, self._flags, 8, 100, 0, 0, 0, len(file), 7, 2)
        data_start = self._start + 2 * self._width + len(b"cannery")
        file[data_start : data_start + len(facts)] = facts
        return file


def sample(wide: bool = False) -> bytearray:
    """Returns an archive with records of each kind."""
    # Slash redirects, forced rules, hosts, header rules.
    writer = Writer(1 | 2 | 4 | 8 | 16 | 32, wide)
    html = writer.head(b"text/html; charset=utf-8")
    html_gzip = writer.head(b"text/html; charset=utf-8", GZIP)
    plain = writer.head(b"text/plain")
    missing = writer.head(b"text/html", caching=b"no-store", status=404)
    writer.record(b"h" + u32(1), writer.quantity(html))
    index = writer.resource(b"<title>index</title>" * 200, html, html_gzip)
    writer.record(b"/", index)
    writer.record(b"/index.html", index)
    writer.record(b"/a/", index)
    writer.record(b"/ten", writer.resource(b"0123456789" * 100, plain))
    writer.record(b"/moved", redirect(301, literal(b"/ten")))
    writer.record(b"/copy", rewrite(200, literal(b"/ten")))
    page_404 = writer.resource(b"<title>404</title>", missing, status=404)
    rules = rule(0, 1, literal(b"forced/") + SPLAT, redirect(302, literal(b"/") + b"\x01\x00"))
    rules += rule(1, 2, literal(b"blog/") + b"\x01\x00" + literal(b"/") + b"\x02\x01", rewrite(200, literal(b"/ten")))
    rules += header_rule(0, b"", SPLAT, [(2, b"X-All", b"yes"), (1, b"Link", b"a"), (1, b"Link", b"b")])
    rules += header_rule(1, b"*.host", SPLAT, [(3, b"X-Host", b"yes")])
    writer.record(b"//", scope(error_page(404, page_404), rules))
    writer.record(b"/app//", scope(fallback(b"html", index) + fallback(b"png", index)))
    writer.record(b"//own.host//", scope(own_site=True))
    writer.record(b"//own.host/", writer.resource(b"own", plain))
    writer.record(b"//*.host//", scope())
    writer.record(b"//*.host/only", writer.resource(b"wildcard", plain))
    writer.record(b"manifest", b"{}")
    return writer.finish()


def write_sample(path: Path, wide: bool = False) -> None:
    path.write_bytes(sample(wide))
