"""Rules: patterns, captures, redirect targets, and the combined effect of header rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cannery.archive import Effect, Field, HeaderField, Piece, PieceKind, Redirect
from cannery.errors import CorruptArchiveError
from cannery.paths import escape_query, percent_encode

CAPTURES_MAX = 16
SITE_FIELDS_MAX = 256

_DELIMITERS = {b"&": b"%26", b"=": b"%3D", b"+": b"%2B", b";": b"%3B"}


def match_path(pattern: Sequence[Piece], path: bytes) -> list[bytes] | None:
    """Matches a pattern against a path, or against the path without its final slash. Returns the captures."""
    captures = match_exactly(pattern, path)
    if captures is None and path.endswith(b"/"):
        captures = match_exactly(pattern, path[:-1])
    return captures


def match_exactly(pattern: Sequence[Piece], path: bytes) -> list[bytes] | None:
    """Matches a pattern against exactly this path. Returns the captures, or `None` if it doesn't match."""
    captures: list[bytes] = []
    rest = path
    pieces = iter(pattern)
    for piece in pieces:
        if piece.kind == PieceKind.LITERAL:
            if not rest.startswith(piece.literal):
                return None
            rest = rest[len(piece.literal) :]
            continue
        if piece.kind == PieceKind.CAPTURE:
            run = rest.partition(b"/")[0]
            rest = rest[len(run) :]
            if not run:
                return None
        else:
            # Only a literal can follow a splat.
            tail = next(pieces, Piece(PieceKind.LITERAL))
            if tail.kind != PieceKind.LITERAL or not rest.endswith(tail.literal):
                return None
            run = rest[: len(rest) - len(tail.literal)]
            rest = b""
        if len(captures) == CAPTURES_MAX:
            return None
        captures.append(run)
    return None if rest else captures


def expand(template: Iterable[Piece], captures: Sequence[bytes]) -> list[bytes]:
    """Returns the parts of a template with its captures."""
    return [_part(piece, captures) for piece in template]


def _part(piece: Piece, captures: Sequence[bytes]) -> bytes:
    if piece.kind == PieceKind.LITERAL:
        return piece.literal
    return captures[piece.number] if piece.number < len(captures) else b""


def location(redirect: Redirect, captures: Sequence[bytes], query: bytes | None) -> bytes:
    """Returns the `Location` of a redirect: a target that is a path stays one, and never names another host."""
    target = b""
    in_query = False
    for piece in redirect.target:
        part = _part(piece, captures)
        if piece.kind == PieceKind.LITERAL:
            in_query |= b"?" in part
        else:
            part = percent_encode(part)
            if in_query:
                for delimiter, escape in _DELIMITERS.items():
                    part = part.replace(delimiter, escape)
        target += part.lstrip(b"/\\") if target == b"/" else part
    if query:
        target += (b"&" if redirect.has_query else b"?") + escape_query(query)
    if redirect.fragment:
        target += b"#" + redirect.fragment
    if any(byte <= 0x20 or byte == 0x7F for byte in target):
        raise CorruptArchiveError("a target has a control character")
    return target


def matches_host(rule: bytes, host: bytes | None) -> bool:
    """Returns `True` if the host of a header rule matches the host of a request, which is in lower case."""
    if not rule or host is None:
        return not rule
    rule = rule.lower()
    if rule.startswith(b"*"):
        return len(host) >= len(rule) and host.endswith(rule[1:])
    if rule.startswith(b"["):
        return rule == host
    wanted = rule.split(b".")
    labels = host.split(b".")
    return len(wanted) == len(labels) and all(
        (want.startswith(b":") and label) or want == label for want, label in zip(wanted, labels, strict=True)
    )


def is_representation_field(name: bytes) -> bool:
    """Returns `True` for a field that describes the content that is sent (RFC 9110 §8)."""
    name = name.lower()
    if name in (b"digest", b"repr-digest", b"sourcemap", b"unencoded-digest", b"x-sourcemap"):
        return True
    return name.startswith(b"content-") and not name.startswith(b"content-security-")


def _is_short_lived(value: bytes) -> bool:
    """Returns `True` if a `Cache-Control` value lets no cache reuse a response for more than an hour."""
    for directive in value.lower().split(b","):
        name, has_value, seconds = (part.strip() for part in directive.partition(b"="))
        if not has_value:
            if name == b"immutable":
                return False
        elif name in (b"max-age", b"s-maxage", b"stale-while-revalidate"):
            if len(seconds) >= 2 and seconds[:1] == seconds[-1:] == b'"':
                seconds = seconds[1:-1]
            if not seconds.isdigit() or int(seconds) > 3600:
                return False
    return True


def restricts_caching(field: HeaderField) -> bool:
    """Returns `True` for a caching field of a rule for a file that also says how the file is cached under another path.

    It has the syntax of `Cache-Control`, and lets no cache keep the file for long.
    """
    is_date = field.name.lower() in (b"expires", b"pragma", b"x-accel-expires")
    return field.effect != Effect.REMOVE and not is_date and _is_short_lived(field.value)


@dataclass(slots=True)
class _Line:
    name: bytes
    values: list[bytes]


class SiteFields:
    """The combined effect of the header rules that match a request."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._values = 0
        # The fields of the server that are removed, as bits of *Overrides*.
        self._removed = 0
        self.replaces_content_type = False
        self.replaces_caching = False

    def add(self, field: HeaderField) -> None:
        """Applies one field of a rule, after all earlier rules."""
        self.replaces_content_type |= field.name == b"Content-Type"
        self.replaces_caching |= field.name == b"Cache-Control"
        same = [line for line in self._lines if line.name == field.name]
        if field.effect == Effect.REMOVE:
            self._removed |= field.overrides
            self._lines = [line for line in self._lines if line.name != field.name]
            return
        self._removed &= ~field.overrides
        if same and field.effect == Effect.REPLACE:
            same[0].values = [field.value]
        elif self._values < SITE_FIELDS_MAX:
            self._values += 1
            if same and field.effect == Effect.JOIN:
                same[0].values.append(field.value)
            else:
                self._lines.append(_Line(field.name, [field.value]))

    def set_caching(self, value: bytes) -> None:
        """Replaces the `Cache-Control` of the page."""
        self.replaces_caching = True
        self._lines.append(_Line(b"Cache-Control", [value]))

    @property
    def is_empty(self) -> bool:
        """`True` if the rules change nothing."""
        return not (self._values or self._removed or self.replaces_content_type or self.replaces_caching)

    def lines(self, has_content: bool) -> Iterable[Field]:
        """Yields the fields of a response. One without content of the site has no fields about content."""
        for line in self._lines:
            name = line.name
            is_about_content = name in (b"Cache-Control", b"Expires") or is_representation_field(name)
            if has_content or not is_about_content:
                yield name, b", ".join(line.values)
