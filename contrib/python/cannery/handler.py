"""A handler whose archive can be replaced."""

from __future__ import annotations

from cannery.archive import Archive
from cannery.errors import ArchiveClosedError


class Handler:
    """Serves an archive that can be replaced while requests are answered. Safe to use from several threads and signal handlers.

    No request fails because of a replacement: each is answered from the archive that is current when its answer begins.
    """

    def __init__(self, archive: Archive) -> None:
        # The last one is current. Earlier ones are about to be returned by `swap`: each step of it is atomic, so it needs no lock,
        # which a signal handler could wait for for ever.
        self._archives = [archive]

    @property
    def archive(self) -> Archive:
        """The archive that is served."""
        return self._archives[-1]

    def swap(self, archive: Archive) -> Archive:
        """Serves another archive from now on, and returns the earlier one, which stays open."""
        self._archives.append(archive)
        return self._archives.pop(0)

    def replace(self, archive: Archive) -> None:
        """Serves another archive from now on, and closes the earlier one."""
        previous = self.swap(archive)
        if previous is not archive:
            previous.close()

    def acquire(self) -> Archive:
        """Returns the current archive, which stays open until its `release`. Raises `ArchiveClosedError` if it is closed."""
        return self._acquire(self.archive)

    def _acquire(self, archive: Archive) -> Archive:
        """Does the same. The caller has loaded `archive` as the current one."""
        while True:
            try:
                return archive.acquire()
            except ArchiveClosedError:
                # It was replaced and closed meanwhile, unless it is still the current one.
                current = self.archive
                if archive is current:
                    raise
                archive = current
