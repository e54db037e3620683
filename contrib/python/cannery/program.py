"""Archives in programs: one file with a program and the archive that follows it."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.errors import CorruptArchiveError, UnsupportedArchiveError

PAGE_BYTES = 4096
ARCHIVE_BYTES_MIN = 2048

_HEADER_BYTES = 64
_NO_BITS = 8


@dataclass(frozen=True, slots=True)
class _Table:
    """Offsets of the fields of a table of segments or sections."""

    # In the file header. The number of bytes of an entry is in the two bytes before the number of entries.
    offset: int
    count: int
    entry_bytes: int
    # In an entry.
    part_offset: int
    part_bytes: int
    has_types: bool


# By the class of the file in elf(5): the number of bytes of an offset or a length, segments, sections.
_LAYOUTS = {
    1: (4, (_Table(28, 44, 32, 4, 16, False), _Table(32, 48, 40, 16, 20, True))),
    2: (8, (_Table(32, 56, 56, 8, 32, False), _Table(40, 60, 64, 24, 32, True))),
}


def archive_position(file: memoryview) -> int:
    """Returns the position of the archive in a file: 0, or after a program."""
    program = program_bytes(file)
    if program is None:
        return 0
    if len(file) <= program:
        raise UnsupportedArchiveError("this is a program without an archive")
    position = program + -program % PAGE_BYTES
    if len(file) - position < ARCHIVE_BYTES_MIN:
        raise CorruptArchiveError("the archive in this program was truncated")
    return position


def program_bytes(file: memoryview) -> int | None:
    """Returns the length of the program at the start of a file, or `None` if there is none.

    As in `cannery-server`, only ELF executables for little-endian machines are recognized.
    """
    if len(file) < _HEADER_BYTES or bytes(file[:4]) != b"\x7fELF" or file[5] != 1 or file[4] not in _LAYOUTS:
        return None
    word_bytes, tables = _LAYOUTS[file[4]]

    def number(view: memoryview, at: int, size: int) -> int:
        return int.from_bytes(view[at : at + size], "little")

    end = _HEADER_BYTES
    for table in tables:
        count = number(file, table.count, 2)
        if count == 0:
            continue
        if number(file, table.count - 2, 2) != table.entry_bytes:
            return None
        start = number(file, table.offset, word_bytes)
        table_end = start + count * table.entry_bytes
        end = max(end, table_end)
        # In a truncated file, the table may be missing.
        for at in range(start, table_end, table.entry_bytes) if table_end <= len(file) else ():
            entry = file[at : at + table.entry_bytes]
            if not (table.has_types and number(entry, 4, 4) == _NO_BITS):
                end = max(
                    end, number(entry, table.part_offset, word_bytes) + number(entry, table.part_bytes, word_bytes)
                )
    return end
