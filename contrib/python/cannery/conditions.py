"""Requests: content negotiation, conditions and ranges (RFC 9110 §12.5.3, §13, §14)."""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cannery.archive import Representation

RANGES_MAX = 8
LINES_MAX = 4
NUMBER_MAX = (1 << 64) - 1

_WHITE_SPACE = b" \t\r\n\x0c"
_CODINGS = {b"identity": 0, b"gzip": 1, b"x-gzip": 1, b"br": 2, b"zstd": 3}
_WEIGHT = re.compile(rb"[qQ]=(?:0(?:\.([0-9]{0,3}))?|(1)(?:\.0{0,3})?)")
_TAG = re.compile(rb'[ \t,]*(W/)?"([^"]*)"')
_RANGE = re.compile(rb"([0-9]*)-([0-9]*)")

_MONTHS = [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"]
_DAY = rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_LONG_DAY = rb"(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
_TIME = rb"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_MONTH = rb"(?P<month>[A-Z][a-z]{2})"
_DATES = [
    re.compile(_DAY + rb", (?P<day>[0-9]{2}) " + _MONTH + rb" (?P<year>[0-9]{4}) " + _TIME + rb" GMT"),
    re.compile(_LONG_DAY + rb", (?P<day>[0-9]{2})-" + _MONTH + rb"-(?P<year>[0-9]{2}) " + _TIME + rb" GMT"),
    re.compile(_DAY + rb" " + _MONTH + rb" (?P<day>[ 0-9][0-9]) " + _TIME + rb" (?P<year>[0-9]{4})"),
]


class TooManyLines(Exception):
    """A list-based field has more lines than the server accepts."""


@dataclass(slots=True)
class Conditions:
    """The fields of a request that select and change the representation, each with the values of its lines."""

    values: dict[bytes, list[bytes]] = field(default_factory=dict)

    LISTS = frozenset({b"accept-encoding", b"if-match", b"if-none-match"})
    SINGLE = frozenset({b"if-modified-since", b"if-unmodified-since", b"if-range", b"range"})
    INTENT = frozenset({b"accept", b"sec-fetch-dest"})

    def add(self, name: bytes, value: bytes) -> None:
        """Adds a field line with a name in lower case, and ignores fields that don't change the response.

        Raises `TooManyLines` if a list has too many lines.
        """
        if name in self.LISTS or name in self.SINGLE or name in self.INTENT:
            lines = self.values.setdefault(name, [])
            lines.append(value)
            if name in self.LISTS and len(lines) > LINES_MAX:
                raise TooManyLines

    def lines(self, name: bytes) -> list[bytes] | None:
        """Returns the lines of a field, or `None` if it is absent."""
        return self.values.get(name)

    def single(self, name: bytes) -> bytes | None:
        """Returns the value of a field that isn't a list, or `None` if it doesn't have exactly one line."""
        lines = self.values.get(name, [])
        return lines[0] if len(lines) == 1 else None


@dataclass(frozen=True, slots=True)
class Validators:
    """The validators of a representation, as far as they are sent."""

    etag: bytes | None = None
    modified: int | None = None


def choose(representations: Iterable[Representation], accept_encoding: Sequence[bytes] | None) -> Representation | None:
    """Chooses the representation with the highest weight, and the smallest among equals.

    Returns `None` if the client accepts none and there is no identity representation.
    """
    weights = _weights(accept_encoding)
    best = None
    identity = None
    best_weight = 0
    for representation in representations:
        if representation.coding == 0:
            identity = representation
        if weights[representation.coding] > best_weight:
            best_weight = weights[representation.coding]
            best = representation
    return best or identity


def _weights(lines: Sequence[bytes] | None) -> list[int]:
    """Returns the weight of each coding, in units of half a thousandth. Weight 1 is acceptable but not listed."""
    if lines is None:
        return [2000, 1, 1, 1]
    listed: dict[int, int] = {}
    others = None
    for element in b",".join(lines).split(b","):
        name, *parameters = (part.strip(_WHITE_SPACE) for part in element.split(b";"))
        weight = _weight(parameters)
        coding = _CODINGS.get(name.lower())
        if weight is None:
            continue
        if name == b"*":
            others = weight if others is None else others
        elif coding is not None:
            listed.setdefault(coding, weight)
    unlisted = [1, 0, 0, 0] if others is None else [others] * 4
    return [listed.get(coding, unlisted[coding]) for coding in range(4)]


def _weight(parameters: Sequence[bytes]) -> int | None:
    """Returns the weight of an element, or `None` if it is malformed."""
    weight = 2000
    for parameter in parameters:
        match = _WEIGHT.fullmatch(parameter)
        if match is None:
            return None
        weight = 2000 if match[2] else 2 * int((match[1] or b"").ljust(3, b"0"))
    return weight


def evaluate(conditions: Conditions, current: Validators, now: int) -> int | None:
    """Evaluates the conditions. Returns 304, 412, or `None` if the representation is sent."""
    if_match = conditions.lines(b"if-match")
    unmodified_since = parse_date(conditions.single(b"if-unmodified-since"), now)
    if if_match is not None:
        tags = [tag for line in if_match for weak, tag in _tags(line) if not weak]
        if not _has_asterisk(if_match) and current.etag not in tags:
            return 412
    elif unmodified_since is not None and current.modified is not None and current.modified > unmodified_since:
        return 412

    if_none_match = conditions.lines(b"if-none-match")
    modified_since = parse_date(conditions.single(b"if-modified-since"), now)
    if if_none_match is not None:
        tags = [tag for line in if_none_match for _, tag in _tags(line)]
        if _has_asterisk(if_none_match) or current.etag in tags:
            return 304
    elif modified_since is not None and current.modified is not None and current.modified <= modified_since:
        return 304
    return None


def _has_asterisk(lines: Sequence[bytes]) -> bool:
    return any(line.strip(_WHITE_SPACE) == b"*" for line in lines)


def _tags(line: bytes) -> Iterable[tuple[bool, bytes]]:
    """Yields the tags of a list up to the first syntax error, each with `True` if it is weak."""
    position = 0
    while match := _TAG.match(line, position):
        yield match[1] is not None, match[2]
        position = match.end()


def range_applies(conditions: Conditions, current: Validators, now: int) -> bool:
    """Returns `True` if `If-Range` is absent or matches the representation."""
    if conditions.lines(b"if-range") is None:
        return True
    value = conditions.single(b"if-range")
    if value is None:
        return False
    if len(value) >= 2 and value.startswith(b'"') and value.endswith(b'"'):
        return current.etag is not None and value[1:-1] == current.etag
    # A date is strong only if the file can't change again within that second.
    modified = current.modified
    return modified is not None and modified < now and parse_date(value, now) == modified


def parse_ranges(value: bytes, length: int) -> list[tuple[int, int]] | None:
    """Parses `Range` for a representation of `length` bytes, as pairs of start and end.

    Returns `None` if the field is ignored, and an empty list if no range is satisfiable.
    """
    unit, equals, ranges = value.partition(b"=")
    if not equals or unit.lower() != b"bytes" or (length == 0 and ranges.startswith(b"-")):
        return None
    parts: list[tuple[int, int]] = []
    is_empty = True
    is_overflow = False
    for element in ranges.split(b","):
        element = element.strip(_WHITE_SPACE)
        if not element:
            continue
        is_empty = False
        match = _RANGE.fullmatch(element)
        if match is None or element == b"-":
            return None
        if not match[1]:
            start, end = max(0, length - _number(match[2])), length
        elif not match[2]:
            start, end = _number(match[1]), length
        else:
            start, last = _number(match[1]), _number(match[2])
            if start > last:
                return None
            end = min(last + 1, length)
        if start < end:
            is_overflow |= not _add_part(parts, (start, end))
    return None if is_empty or is_overflow else parts


def _number(digits: bytes) -> int:
    """Parses a number, which saturates."""
    digits = digits.lstrip(b"0")
    return min(int(digits or b"0"), NUMBER_MAX) if len(digits) <= 20 else NUMBER_MAX


def _add_part(parts: list[tuple[int, int]], part: tuple[int, int]) -> bool:
    """Adds a part, and merges it with overlapping and adjacent ones. Returns `False` if there are too many."""
    index = len(parts)
    for other_index in reversed(range(len(parts))):
        other = parts[other_index]
        if part[0] <= other[1] and other[0] <= part[1]:
            part = min(part[0], other[0]), max(part[1], other[1])
            if index < len(parts):
                del parts[index]
            index = other_index
    if index < len(parts):
        parts[index] = part
    elif len(parts) < RANGES_MAX:
        parts.append(part)
    else:
        return False
    return True


def parse_date(value: bytes | None, now: int) -> int | None:
    """Parses a date in one of the three formats of RFC 9110 §5.6.7, as seconds since 1970.

    Returns `None` if the field is absent or malformed, because it is ignored then.
    """
    if value is None:
        return None
    match = next(filter(None, (pattern.fullmatch(value) for pattern in _DATES)), None)
    if match is None or match["month"] not in _MONTHS:
        return None
    year = int(match["year"])
    if len(match["year"]) == 2:
        # The latest such year that is at most 50 years ahead.
        this_year = datetime.datetime.fromtimestamp(now, datetime.UTC).year
        year += this_year - this_year % 100
        year -= 100 if year > this_year + 50 else 0
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"])
    if year < 1970 or hour > 23 or minute > 59 or second > 60:
        return None
    try:
        day = datetime.date(year, _MONTHS.index(match["month"]) + 1, int(match["day"]))
    except ValueError:
        return None
    return calendar.timegm((day.year, day.month, day.day, hour, minute, min(second, 59)))
