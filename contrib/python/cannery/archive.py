"""Archive reader: the container and its structures, as `crates/archive/FORMAT.md` specifies them.

No number in the file is trusted. Each is checked before it is used, and a contradiction raises `CorruptArchiveError`.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import Generic, Self, TypeVar

from cannery.errors import ArchiveClosedError, ArchiveError, CorruptArchiveError, UnsupportedArchiveError
from cannery.program import archive_position

VERSION = 4
FACTS_BYTES = 96
TABLES = 256
PROBES_MAX = 1 << 16
CODINGS = 4

SLASH_REDIRECTS = 1
FORCED_RULES = 2
HOSTS = 4
HEADER_RULES = 16
HOST_HEADER_RULES = 32
FACTS_FLAGS = 63

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})

Field = tuple[bytes, bytes]

_NAME = re.compile(rb"[A-Za-z0-9!#$%&'*+\-.^_`|~]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_ETAG = re.compile(rb"[A-Za-z0-9_-]{16}")


class PieceKind(IntEnum):
    """Kind of a piece of a pattern or a template."""

    LITERAL = 0
    CAPTURE = 1
    SPLAT = 2


class Effect(IntEnum):
    """Effect of a header rule on a field."""

    REMOVE = 0
    JOIN = 1
    REPLACE = 2
    LINE = 3


@dataclass(frozen=True, slots=True)
class Facts:
    """Properties of the archive as a whole."""

    flags: int
    scope_depth_max: int
    path_bytes_max: int
    serial: int
    wildcard_labels_max: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a pattern or a template. `literal` is empty unless it is a literal."""

    kind: PieceKind
    literal: bytes = b""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Representation:
    """Content in one coding. The extent and the head are checked when they are read."""

    coding: int
    etag: bytes
    body_position: int
    body_bytes: int
    head: int


@dataclass(frozen=True, slots=True)
class Resource:
    """Content in one or more codings, smallest first. `is_shown` if it is a listing, or a rule shows it at this path."""

    is_shown: bool
    status: int
    modified: int | None
    representations: tuple[Representation, ...]


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect to another URL."""

    status: int
    has_query: bool
    fragment: bytes
    target: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Another path of the same site."""

    status: int
    path: tuple[Piece, ...]


Record = Resource | Redirect | Rewrite


