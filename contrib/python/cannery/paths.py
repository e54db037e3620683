"""Request targets and paths: parsing, normal form, percent-encoding."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote_from_bytes, unquote_to_bytes

PATH_BYTES_MAX = 8192

_ABSOLUTE = re.compile(rb"https?://([^/?#]+)(.*)", re.IGNORECASE | re.DOTALL)
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})?")
_HOST = re.compile(rb"(?:[A-Za-z0-9\-._~!$&-,;=]|%[0-9A-Fa-f]{2})*(?::[0-9]*)?")
_LITERAL_HOST = re.compile(rb"\[([^\]]*)\](?::[0-9]*)?")
_FUTURE_ADDRESS = re.compile(rb"[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&-,;=:]+")


@dataclass(frozen=True, slots=True)
class Target:
    """A request target in origin form or absolute form."""

    authority: bytes | None
    path: bytes
    query: bytes | None


def parse_target(target: bytes) -> Target | None:
    """Parses a target. Returns `None` if it has another form, or a fragment."""
    authority = None
    if not target.startswith(b"/"):
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is None:
            return None
        authority, target = absolute.groups()
    path, question_mark, query = target.partition(b"?")
    if b"#" in target:
        return None
    return Target(authority, path or b"/", query if question_mark else None)


def is_host(value: bytes) -> bool:
    """Returns `True` if a value is a host with an optional port (RFC 3986 §3.2.2)."""
    if _HOST.fullmatch(value):
        return True
    literal = _LITERAL_HOST.fullmatch(value)
    if literal is None:
        return False
    if _FUTURE_ADDRESS.fullmatch(literal[1]):
        return True
    try:
        ipaddress.IPv6Address(literal[1].decode("ascii"))
    except ValueError:
        return False
    return b"%" not in literal[1]


def host_name(authority: bytes) -> bytes | None:
    """Returns the host of an authority in lower case, without its port and without a final dot."""
    if authority.startswith(b"["):
        end = authority.find(b"]")
        host = authority[: end + 1]
    else:
        host = authority.partition(b":")[0]
    return host.removesuffix(b".").lower() or None


def normalize(path: bytes) -> bytes | None:
    """Returns the normal form of the path of a target, or `None` if it is malformed."""
    if b"\0" in path or any(escape[1] in (None, b"00") for escape in _ESCAPE.finditer(path)):
        return None

    # An encoded slash is data. The byte 0, which no path contains, represents it.
    def decode(escape: re.Match[bytes]) -> bytes:
        byte = bytes.fromhex(escape[1].decode("ascii"))
        return b"\0" if byte == b"/" else byte

    return join([_ESCAPE.sub(decode, path)])


def join(parts: Iterable[bytes]) -> bytes | None:
    """Joins decoded parts to a path in normal form. Returns `None` if it is too long."""
    kept: list[bytes] = []
    length = 1
    last = b""
    segments = b"".join(parts).split(b"/")
    for number, segment in enumerate(segments):
        last = segment
        # The slash after the segment counts too, unless the segment is the last one.
        if segment and length + len(segment) > PATH_BYTES_MAX:
            return None
        if segment == b"..":
            if kept:
                length -= len(kept.pop()) + 1
        elif segment not in (b"", b"."):
            kept.append(segment)
            length += len(segment) + 1
            if length > PATH_BYTES_MAX and number + 1 < len(segments):
                return None
    path = b"/" + b"/".join(kept)
    ends_with_slash = last in (b"", b".", b"..") and kept
    return path + b"/" if ends_with_slash else path


def percent_encode(path: bytes) -> bytes:
    """Percent-encodes a path, or a part of one, for a URL."""
    encoded = quote_from_bytes(path, safe="-._~!$&'()*+,;=:@/")
    return encoded.replace("%00", "%2F").encode("ascii")


def escape_query(query: bytes) -> bytes:
    """Escapes the bytes that a query must not have. Valid escapes stay."""
    encoded = quote_from_bytes(query, safe="-._~!$&'()*+,;=:@/?%")
    return re.sub(rb"%(?![0-9A-Fa-f]{2})", b"%25", encoded.encode("ascii"))


def below(path: bytes, mount: bytes) -> bytes | None:
    """Returns the part of a percent-encoded path after a mount, or `None` if the path isn't below the mount.

    The mount isn't percent-encoded, and has no slash at its end.
    """
    segments = path.split(b"/", mount.count(b"/") + 1)
    start = b"/".join(segments[: mount.count(b"/") + 1])
    return path[len(start) :] if unquote_to_bytes(start) == mount else None
