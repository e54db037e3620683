"""Serves a Cannery archive from a Python program, without the `cannery-server` program.

`Archive` maps an archive, and `respond` computes the response to a request. `cannery.wsgi` and `cannery.asgi` adapt them to web
servers.
"""

from cannery.archive import Archive, Corrupt, Unsupported
from cannery.response import Response
from cannery.site import respond

__all__ = ["Archive", "Corrupt", "Response", "Unsupported", "respond"]