@dataclass(frozen=True, slots=True)
class Head:
    """The fields of a response head, in the runs of the format."""

    status: int
    sends_etag: bool
    content_type: tuple[Field, ...]
    representation: tuple[Field, ...]
    resource: tuple[Field, ...]

    def fields(self) -> tuple[Field, ...]:
        """Returns all fields."""
        return self.content_type + self.representation + self.resource

    @property
    def is_immutable(self) -> bool:
        """`True` for a file that clients keep without asking again."""
        values = [value for name, value in self.resource if name.lower() == b"cache-control"]
        return any(part.strip().lower() == b"immutable" for value in values for part in value.split(b","))

    @property
    def caching_elsewhere(self) -> bytes:
        """The `Cache-Control` of an immutable file under another path, which isn't fingerprinted."""
        media_types = [value.partition(b";")[0].strip().lower() for _, value in self.content_type]
        is_data = any(text.endswith((b"json", b"application/xml")) for text in media_types)
        return b"public, no-cache" if is_data else b"public, max-age=3600"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of `_redirects` with a pattern."""

    ordinal: int
    force: bool
    pages_only: bool
    pattern: tuple[Piece, ...]
    record: Record


@dataclass(frozen=True, slots=True)
class HeaderField:
    """A change of one field by a header rule."""

    effect: Effect
    overrides: int
    name: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """A rule of `_headers`. An empty host stands for all hosts."""

    ordinal: int
    host: bytes
    pattern: tuple[Piece, ...]
    fields: tuple[HeaderField, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """The pages and rules of a directory."""

    own_site: bool
    fallbacks: tuple[tuple[bytes, Record], ...]
    error_pages: tuple[tuple[int, Record], ...]
    rules: RuleTable[Rule]
    header_rules: RuleTable[HeaderRule]


AnyRule = TypeVar("AnyRule", Rule, HeaderRule)


class RuleTable(Generic[AnyRule]):
    """Rules in their order, found by a segment of a path."""

    __slots__ = ("_anywhere", "_by_segment", "_rules", "_segments")

    def __init__(self, rules: Iterable[AnyRule]) -> None:
        self._rules: list[AnyRule] = sorted(rules, key=lambda rule: rule.ordinal)
        # The numbers of the rules that need a segment at a position. Each rule is listed for the rarest of its segments.
        self._by_segment: dict[tuple[int, bytes], list[int]] = {}
        # The number of segments at the start of a path that rules are listed for.
        self._segments = 0
        # The numbers of the rules without a literal segment.
        self._anywhere: list[int] = []
        segments_of = [_literal_segments(rule.pattern) for rule in self._rules]
        counts = Counter(segment for segments in segments_of for segment in segments)
        for number, segments in enumerate(segments_of):
            if segments:
                rarest = min(segments, key=lambda segment: counts[segment])
                self._by_segment.setdefault(rarest, []).append(number)
                self._segments = max(self._segments, rarest[0] + 1)
            else:
                self._anywhere.append(number)

    def candidates(self, path: bytes) -> Iterator[AnyRule]:
        """Yields, in order, the rules that can match a path, which has no leading slash."""
        segments = path.split(b"/", self._segments)[: self._segments]
        numbers = [number for segment in enumerate(segments) for number in self._by_segment.get(segment, ())]
        for number in sorted(numbers + self._anywhere) if numbers else self._anywhere:
            yield self._rules[number]


class Cursor:
    """Reads the fields of a structure in order. A field beyond its end raises `CorruptArchiveError`."""

    __slots__ = ("_quantity_bytes", "_view")

    def __init__(self, view: memoryview, quantity_bytes: int) -> None:
        self._view = view
        self._quantity_bytes = quantity_bytes

    def __bool__(self) -> bool:
        return len(self._view) > 0

    def take(self, length: int) -> memoryview:
        """Returns the next `length` bytes."""
        if length > len(self._view):
            raise CorruptArchiveError("a structure ends early")
        taken = self._view[:length]
        self._view = self._view[length:]
        return taken

    def raw(self, length: int) -> bytes:
        """Returns a copy of the next `length` bytes, which are few."""
        return bytes(self.take(length))

    def number(self, size: int) -> int:
        """Reads a number of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def quantity(self) -> int:
        """Reads a number of the width of the container."""
        return self.number(self._quantity_bytes)

    def part(self, length: int) -> Cursor:
        """Returns a cursor over the next `length` bytes."""
        return Cursor(self.take(length), self._quantity_bytes)


