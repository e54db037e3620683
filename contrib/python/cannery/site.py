"""Lookup: from a request to its response, in the order that `docs/rules.md` documents."""

from __future__ import annotations

import contextlib
import enum
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cannery import archive as layout
from cannery import conditions, rules
from cannery.archive import (
    Archive,
    Head,
    HeaderRule,
    Record,
    Redirect,
    Representation,
    Resource,
    Rewrite,
    Rule,
    RuleTable,
)
from cannery.conditions import Conditions, TooManyLines, Validators
from cannery.errors import CorruptArchiveError
from cannery.handler import Handler
from cannery.paths import (
    PATH_BYTES_MAX,
    Target,
    escape_query,
    host_name,
    is_host,
    join,
    normalize,
    parse_target,
    percent_encode,
)
from cannery.response import Answer, Response, error_answer, redirect_answer

METHOD_BYTES_MAX = 64
HOST_BYTES_MAX = 253

# The methods of the IANA registry (RFC 9110 §16.1.1) beside GET, HEAD and OPTIONS.
_REGISTERED_METHODS = frozenset(
    b"ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY DELETE LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL "
    b"MKREDIRECTREF MKWORKSPACE MOVE ORDERPATCH PATCH POST PROPFIND PROPPATCH PUT QUERY REBIND REPORT SEARCH TRACE UNBIND "
    b"UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL".split()
)

# Files that pages load and people download: no page answers for a missing one.
FILES = frozenset(
    b"""
    3gp 3mf 7z aab aac aif aifc aiff amr apk apng appcache appimage arrow asc ass asx atom avi avif avifs avro
    azw3 b3dm basis bcmap bin blat bmp br bz bz2 cab cbor cbz cer cr2 crl crt crx crx3 csv cue cur dae dat data
    db dbf dcm dds deb der djvu dll dmg dng doc docm docx dotx drc dtd dwg dxf dylib emf eml eot eps epub exe
    exr f4v fb2 fbx feather fgb flac flatpak flv fnt gcode geojson geojsonl gguf gif glb glsl gltf gml gpg gpkg
    gpx gz h5 har hdf5 hdr heic heics heif i3dm icns ico ics img ipa iso jar jfif jp2 jpe jpeg jpg jsonld jxl
    jxr kml kmz ktx ktx2 laz lottie lrc lz lz4 lzma m2ts m3u m3u8 m4a m4b m4s m4v mathml mbtiles md5 mdb mem
    mid midi minisig mka mks mkv mobi mobileconfig mov mp2 mp3 mp4 mpd mpeg mpg mpga msgpack msi msix mts mvt
    n3 ndjson nii npy npz nq nt nupkg obj odg odp ods odt oga ogg ogv ogx onnx opml opus orc otf ova owl p12
    p7s pagefind parquet pb pbf pck pdb pdf pem pf_fragment pf_index pf_meta pfb pfx pkg pkl pkpass plist pls
    ply pmtiles png pnts pps ppsx ppt pptm pptx prj ps psd pvr qcow2 rar rdf rds riv rpm rss rtf safetensors
    sbv sha1 sha256 sha512 shp shx sig skel spx sqlite sqlite3 srt ssa step stl stp svg svgz swf symbols tar
    tbz2 terrain tflite tga tgz tif tiff topojson torrent traineddata tsv ttc ttf ttl ttml txz tzst unityweb
    usd usdc usdz vcard vcf vhd vtt wasm wav weba webarchive webm webmanifest webp wgsl whl wma wmf wmv woff
    woff2 wsdl xls xlsm xlsx xltx xml xpi xsd xspf xz zip zst zstd
    """.split()
)
# Paths that programs request by convention, and no page has.
WELL_KNOWN = (b"/.well-known", b"/apple-app-site-association", b"/robots.txt", b"/sitemap.xml")

# The same for text, unless the client asks for a page.
TEXTS = frozenset(
    b"""
    adoc bib c cc cjs conf cpp css diff ftl go h hpp ini ipynb java js json json5 jsonl jsx kt less lua map
    markdown md mdx mjs patch properties proto py rb rs rst sass scss sh sql svelte swift tex text toml ts tsx
    txt vue xsl xslt yaml yml zig
    """.split()
)

CACHING_FIELDS = frozenset(
    (b"cache-control", b"edge-control", b"expires", b"pragma", b"surrogate-control", b"x-accel-expires")
)

