"""Loads each target with libcurl over one HTTP/3 connection, in each content coding, and compares the decoded bytes with the
file.

Usage: http3.py ORIGIN LIST. Each line of the list has a target and a path, separated by a tab."""

import sys

from curl_cffi import CurlHttpVersion, requests

origin, listing = sys.argv[1:]
targets = [line.rstrip("\n").split("\t") for line in open(listing, encoding="utf-8")]
compared = 0
with requests.Session(verify=False, http_version=CurlHttpVersion.V3ONLY) as session:
    for coding in ["identity", "gzip", "br", "zstd"]:
        for target, path in targets:
            response = session.get(origin + target, headers={"Accept-Encoding": coding})
            assert (response.status_code, response.http_version) == (200, CurlHttpVersion.V3), f"{target}: {response}"
            with open(path, "rb") as file:
                content = file.read()
            assert response.content == content, f"{target}, {coding}: {len(response.content)} bytes"
            compared += 1
print(f"compared {compared}")
