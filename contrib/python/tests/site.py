"""A source folder with rules of every kind, and requests that exercise them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

Request = tuple[str, bytes, list[tuple[bytes, bytes]]]

TEXT = "".join(f"<p>Paragraph {number} of a page that compresses well.</p>\n" for number in range(400))

FILES: dict[str, str | bytes] = {
    "index.html": "<!doctype html><title>Start</title>" + TEXT,
    "about.html": "<!doctype html><title>About</title>",
    "empty.txt": "",
    "plain.txt": "0123456789" * 30,
    "data.json": '{"a": 1}',
    "noise.bin": bytes((number * 7919 + number * number) % 251 for number in range(20000)),
    "style.css": "a{color:red}\n" * 200,
    "404.html": "<!doctype html><title>Root 404</title>",
    "405.html": "<!doctype html><title>405</title>",
    "_406.html": "<!doctype html><title>406</title>",
    "_412.html": "<!doctype html><title>412</title>" + TEXT,
    "_416.html": "<!doctype html><title>416</title>" + TEXT,
    "_500.html": "<!doctype html><title>500</title>",
    "docs/index.html": "<!doctype html><title>Docs</title>",
    "docs/404.html": "<!doctype html><title>Docs 404</title>" + TEXT,
    "docs/guide/start.html": "<!doctype html><title>Guide</title>",
    "docs/guide/index.txt": "index as text",
    "app/200.html": "<!doctype html><title>App</title>" + TEXT,
    "app/main.js": "console.log(1)\n" * 100,
    "app/deep/_200.txt": "deep text",
    "images/_wildcard.png": b"\x89PNG\r\n\x1a\n....",
    "images/real.png": b"\x89PNG\r\n\x1a\n",
    "odd/a b.html": "space",
    "odd/100%.txt": "percent",
    "odd/ünïcode.txt": "unicode",
    "odd/plus+amp&eq=.txt": "delimiters",
    "odd/semi;colon.txt": "semicolon",
    "odd/quote'\".txt": "quotes",
    "odd/<tag>.html": "tag",
    "odd/back\\slash.txt": "backslash",
    "odd/question?.txt": "question",
    "headers/one.html": "one",
    "headers/type.txt": "type" * 100,
    "headers/sub/two.html": "two",
    "headers/404.html": "<!doctype html><title>Headers 404</title>",
    "_hosts/example.com/index.html": "<!doctype html><title>example.com</title>",
    "_hosts/example.com/404.html": "<!doctype html><title>example.com 404</title>",
    "_hosts/example.com/only/here.html": "here",
    "_hosts/example.com/_redirects": "/old /new\n/go/* /only/:splat\n",
    "_hosts/example.com/_headers": "/*\n  X-Host: example.com\n/only/*\n  Cache-Control: public, max-age=9\n",
    "_hosts/*.example.com/index.html": "<!doctype html><title>wildcard</title>",
    "_hosts/*.example.com/app/200.html": "<!doctype html><title>wildcard app</title>",
    "_hosts/*.deep.example.com/index.html": "<!doctype html><title>deep wildcard</title>",
    "_hosts/spa.example/index.html": "<!doctype html><title>spa.example</title>",
    "_hosts/spa.example/_redirects": "/* /index.html 200\n",
    "cf/_redirects": """\