PAGE_TYPES = frozenset((b"text/html", b"application/xhtml+xml"))
PAGE_RANGES = frozenset((b"*/*", b"text/*", b"application/*"))

Text = str | bytes

_MOUNT = re.compile(rb"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*")


class _Failure(Exception):
    """An error response without its page."""

    def __init__(self, status: int, complete_length: int | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.complete_length = complete_length


class _Refusal(Exception):
    """A malformed request."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _MissingAsset(Exception):
    """A missing asset: the next site of the host isn't searched."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The host and the path of a request. The path is the root if the request has no valid one."""

    host: bytes | None
    path: bytes
    is_path: bool


_UNKNOWN = _Place(None, b"/", False)


@dataclass(frozen=True, slots=True)
class _Found:
    """A record, the captures of the rule that matched, and whether it is the record of exactly this path."""

    record: Record
    captures: Sequence[bytes] = ()
    is_exact: bool = False


class _Counting(enum.Enum):
    """Which of the header rules for the requested path count: all, those for exactly the path, or none."""

    ALL = enum.auto()
    EXACT = enum.auto()
    NONE = enum.auto()

    def includes(self, is_exact: bool) -> bool:
        return self == _Counting.ALL or (self == _Counting.EXACT and is_exact)


class _Page(enum.Enum):
    """Whether the client has a use for a page, by `Sec-Fetch-Dest` and `Accept`."""

    WANTED = enum.auto()
    USELESS = enum.auto()
    UNKNOWN = enum.auto()


def respond(
    source: Archive | Handler,
    method: Text,
    target: Text,
    fields: Iterable[tuple[Text, Text]],
    *,
    mount: Text = "",
    now: int | None = None,
) -> Response:
    """Returns the response to a request.

    `target` is the request target as the client sent it, in origin form or absolute form. `fields` are all field lines of the
    request. Text is encoded as ISO 8859-1. `now` is the time in seconds since 1970, if it isn't the current time.

    `mount` is the percent-encoded path that was removed from the target, if the site is below a path such as `/docs`. Redirects
    lead below it. An empty target is the path of the mount itself, which is redirected to the same path with a slash.

    The parts of the body are slices of the archive, and short texts. A damaged archive gives a 500, and a closed one raises
    `ArchiveClosedError`.
    """
    archive = source.acquire()
    try:
        now = int(time.time()) if now is None else now
        lookup = _Lookup(archive, _bytes(method), _bytes(target), now, _mount(mount))
        try:
            answer = lookup.answer([(_bytes(name).lower(), _bytes(value).strip(b" \t")) for name, value in fields])
        except _Refusal as refusal:
            # The codings that the client accepts aren't known, so only identity is safe.
            answer = lookup.fail(_Failure(refusal.status), _UNKNOWN, [b"identity, *;q=0"], b"")
        return answer.respond(lookup.now, lookup.method == b"HEAD")
    finally:
        archive.release()


def unavailable() -> Response:
    """Returns the response of the adapters if the archive is closed."""
    return error_answer(503).respond(0, False)


def _mount(path: Text) -> bytes:
    """Returns the path of a mount with one slash at its start, as two would name a host, and without one at its end."""
    mount = _bytes(path).strip(b"/")
    if not _MOUNT.fullmatch(mount):
        raise ValueError(f"the mount {path!r} is not a percent-encoded path")
    return b"/" + mount if mount else b""


def _bytes(text: Text) -> bytes:
    return text.encode("latin-1", "replace") if isinstance(text, str) else text


class _Lookup:
    def __init__(self, archive: Archive, method: bytes, target: bytes, now: int, mount: bytes) -> None:
        self.archive = archive
        self.method = method
        self.mount = mount
        self.is_mount = mount != b"" and target[:1] in (b"", b"?")
        self.target = b"/" + target if self.is_mount else target
        self.now = now
        self.conditions = Conditions()

    def answer(self, fields: Iterable[tuple[bytes, bytes]]) -> Answer:
        target = self._parse_target()
        host_field = self._parse_fields(fields)
        host = None
        if target is not None and self.archive.facts.flags & layout.HOSTS:
            authority = host_field if target.authority is None else target.authority
            host = None if authority is None else host_name(authority)
        path = None if target is None else normalize(target.path)
        place = _Place(host, path or b"/", path is not None)

        accept_encoding = self.conditions.lines(b"accept-encoding")
        subject = b"" if target is None else target.path
        try:
            if self.method == b"OPTIONS":
                if target is None and self.target != b"*":
                    raise _Failure(400)
                return self._with_rules(error_answer(204), place, _Counting.NONE)
            if self.method not in (b"GET", b"HEAD"):
                raise _Failure(405 if self.method in _REGISTERED_METHODS else 501)
            if self.is_mount and target is not None:
                # Otherwise, relative links of the front page wouldn't work.
                return self._redirect(308, b"/" + _query(target.query))
            if target is None or path is None:
                raise _Failure(400)
            return self._answer_path(place, target.query)
        except CorruptArchiveError:
            return self.fail(_Failure(500), place, accept_encoding, subject)
        except _Failure as failure:
            return self.fail(failure, place, accept_encoding, subject)

    def _parse_fields(self, fields: Iterable[tuple[bytes, bytes]]) -> bytes | None:
        """Collects the fields that matter. Returns `Host`."""
        host = None
        for name, value in fields:
            if name == b"host":
                if host is not None or not is_host(value):
                    raise _Refusal(400)
                host = value
            try:
                self.conditions.add(name, value)
            except TooManyLines:
                raise _Refusal(431) from None
        return host

    def _parse_target(self) -> Target | None:
        if len(self.method) > METHOD_BYTES_MAX:
            raise _Refusal(501)
        if len(self.target) > PATH_BYTES_MAX:
            raise _Refusal(414)
        if not self.target or any(byte <= 0x20 or byte == 0x7F for byte in self.target):
            raise _Refusal(400)
        target = parse_target(self.target)
        authority = target.authority if target is not None else None
        if authority is not None and (not is_host(authority) or authority.startswith(b":")):
            raise _Refusal(400)
        return target

    # Errors and header rules.

    def fail(self, failure: _Failure, place: _Place, accept_encoding: Sequence[bytes] | None, subject: bytes) -> Answer:
        """Returns an error with the nearest page of the site that the client accepts."""
        try:
            page = self._error_page(place, failure.status, accept_encoding)
        except CorruptArchiveError:
            page = None
        answer = error_answer(failure.status, failure.complete_length, page, subject)
        return self._with_rules(answer, place, _Counting.NONE)

    def _error_page(
        self, place: _Place, status: int, accept_encoding: Sequence[bytes] | None
    ) -> tuple[Head, memoryview] | None:
        for site in self._sites(place.host):
            nearest = None
            for scope in self.archive.scopes(site, place.path):
                for page_status, record in scope.error_pages:
                    if page_status == status and isinstance(record, Resource):
                        nearest = record
            if nearest is not None:
                chosen = conditions.choose(nearest.representations, accept_encoding)
                return None if chosen is None else (self.archive.head(chosen.head), self.archive.body(chosen))
        return None

    def _with_rules(self, answer: Answer, place: _Place, counting: _Counting, own: bytes | None = None) -> Answer:
        """Adds the fields of header rules to an answer with a plain head. `own` is as for `_header_rules`."""
        if self.archive.facts.flags & layout.HEADER_RULES:
            try:
                caching = _Counting.NONE if answer.status >= 400 else counting
                fields, _ = self._header_rules(place, caching, counting, own, answer.status)
            except CorruptArchiveError:
                return answer
            if not fields.is_empty:
                answer.site_fields = fields
        return answer

    def _header_rules(
        self,
        place: _Place,
        caching: _Counting,
        representation: _Counting,
        own: bytes | None = None,
        status: int = 200,
    ) -> tuple[rules.SiteFields, bool]:
        """Returns the fields of the matching rules, and `True` if a rule with a host is among them.

        The rules are those of the last site that is searched for the host. Without a path, the rules for all paths match.

        `caching` and `representation` tell which rules set these kinds of fields about the content. All rules set the others. All
        rules for `own`, the path of the file that a rule with captures shows, describe the representation.
        """
        fields = rules.SiteFields()
        has_host_rule = False
        *_, site = self._sites(place.host)
        root = self.archive.root(site)
        if root is None:
            return fields, False
        # First, because rules for exactly the requested path take precedence.
        is_success = status < 400
        for rule in _matching(root.header_rules, own, place.host) if own is not None else ():
            for change in rule.fields:
                is_caching = is_success and _is_caching_field(change.name) and rules.restricts_caching(change)
                if is_caching or rules.is_representation_field(change.name):
                    fields.add(change)
        for rule in _matching(root.header_rules, place.path if place.is_path else None, place.host):
            has_host_rule |= rule.host != b""
            is_exact = all(piece.kind == layout.PieceKind.LITERAL for piece in rule.pattern)
            for change in rule.fields:
                counting = _Counting.ALL
                if _is_caching_field(change.name):
                    counting = caching
                elif rules.is_representation_field(change.name):
                    counting = representation
                if counting.includes(is_exact):
                    fields.add(change)
        return fields, has_host_rule

    # From a path to a record.

    def _refuses_pages(self, path: bytes, suffix: bytes) -> bool:
        """Returns `True` if no page may answer for a missing path."""
        is_well_known = path.startswith(b"/.well-known/") or path in WELL_KNOWN
        if is_well_known or suffix.lower() in FILES:
            return True
        match self._page_use():
            case _Page.USELESS:
                return True
            case _Page.WANTED:
                return False
            case _Page.UNKNOWN:
                return suffix.lower() in TEXTS

    def _page_use(self) -> _Page:
        destination = (self.conditions.lines(b"sec-fetch-dest") or [b""])[-1]
        if destination in (b"document", b"iframe", b"frame", b"fencedframe"):
            return _Page.WANTED
        if destination not in (b"", b"empty", b"embed", b"object"):
            return _Page.USELESS
        lines = []
        for value in self.conditions.lines(b"accept") or []:
            elements = [element.strip() for element in value.split(b",")]
            elements = [element for element in elements if element]
            if elements:
                lines.append(elements)
        if not lines:
            return _Page.UNKNOWN
        if _accepts(lines[0][0], PAGE_TYPES):
            return _Page.WANTED
        accepts = any(_accepts(element, PAGE_TYPES | PAGE_RANGES) for elements in lines for element in elements)
        return _Page.UNKNOWN if accepts else _Page.USELESS

    def _sites(self, host: bytes | None) -> Iterator[bytes | None]:
        """Yields the sites that are searched for a host: its own, those of wildcards, the default site."""
        name = host if host is None or not host.startswith(b".") else None
        while name is not None:
            root = self.archive.root(name)
            if root is not None:
                yield name
                if root.own_site:
                    return
            name = self._wildcard_after(name)
        yield None

    def _wildcard_after(self, host: bytes) -> bytes | None:
        """Returns the longest wildcard after a host that has few enough labels to be in the archive."""
        if len(host) > HOST_BYTES_MAX:
            return None
        dots = [position for position, byte in enumerate(host) if byte == ord(".") and position > 0]
        dots = dots[::-1][: self.archive.facts.wildcard_labels_max]
        return host[dots[-1] :] if dots else None

    def _resolve(self, host: bytes | None, path: bytes, query: bytes | None) -> _Found | Answer | None:
        """Finds the record of a path on the sites of a host, or a redirect to the same path with or without a slash.

        Each step covers all sites, so a file of the default site wins over the pattern of a rule for one host.
        """
        facts = self.archive.facts
        sites = list(self._sites(host))
        for site in sites:
            if facts.flags & layout.FORCED_RULES:
                forced = _first_rule((rule for rule in self._rules(site, path) if rule.force), path)
                if forced is not None:
                    return forced
            record = self.archive.path(site, path)
            if record is not None:
                return _Found(record, is_exact=True)
        if facts.flags & layout.SLASH_REDIRECTS:
            for site in sites:
                slash = self._other_slash(site, path, query)
                if slash is not None:
                    return slash

        file = _file_path(path)
        wanted = _suffix(file.rpartition(b"/")[2][-257:])
        is_asset = self._refuses_pages(file, wanted)
        for site in sites:
            rules_of_site = (rule for rule in self._rules(site, path) if not rule.force)
            found = _first_rule((rule for rule in rules_of_site if not (is_asset and rule.pages_only)), path)
            if found is not None:
                return found
        for site in sites:
            found = self._fallback_page(site, path, wanted, is_asset)
            if found is not None:
                return found
        for site in sites if is_asset else ():
            rules_for_pages = (rule for rule in self._rules(site, path) if rule.pages_only and not rule.force)
            if _first_rule(rules_for_pages, path) is not None:
                raise _MissingAsset
        return None

    def _rules(self, host: bytes | None, path: bytes) -> Iterable[Rule]:
        """Returns the rules that can match a path, in order."""
        root = self.archive.root(host)
        return () if root is None else root.rules.candidates(path[1:])

    def _other_slash(self, host: bytes | None, path: bytes, query: bytes | None) -> _Found | Answer | None:
        """Finds the path with or without a slash at its end. If it is a redirect, its target is used directly."""
        other = path[:-1] if path.endswith(b"/") else path + b"/"
        record = self.archive.path(host, other) if other else None
        if record is None:
            return None
        if isinstance(record, Redirect):
            return _Found(record, is_exact=True)
        return self._redirect(308, percent_encode(other) + _query(query))

    def _fallback_page(self, host: bytes | None, path: bytes, wanted: bytes, is_asset: bool) -> _Found | None:
        """Finds the nearest fallback page. In a directory, one with the wanted suffix comes first, then pages."""
        fallback = None
        is_refused = False
        for scope in self.archive.scopes(host, path):
            best_rank = None
            for suffix, record in scope.fallbacks:
                is_same = suffix.lower() == wanted.lower()
                is_page = not _is_asset(suffix)
                if is_asset and (is_page or not (is_same or not _is_asset(wanted))):
                    is_refused = True
                    continue
                rank = (is_same, is_page)
                if best_rank is None or rank > best_rank:
                    best_rank = rank
                    fallback = _Found(record)
        if fallback is None and is_refused:
            raise _MissingAsset
        return fallback

    # From a record to an answer.

    def _answer_path(self, place: _Place, query: bytes | None) -> Answer:
        found = None
        try:
            found = self._resolve(place.host, place.path, query)
        except _MissingAsset:
            pass
        if found is None:
            raise _Failure(404)
        if isinstance(found, Answer):
            return self._with_rules(found, place, _Counting.NONE)

        flags = self.archive.facts.flags
        is_plain = flags & layout.HEADER_RULES != 0
        if found.is_exact and isinstance(found.record, Resource):
            # The head of a file has the fields of the rules for its path, except those with a host.
            is_plain = False
            if flags & layout.HOST_HEADER_RULES and place.host is not None:
                # The head is intact even if the rules are not.
                with contextlib.suppress(CorruptArchiveError):
                    is_plain = self._header_rules(place, _Counting.ALL, _Counting.ALL)[1]
        answer, own = self._follow(found, place, query, is_plain)
        counting = _Counting.NONE
        if found.is_exact:
            is_file = isinstance(found.record, Resource) and not found.record.is_shown
            counting = _Counting.ALL if is_file else _Counting.EXACT
        answer = self._with_rules(answer, place, counting, own) if is_plain else answer
        if isinstance(found.record, Rewrite) and answer.status < 400 and answer.head is not None:
            is_cached_by_rule = answer.site_fields is not None and answer.site_fields.replaces_caching
            if answer.head.is_immutable and not is_cached_by_rule:
                answer.site_fields = answer.site_fields or rules.SiteFields()
                answer.site_fields.set_caching(answer.head.caching_elsewhere)
        return answer

    def _follow(self, found: _Found, place: _Place, query: bytes | None, is_plain: bool) -> tuple[Answer, bytes | None]:
        """Returns the answer, and the path of the file that it is from if a rule with captures shows it."""
        match found.record:
            case Resource() as resource:
                return self._deliver(resource, resource.status, is_plain), None
            case Redirect() as redirect:
                return self._redirect(redirect.status, rules.location(redirect, found.captures, query)), None
            case Rewrite() as rewrite:
                path = join(rules.expand(rewrite.path, found.captures))
                if path is not None:
                    return self._rewrite(place.host, path, rewrite.status, is_plain), path
        raise _Failure(404)

    def _rewrite(self, host: bytes | None, path: bytes, status: int, is_plain: bool) -> Answer:
        """Answers from the path of a rewrite. Rules are applied only once."""
        for site in self._sites(host):
            match self.archive.path(site, path):
                case Resource() as resource:
                    return self._deliver(resource, resource.status if status == 200 else status, is_plain)
                case Redirect() as redirect:
                    return self._redirect(redirect.status, rules.location(redirect, (), None))
                case Rewrite():
                    break
        raise _Failure(404)

    def _deliver(self, resource: Resource, status: int, is_plain: bool) -> Answer:
        """Chooses a representation, evaluates the conditions, and selects ranges."""
        request = self.conditions
        chosen = conditions.choose(resource.representations, request.lines(b"accept-encoding"))
        if chosen is None:
            raise _Failure(406)
        head = self.archive.plain_head(chosen.head) if is_plain else self.archive.head(chosen.head)
        body = self.archive.body(chosen)
        whole = Answer(status, head, body=(body,), content_length=len(body))
        if status != 200:
            return whole
        whole.validators = Validators(chosen.etag if head.sends_etag else None, resource.modified)

        verdict = conditions.evaluate(request, whole.validators, self.now)
        if verdict == 304:
            return Answer(304, head, validators=whole.validators, is_not_modified=True)
        if verdict == 412:
            raise _Failure(412)
        ranges = request.single(b"range")
        if self.method == b"GET" and ranges and conditions.range_applies(request, whole.validators, self.now):
            parts = conditions.parse_ranges(ranges, len(body))
            if parts == []:
                raise _Failure(416, len(body))
            if parts:
                return _partial(whole, chosen, body, parts)
        return whole

    def _redirect(self, status: int, location: bytes) -> Answer:
        """Answers with a redirect. A location that is a path leads below the mount."""
        if len(location) > PATH_BYTES_MAX:
            raise _Failure(414)
        if location.startswith(b"/") and not location.startswith(b"//"):
            location = self.mount + location
        return redirect_answer(status, location)


def _partial(whole: Answer, chosen: Representation, body: memoryview, parts: Sequence[tuple[int, int]]) -> Answer:
    """Returns a 206, or the whole representation if that isn't longer."""
    ranges = [b"bytes %d-%d/%d" % (start, end - 1, len(body)) for start, end in parts]
    if len(parts) == 1:
        start, end = parts[0]
        whole.content_range = ranges[0]
        whole.status = 206
        whole.body = (body[start:end],)
        whole.content_length = end - start
        return whole

    boundary = b"cannery_" + chosen.etag
    head = whole.head
    assert head is not None
    described = head.content_type + head.representation
    lines = b"".join(b"%s: %s\r\n" % line for line in described)
    pieces = []
    for (start, end), content_range in zip(parts, ranges, strict=True):
        text = b"\r\n--%s\r\n%sContent-Range: %s\r\n\r\n" % (boundary, lines, content_range)
        pieces += [memoryview(text), body[start:end]]
    pieces.append(memoryview(b"\r\n--%s--\r\n" % boundary))
    length = sum(map(len, pieces))
    if length >= len(body):
        return whole
    whole.status = 206
    whole.is_multipart = True
    whole.first.append((b"Content-Type", b"multipart/byteranges; boundary=" + boundary))
    whole.body = tuple(pieces)
    whole.content_length = length
    return whole


def _query(query: bytes | None) -> bytes:
    return b"?" + escape_query(query) if query else b""


def _first_rule(candidates: Iterable[Rule], path: bytes) -> _Found | None:
    for rule in candidates:
        captures = rules.match_path(rule.pattern, path[1:])
        if captures is not None:
            return _Found(rule.record, captures)
    return None


def _matching(table: RuleTable[HeaderRule], path: bytes | None, host: bytes | None) -> Iterator[HeaderRule]:
    """Yields the header rules for a path on a host. Without a path, only those for all paths match."""
    for rule in table.candidates(b"" if path is None else path[1:]):
        if path is None:
            is_match = len(rule.pattern) == 1 and rule.pattern[0].kind == layout.PieceKind.SPLAT
        else:
            is_match = rules.match_exactly(rule.pattern, path[1:]) is not None
        if is_match and rules.matches_host(rule.host, host):
            yield rule


def _file_path(path: bytes) -> bytes:
    """Returns the path of the file that a client means, without a slash or parameters of its last segment."""
    folder, slash, name = path.rstrip(b"/ \t\n\f\r").rpartition(b"/")
    return folder + slash + re.split(b"[;?#&]", name, maxsplit=1)[0]


def _suffix(name: bytes) -> bytes:
    """Returns the suffix of a name without its dot, which is empty if the name has no dot."""
    return name.rpartition(b".")[2] if b"." in name else b""


def _is_asset(suffix: bytes) -> bool:
    return suffix.lower() in FILES or suffix.lower() in TEXTS


def _is_caching_field(name: bytes) -> bool:
    return name.lower() in CACHING_FIELDS or name.lower().endswith(b"-cache-control")


def _accepts(element: bytes, media_types: frozenset[bytes]) -> bool:
    """Returns `True` if an element of `Accept` names one of these media types, and its weight isn't 0."""
    name, *parts = (part.strip() for part in element.lower().split(b";"))
    return name in media_types and not any(
        part.startswith(b"q=") and not part[2:].strip(b"0.") and part[2:] for part in parts
    )
