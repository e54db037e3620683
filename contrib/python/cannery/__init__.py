"""Serves a Cannery archive from a Python program, without the `cannery-server` program.

`Archive` maps an archive, or takes it from memory, and `respond` computes the response to a request. A `Handler` has an archive
that can be replaced. `cannery.wsgi` and `cannery.asgi` adapt them to web servers.
"""

from cannery.archive import Archive
from cannery.errors import ArchiveClosedError, ArchiveError, CorruptArchiveError, UnsupportedArchiveError
from cannery.handler import Handler
from cannery.response import Response
from cannery.site import respond

__all__ = [
    "Archive",
    "ArchiveClosedError",
    "ArchiveError",
    "CorruptArchiveError",
    "Handler",
    "Response",
    "UnsupportedArchiveError",
    "respond",
]