class Archive:
    """An archive that is mapped into memory, or is in memory anyway. Safe to use from several threads.

    The digest isn't checked: run `cannery verify` for that. The file must not change while it is mapped. `cannery-archiver`
    replaces archives by renaming, so a new archive at the same path doesn't affect an open one.

    A file or content may also be a program that an archive follows, as `cannery bundle` makes it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Maps the archive at `path`.

        Raises `UnsupportedArchiveError` if the file isn't an archive of this version, `CorruptArchiveError` if it was truncated,
        and `OSError` if it can't be read.
        """
        # Opening a FIFO must not block.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
                raise UnsupportedArchiveError(f"{os.fspath(path)!r} is not an archive")
            file = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
        try:
            self._open(memoryview(file), file)
        except ArchiveError as error:
            self._dispose()
            raise type(error)(f"{os.fspath(path)!r}: {error}") from None

    @classmethod
    def from_bytes(cls, content: bytes | bytearray | memoryview | mmap.mmap) -> Self:
        """Returns the archive in `content`, which isn't copied and must not change afterwards.

        For example, `importlib.resources` returns the content of a file in a package. Raises the errors of the constructor, except
        for `OSError`.
        """
        archive = cls.__new__(cls)
        archive._open(memoryview(content).cast("B").toreadonly(), None)
        return archive

    def _open(self, view: memoryview, file: mmap.mmap | None) -> None:
        # An element for each use. No lock guards it, because a signal handler may close the archive at any point of another use,
        # which would wait for ever. A use is added before it reads `_is_closed`, which is set before uses are counted.
        self._uses: list[None] = []
        self._is_closed = False
        self._file = file
        self._scopes: dict[bytes, Scope] = {}
        self._view: memoryview | None = view
        self._view = view[archive_position(view) :]
        self._quantity_bytes, data = self._first_record()
        self.facts = self._decode_facts(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the archive after the responses that are being computed. It doesn't wait for them.

        Later requests raise `ArchiveClosedError`. The mapping goes away together with the last response that has a part of it.
        Closing again has no effect.
        """
        self._is_closed = True
        if not self._uses:
            self._dispose()

    def acquire(self) -> Self:
        """Returns the archive, which then stays open until `release`. Raises `ArchiveClosedError` if it is closed."""
        self._uses.append(None)
        if self._is_closed:
            self.release()
            raise ArchiveClosedError
        return self

    def release(self) -> None:
        """Undoes `acquire`."""
        self._uses.pop()
        if self._is_closed and not self._uses:
            self._dispose()

    def _dispose(self) -> None:
        self._view = None
        self._scopes = {}
        if self._file is not None:
            try:
                self._file.close()
            except BufferError:
                # A body is still in use.
                pass

    def path(self, host: bytes | None, path: bytes) -> Record | None:
        """Returns the record of a path on a host, or on the default site if `host` is `None`.

        A host is in lower case; one that starts with `.` stands for the hosts below it.
        """
        if len(path) > self.facts.path_bytes_max:
            return None
        data = self._find(_host_prefix(host) + path)
        return None if data is None else self._decode_record(self._cursor(data))

    def scopes(self, host: bytes | None, path: bytes) -> Iterator[Scope]:
        """Yields the scopes that contain a path, from the root down."""
        end = 0
        for _ in range(self.facts.scope_depth_max + 1):
            end = path.find(b"/", end) + 1
            if end == 0:
                return
            scope = self._scope(_host_prefix(host) + path[:end] + b"/")
            if scope is not None:
                yield scope

    def root(self, host: bytes | None) -> Scope | None:
        """Returns the scope at the root of a site."""
        return next(self.scopes(host, b"/"), None)

    def head(self, position: int) -> Head:
        """Decodes the head whose record is at `position`."""
        key, data = self._record(position)
        if bytes(key[:1]) != b"H":
            raise CorruptArchiveError("a position is not that of a head")
        return self._decode_head(data)

    def plain_head(self, position: int) -> Head:
        """Decodes the same head without the fields that `_headers` added to it."""
        key, data = self._record(position)
        if len(key) != 5 or bytes(key[:1]) != b"H":
            raise CorruptArchiveError("a position is not that of a head")
        plain = self._find(b"h" + bytes(key[1:]))
        return self._decode_head(data) if plain is None else self.head(self._cursor(plain).quantity())

    def body(self, representation: Representation) -> memoryview:
        """Returns the body of a representation, without copying it."""
        return self._slice(representation.body_position, representation.body_bytes)

    # The container.

    def _slice(self, position: int, length: int) -> memoryview:
        view = self._view
        if view is None:
            raise ArchiveClosedError
        if position + length > len(view):
            raise CorruptArchiveError("an extent ends after the file")
        return view[position : position + length]

    def _cursor(self, view: memoryview) -> Cursor:
        return Cursor(view, self._quantity_bytes)

    def _record(self, position: int) -> tuple[memoryview, memoryview]:
        width = self._quantity_bytes
        lengths = self._cursor(self._slice(position, 2 * width))
        key_bytes = lengths.quantity()
        data_bytes = lengths.quantity()
        key = self._slice(position + 2 * width, key_bytes)
        return key, self._slice(position + 2 * width + key_bytes, data_bytes)

    def _first_record(self) -> tuple[int, memoryview]:
        for width in (4, 8):
            self._quantity_bytes = width
            try:
                key, data = self._record(TABLES * 2 * width)
            except CorruptArchiveError:
                continue
            if bytes(key[:8]) == b"cannery" and len(data) == FACTS_BYTES:
                return width, data
        raise UnsupportedArchiveError("the file is not an archive")

    def _decode_facts(self, data: memoryview) -> Facts:
        cursor = self._cursor(data)
        if cursor.raw(4) != b"CANR":
            raise UnsupportedArchiveError("the file is not an archive")
        version = cursor.number(4)
        if version != VERSION:
            raise UnsupportedArchiveError(f"the archive has version {version} instead of {VERSION}")
        flags = cursor.number(4)
        scope_depth_max = cursor.number(2)
        path_bytes_max = cursor.number(2)
        cursor.take(24)
        file_bytes = cursor.number(8)
        serial = cursor.number(8)
        wildcard_labels_max = cursor.number(2)
        if flags & ~FACTS_FLAGS:
            raise CorruptArchiveError("the facts have unknown flags")
        archive_bytes = 0 if self._view is None else len(self._view)
        if file_bytes != archive_bytes:
            raise CorruptArchiveError(f"the archive has {archive_bytes} bytes instead of {file_bytes}")
        return Facts(flags, scope_depth_max, path_bytes_max, serial, wildcard_labels_max)

    def _find(self, key: bytes) -> memoryview | None:
        """Returns the data of the record with this key, or `None` if there is none."""
        width = self._quantity_bytes
        mask = (1 << 8 * width) - 1
        hashed = 5381
        for byte in key:
            hashed = hashed * 33 & mask ^ byte

        reference = self._cursor(self._slice(hashed % TABLES * 2 * width, 2 * width))
        position = reference.quantity()
        slots = reference.quantity()
        table = self._slice(position, slots * 2 * width)
        if slots == 0:
            return None

        first = (hashed >> 8) % slots
        for probe in range(min(slots, PROBES_MAX)):
            slot = (first + probe) % slots * 2 * width
            slot_cursor = self._cursor(table[slot : slot + 2 * width])
            slot_hash = slot_cursor.quantity()
            record = slot_cursor.quantity()
            if record == 0:
                return None
            if slot_hash == hashed:
                found, data = self._record(record)
                if found == key:
                    return data
        return None

    # Structures.

    def _decode_record(self, cursor: Cursor) -> Record:
        kind = cursor.number(1)
        match kind:
            case 1 | 4:
                origin = cursor.number(1)
                status = _content_status(cursor.number(2))
                count = cursor.number(1)
                modified = cursor.number(8) if kind == 4 else None
                if origin > 4:
                    raise CorruptArchiveError("a path record has an unknown origin")
                representations = tuple(self._decode_representation(cursor) for _ in range(count))
                return Resource(origin in (2, 3), status, modified, representations)
            case 2:
                flags = cursor.number(1)
                status = cursor.number(2)
                fragment = cursor.raw(cursor.number(2))
                if status not in REDIRECT_STATUSES:
                    raise CorruptArchiveError("a redirect has another status code")
                return Redirect(status, flags & 1 != 0, fragment, _decode_pieces(cursor))
            case 3:
                status = _content_status(cursor.number(2))
                return Rewrite(status, _decode_pieces(cursor))
        raise CorruptArchiveError("a path record has an unknown kind")

    def _decode_representation(self, cursor: Cursor) -> Representation:
        coding = cursor.number(1)
        etag = cursor.raw(16)
        if coding >= CODINGS or not _ETAG.fullmatch(etag):
            raise CorruptArchiveError("a representation has an unknown coding or entity tag")
        return Representation(coding, etag, cursor.quantity(), cursor.quantity(), cursor.quantity())

    def _decode_head(self, data: memoryview) -> Head:
        cursor = self._cursor(data)
        status = cursor.number(2)
        flags = cursor.number(1)
        cursor.take(1)
        if flags > 1:
            raise CorruptArchiveError("a head has unknown flags")
        lengths = [cursor.number(2) for _ in range(4)]
        cursor.take(lengths[0])
        runs = [_decode_lines(cursor.raw(length)) for length in lengths[1:]]
        return Head(status, flags & 1 != 0, *runs)

    def _scope(self, key: bytes) -> Scope | None:
        # Only scopes that exist are kept, so the archive bounds the memory that requests can take.
        scope = self._scopes.get(key)
        if scope is None:
            data = self._find(key)
            if data is None:
                return None
            scope = self._scopes[key] = self._decode_scope(self._cursor(data))
        return scope

    def _decode_scope(self, cursor: Cursor) -> Scope:
        flags = cursor.number(1)
        if flags > 1:
            raise CorruptArchiveError("a scope has unknown flags")
        pages_bytes = cursor.number(4)
        indexes_bytes = cursor.number(4)
        pages = cursor.part(pages_bytes)
        # The indexes only make the search for a rule faster.
        cursor.take(indexes_bytes)

        fallbacks = []
        error_pages = []
        for kind, entry in _decode_entries(pages):
            if kind == 1:
                suffix = entry.raw(entry.number(1))
                fallbacks.append((suffix, self._decode_record(entry)))
            elif kind == 2:
                error_status = entry.number(2)
                error_pages.append((error_status, self._decode_record(entry)))
            else:
                raise CorruptArchiveError("the pages of a scope have an entry of another kind")

        rules = []
        header_rules = []
        for kind, entry in _decode_entries(cursor):
            if kind == 3:
                rules.append(self._decode_rule(entry))
            elif kind == 4:
                header_rules.append(_decode_header_rule(entry))
            else:
                raise CorruptArchiveError("the rules of a scope have an entry of another kind")
        tables = RuleTable(rules), RuleTable(header_rules)
        return Scope(flags & 1 != 0, tuple(fallbacks), tuple(error_pages), *tables)

    def _decode_rule(self, entry: Cursor) -> Rule:
        ordinal = entry.number(4)
        flags = entry.number(1)
        pattern = _decode_pieces(entry.part(entry.number(2)))
        return Rule(ordinal, flags & 1 != 0, flags & 2 != 0, pattern, self._decode_record(entry))


def _literal_segments(pattern: Sequence[Piece]) -> list[tuple[int, bytes]]:
    """Returns the segments that all paths have that a pattern matches, each with the number of segments before it."""
    segments: list[tuple[int, bytes]] = []
    position, text, is_literal = 0, b"", bool(pattern)
    for piece in pattern:
        if piece.kind == PieceKind.SPLAT:
            return segments
        if piece.kind == PieceKind.CAPTURE:
            # It never contains a slash.
            is_literal = False
            continue
        first, *others = piece.literal.split(b"/")
        text += first
        for part in others:
            if is_literal:
                segments.append((position, text))
            position, text, is_literal = position + 1, part, True
    if is_literal:
        segments.append((position, text))
    return segments


def _host_prefix(host: bytes | None) -> bytes:
    """Returns the part of a key before the path."""
    if host is None:
        return b""
    return b"//*" + host if host.startswith(b".") else b"//" + host


def _content_status(status: int) -> int:
    if status != 200 and not 400 <= status <= 599:
        raise CorruptArchiveError("a status code is not one of a response with content")
    return status


def _check_field(name: bytes, value: bytes) -> Field:
    """Returns a field, or raises `CorruptArchiveError` if it could split a response."""
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise CorruptArchiveError("a field is malformed")
    return name, value


def _decode_lines(run: bytes) -> tuple[Field, ...]:
    if not run:
        return ()
    lines = run.split(b"\r\n")
    if lines.pop() != b"":
        raise CorruptArchiveError("a field line has no end")
    fields = []
    for line in lines:
        name, colon, value = line.partition(b": ")
        if not colon:
            raise CorruptArchiveError("a field line has no colon")
        fields.append(_check_field(name, value))
    return tuple(fields)


def _decode_entries(cursor: Cursor) -> Iterator[tuple[int, Cursor]]:
    while cursor:
        kind = cursor.number(1)
        yield kind, cursor.part(cursor.number(4))


def _decode_pieces(cursor: Cursor) -> tuple[Piece, ...]:
    pieces = []
    while cursor:
        kind = cursor.number(1)
        if kind == PieceKind.LITERAL:
            pieces.append(Piece(PieceKind.LITERAL, cursor.raw(cursor.number(2))))
        elif kind in (PieceKind.CAPTURE, PieceKind.SPLAT):
            pieces.append(Piece(PieceKind(kind), number=cursor.number(1)))
        else:
            raise CorruptArchiveError("a piece has an unknown kind")
    return tuple(pieces)


def _decode_header_rule(entry: Cursor) -> HeaderRule:
    ordinal = entry.number(4)
    host = entry.raw(entry.number(1))
    pattern = _decode_pieces(entry.part(entry.number(2)))
    fields = []
    while entry:
        effect = entry.number(1)
        overrides = entry.number(1)
        name_bytes = entry.number(1)
        value_bytes = entry.number(2)
        if effect > Effect.LINE:
            raise CorruptArchiveError("a header rule has an unknown effect")
        name, value = _check_field(entry.raw(name_bytes), entry.raw(value_bytes))
        fields.append(HeaderField(Effect(effect), overrides, name, value))
    return HeaderRule(ordinal, host, pattern, tuple(fields))
