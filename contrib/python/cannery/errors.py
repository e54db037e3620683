"""Errors of this package."""

from __future__ import annotations


class ArchiveError(Exception):
    """Base class of the errors of this package."""


class CorruptArchiveError(ArchiveError):
    """The file contradicts the format, for example because it was truncated."""


class UnsupportedArchiveError(ArchiveError):
    """The file isn't an archive, or has another version."""


class ArchiveClosedError(ArchiveError):
    """The archive was closed."""

    def __init__(self) -> None:
        super().__init__("the archive is closed")
