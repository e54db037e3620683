"""Responses: from the result of a lookup to status, fields and body."""

from __future__ import annotations

import email.utils
import http
from collections.abc import Iterator
from dataclasses import dataclass, field

from cannery.archive import Field, Head
from cannery.conditions import Validators
from cannery.pages import error_page
from cannery.rules import SiteFields

# Limits the memory that a response takes in a web server.
BLOCK_BYTES = 64 * 1024

ALLOWED = b"GET, HEAD, OPTIONS"
VARY: Field = (b"Vary", b"Accept-Encoding")
NO_STORE: Field = (b"Cache-Control", b"no-store")


@dataclass(frozen=True, slots=True)
class Response:
    """A response. It has no `Date`, which web servers add."""

    status: int
    fields: list[Field]
    body: tuple[memoryview, ...] = ()

    def blocks(self) -> Iterator[bytes]:
        """Yields copies of the body in blocks, for servers that accept only `bytes`."""
        for part in self.body:
            for start in range(0, len(part), BLOCK_BYTES):
                yield bytes(part[start : start + BLOCK_BYTES])

    @property
    def reason(self) -> str:
        """The reason phrase."""
        try:
            return http.HTTPStatus(self.status).phrase
        except ValueError:
            return ""


@dataclass(slots=True)
class Answer:
    """The result of a lookup, before its fields are chosen."""

    status: int
    # The head of a representation or of an error page.
    head: Head | None = None
    # The first fields, which don't come from the archive.
    first: list[Field] = field(default_factory=list)
    validators: Validators = field(default_factory=Validators)
    content_range: bytes | None = None
    body: tuple[memoryview, ...] = ()
    # `None` if the status code has no content.
    content_length: int | None = None
    is_multipart: bool = False
    is_not_modified: bool = False
    is_error: bool = False
    site_fields: SiteFields | None = None

    def respond(self, now: int, is_head: bool) -> Response:
        """Returns the response, without its body if `is_head`."""
        fields = [*self.first, *self._head_fields(), *self._validator_fields(now)]
        if self.content_range is not None:
            fields.append((b"Content-Range", self.content_range))
        if self.site_fields is not None:
            for name, value in self.site_fields.lines(self.head is not None):
                if not (self.is_multipart and name == b"Content-Type"):
                    fields.append((name, value))
        if self.content_length is not None:
            fields.append((b"Content-Length", b"%d" % self.content_length))
        return Response(self.status, fields, () if is_head else self.body)

    def _head_fields(self) -> Iterator[Field]:
        """Yields the fields of the head that rules don't replace. Errors are never cached."""
        head = self.head
        if head is None:
            return
        rules = self.site_fields
        if rules is not None:
            stores_nothing = self.status >= 400 > head.status
        else:
            stores_nothing = self.status >= 400 and not self.is_error and head.status != self.status
        for name, value in head.resource if self.is_multipart or self.is_not_modified else head.fields():
            is_caching = name == b"Cache-Control"
            if rules is not None and (
                (name == b"Content-Type" and rules.replaces_content_type) or (is_caching and rules.replaces_caching)
            ):
                continue
            yield NO_STORE if is_caching and stores_nothing else (name, value)

    def _validator_fields(self, now: int) -> Iterator[Field]:
        if self.validators.etag is not None:
            yield b"ETag", b'"%s"' % self.validators.etag
        if self.validators.modified is not None:
            # Never later than the response (RFC 9110 §8.8.2.1).
            date = email.utils.formatdate(min(self.validators.modified, now), usegmt=True)
            yield b"Last-Modified", date.encode("ascii")


def _varies(head: Head) -> bool:
    return any(name == b"Vary" and value.startswith(b"Accept-Encoding") for name, value in head.resource)


def redirect_answer(status: int, location: bytes) -> Answer:
    """Returns a redirect. Permanent ones are kept for an hour, so that a mistake can be undone."""
    caching = b"public, max-age=3600" if status in (301, 308) else b"no-cache"
    first = [(b"Location", location), (b"Cache-Control", caching)]
    return Answer(status, first=first, content_length=0)


def error_answer(
    status: int,
    complete_length: int | None = None,
    page: tuple[Head, memoryview] | None = None,
    subject: bytes = b"",
) -> Answer:
    """Returns an error with a page of the site, or else with the built-in page. 204 is the answer to `OPTIONS`."""
    first: list[Field] = []
    if status in (204, 405, 501):
        first.append((b"Allow", ALLOWED))
    if status == 204:
        first.append((b"Accept-Ranges", b"bytes"))
    if status in (406, 416) and not (page and _varies(page[0])):
        first.append(VARY)
    if complete_length is not None:
        first.append((b"Content-Range", b"bytes */%d" % complete_length))
    if page is not None:
        head, content = page
        return Answer(status, head, first, body=(content,), content_length=len(content), is_error=True)
    if status == 204:
        return Answer(status, first=first, is_error=True)
    first += [(b"Content-Type", b"text/html; charset=utf-8"), NO_STORE]
    text = error_page(status, subject)
    body = (memoryview(text),) if text else ()
    return Answer(status, first=first, body=body, content_length=len(text), is_error=True)