# dialect: cloudflare
/cf/pre/*/x.json /data.json 200
/cf/item-:name/x /posts/:name
/cf/*.old /docs/:splat 301
/cf/a:a/:b/c /z/:b/:a
""",
    "cf/file.old": "hidden",
    "cf/plain.txt": "plain",
    "nl/_redirects": "# dialect: netlify\n/nl/spa/* /about 200\n/nl/:a/:b/* /:b/:a/:splat 302\n",
    "_redirects": """\
/start /about 302
/docs-old/* /docs/:splat 301
/posts/:slug /blog/:slug/ 308
/posts/:year/:slug /blog/:slug/:year 303
/search/:term /find/:term?q=1 302
/via/* /:splat 200
/via404/* /:splat 404
/away/* https://other.example/base/:splat?x=1#part 307
/self/* /:splat
/slash/* /:splat 302
/rewritten/* /docs/:splat 200
/shell/* /app/200.html 200
/forced /about 302!
/about.html /index.html 200!
/style.css /data.json 200!
/gone/* /404.html 410
/drafts/* /404.html 404
/loop/a /about 200
/trail/:name/ /about 301
/exact-dir/ /about 301
/café/* /odd/:splat
://hosted.example/* /docs/:splat 302
://*.wild.example/w/* /docs/guide/:splat 301
://*.wild.example/rw/* /docs/guide/:splat 200
""",
    "_headers": """\
/*
  X-All: yes
  Permissions-Policy: geolocation=()
/docs/*
  X-Docs: 1
  X-All: again
  Vary: X-Thing
/headers/*
  Cache-Control: public, max-age=60
  Link: </a>; rel=preload
  Link: </b>; rel=preload
  Set-Cookie: a=1
  Set-Cookie: b=2
  X-Frame-Options: deny
/headers/sub/*
  ! Link
  ! X-Frame-Options
  Cache-Control: public, max-age=31536000, immutable
/headers/type.txt
  Content-Type: text/x-custom
  Content-Language: en
/app/*
  Content-Type: text/html; charset=x
  Cache-Control: public, immutable, max-age=5
  Expires: 0
/images/*.png
  X-Image: png
/:one/guide/*
  X-Placeholder: yes
  Content-Security-Policy: default-src 'self'
  Content-Security-Policy: img-src *
/gone/*
  Cache-Control: public, max-age=7
https://preview.example.com/*
  X-Preview: exact
://*.example.com/*
  X-Below: example.com
https://:project.pages.example/*
  X-Pages: yes
  ! X-All
""",
}

PATHS = [
    b"/", b"/index.html", b"/about", b"/about.html", b"/about/", b"/empty.txt", b"/plain.txt", b"/plain.txt/", b"/data.json",
    b"/noise.bin", b"/style.css", b"/404.html", b"/404", b"/_406.html", b"/missing", b"/missing.js", b"/missing/", b"/docs",
    b"/docs/", b"/docs/x", b"/docs/x/y/z.css", b"/docs/guide", b"/docs/guide/", b"/docs/guide/start", b"/docs/guide/none",
    b"/docs/guide/start?q=1&r=[]", b"/app", b"/app/", b"/app/x", b"/app/x/y?z", b"/app/main.js", b"/app/missing.js",
    b"/app/deep/x", b"/app/deep/x.txt", b"/app/deep/x.png", b"/images/real.png", b"/images/none.png", b"/images/none.PNG",
    b"/images/none.gif", b"/images/none", b"/odd/a%20b", b"/odd/a%20b.html", b"/odd/a%20b/", b"/odd/a%20b/?x=%20%zz^",
    b"/odd/100%25.txt", b"/odd/100%.txt", b"/odd/%C3%BCn%C3%AFcode.txt", "/odd/ünïcode.txt".encode(), b"/odd/plus+amp&eq=.txt",
    b"/odd/semi;colon.txt", b"/odd/quote'%22.txt", b"/odd/%3Ctag%3E", b"/odd/back%5Cslash.txt", b"/odd/question%3F.txt",
    b"/odd%2Fa%20b.html", b"/odd/%00", b"/odd/%2", b"/odd/%2e%2E/about", b"/a/../b/..//./docs/", b"/..", b"/a#b", b"/a?b#c",
    b"/start", b"/start/", b"/start?q=1", b"/docs-old/a/b", b"/docs-old/", b"/docs-old", b"/docs-old//evil", b"/docs-old/%2F%2Fx",
    b"/posts/x", b"/posts/x/", b"/posts/1/2", b"/posts/", b"/posts/a%20b%3C%3E?k=v", b"/search/a%26b=c;d+e", b"/search/x?y=z",
    b"/away/x", b"/away/x?y=1", b"/self/", b"/self//evil.com", b"/self/%5Cevil.com", b"/self/%2Fevil.com", b"/self/\\evil.com",
    b"/slash/", b"/slash/x//y", b"/rewritten/guide/start", b"/rewritten/", b"/rewritten/../x", b"/rewritten/%2e%2e/about",
    b"/rewritten/nope", b"/shell/a", b"/shell/a.js", b"/shell/a.png?x", b"/forced", b"/forced/", b"/cf/pre/a/b/x.json", b"/cf/pre/x.json",
    b"/cf/pre//x.json", b"/cf/item-1/x", b"/cf/item-/x", b"/cf/item-1/x/", b"/cf/file.old", b"/cf/a/b.old", b"/cf/.old/", b"/cf/plain.txt",
    b"/cf/a1/2/c", b"/nl/spa/x.js", b"/nl/spa", b"/nl/1/2/3", b"/nl/1/2", b"/nl/1/2/", b"/via/start?x", b"/via/about", b"/via/loop/a",
    b"/via/forced", b"/via/docs/", b"/via/docs", b"/via404/", b"/via404/style.css", b"/via/%2F", b"/via/..%2f/../about",
    b"/gone/x", b"/gone/x.js", b"/drafts/x", b"/loop/a", b"/trail/a", b"/trail/a/",
    b"/exact-dir", b"/exact-dir/", b"/caf%C3%A9/a%20b.html", b"/headers/one", b"/headers/type.txt", b"/headers/sub/two",
    b"/headers/sub/none", b"/headers/none", b"/headers/none.png", b"/x/guide/y", b"http://localhost/about", b"http://localhost",
    b"HTTP://localhost/docs?x", b"http:///about", b"http://user@localhost/", b"*", b"relative", b"/only/here", b"/go/here",
    b"/old", b"/w/start", b"/rw/start", b"/" + b"x/" * 500, b"/self/" + b"%C3%A9" * 1360, b"/" + b"a" * 9000,
    b"/docs/" + b"d" * 400 + b".js", b"/%3Cscript%3E'\"&", b"/" + b"y" * 400, b"/a.b/c", b"/.js", b"/app/.css",
]  # fmt: skip

HOSTS = [
    b"localhost", b"example.com", b"EXAMPLE.com:8080", b"example.com.", b"a.example.com", b"x.deep.example.com",
    b"preview.example.com", b"deep.example.com", b"hosted.example", b"a.wild.example", b"wild.example", b"x.pages.example",
    b"x.y.pages.example", b".example.com", b"spa.example", b"x.spa.example", b"[::1]:80", b"127.0.0.1",
]  # fmt: skip

CODINGS: list[list[bytes]] = [
    [], [b"gzip"], [b"br, gzip"], [b"gzip, deflate, br, zstd"], [b"identity;q=0"], [b"*;q=0"], [b"gzip;q=0, *"], [b"br;q=0.5, x-gzip;q=1.000"],
    [b""], [b"gzip;q=0.5", b"br;q=0.6"], [b"br;q=2, gzip;q=0.1"], [b"identity;q=0.2, br;q=0.1"], [b"GZIP ;Q=0.9"], [b"a", b"b", b"c", b"d", b"e"],
    [b"identity;q=0, *;q=0"],
]  # fmt: skip

RANGES = [
    b"bytes=0-9", b"bytes=-5", b"bytes=100-", b"bytes=0-", b"bytes=0-0,-1", b"bytes=5-9,0-4", b"bytes=0-9,20-29,40-49", b"bytes=99999999-",
    b"bytes=9-5", b"lines=0-1", b"bytes=", b"bytes=a-b", b"BYTES=0-1, ,3-4", b"bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16",
    b"bytes=0-99999999999999999999999999", b"bytes=-0", b"bytes 0-1", b"bytes=--1", b"bytes=0-1000,5000-6000,8000-", b"bytes=1-2,2-3,10-20,3-9",
]  # fmt: skip

DATES = [
    b"Sun, 06 Nov 1994 08:49:37 GMT", b"Sunday, 06-Nov-94 08:49:37 GMT", b"Sun Nov  6 08:49:37 1994", b"Wed, 01 Jan 2020 00:00:00 GMT",
    b"Wednesday, 01-Jan-20 00:00:00 GMT", b"Wed Jan  1 00:00:00 2020", b"Thu, 30 Feb 2040 00:00:00 GMT", b"tomorrow", b"",
    b"Fri, 01 Jan 2100 00:00:00 GMT", b"Wed, 01 Jan 2020 00:00:60 GMT", b"Tue, 31 Dec 2019 23:59:59 GMT",
]  # fmt: skip


def write(folder: Path) -> None:
    """Writes the source folder."""
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / os.fsdecode(b"odd/latin\xe9.txt")).write_bytes(b"latin")


def requests(etag_of: dict[bytes, bytes]) -> Iterator[Request]:
    """Yields requests. `etag_of` has the entity tags of some paths."""
    local = (b"Host", b"localhost")
    for path in PATHS:
        for method in ("GET", "HEAD", "OPTIONS", "POST", "BREW"):
            yield method, path, [local]
        for coding in (b"gzip, br, zstd", b"br", b"identity;q=0"):
            yield "GET", path, [local, (b"Accept-Encoding", coding)]
        for host in HOSTS[1:]:
            yield "GET", path, [(b"Host", host)]
    some = [
        b"/",
        b"/plain.txt",
        b"/empty.txt",
        b"/noise.bin",
        b"/missing",
        b"/docs/x",
        b"/app/x",
        b"/shell/a",
        b"/headers/type.txt",
        b"/headers/sub/two",
    ]
    for path, coding in itertools.product(some, CODINGS):
        yield "GET", path, [local, *((b"Accept-Encoding", line) for line in coding)]
    for path, ranges in itertools.product(some, RANGES):
        for method in ("GET", "HEAD"):
            yield method, path, [local, (b"Range", ranges)]
        yield "GET", path, [local, (b"Range", ranges), (b"Accept-Encoding", b"br")]
    yield "GET", b"/", [local, (b"Range", b"bytes=0-1"), (b"Range", b"bytes=2-3")]
    for path, etag in etag_of.items():
        tags = [
            etag, b"W/" + etag, b'"other"', b'"other", ' + etag, b"*", b"", b'"unfinished', b"x, " + etag, b",, " + etag + b" ,", b'"a""b"' + etag
        ]  # fmt: skip
        for name, tag in itertools.product((b"If-Match", b"If-None-Match", b"If-Range"), tags):
            for method in ("GET", "HEAD", "OPTIONS"):
                yield method, path, [local, (name, tag)]
            yield "GET", path, [local, (name, tag), (b"Range", b"bytes=0-1")]
        for name, date in itertools.product((b"If-Modified-Since", b"If-Unmodified-Since", b"If-Range"), DATES):
            yield "GET", path, [local, (name, date), (b"Range", b"bytes=1-2")]
            yield "GET", path, [local, (name, date), (b"If-None-Match", b'"other"')]
            yield "GET", path, [(b"Host", b"preview.example.com"), (name, date)]
        yield "GET", path, [local, *[(b"If-None-Match", etag)] * 5]
    for hosts in (
        [b"a", b"b"],
        [b"bad host"],
        [b"a/b"],
        [b""],
        [b"[::1"],
        [b"[::g]"],
        [b"[v1.x]"],
        [b"%41"],
        [b"a:b"],
        [b"user@a"],
        [b"-"],
        [b":80"],
    ):
        yield "GET", b"/missing", [(b"Host", host) for host in hosts]
        yield "HEAD", b"/", [(b"Host", host) for host in hosts]
