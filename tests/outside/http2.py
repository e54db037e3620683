"""Loads each target with httpx over one HTTP/2 connection, many at a time and in each content coding, and compares the
decoded bytes with the file.

Usage: http2.py ORIGIN LIST. Each line of the list has a target and a path, separated by a tab."""

import asyncio
import sys

import httpx

origin, listing = sys.argv[1:]
targets = [line.rstrip("\n").split("\t") for line in open(listing, encoding="utf-8")]
concurrency = asyncio.Semaphore(50)


async def load(client, target, path, coding):
    async with concurrency:
        response = await client.get(target, headers={"Accept-Encoding": coding})
    assert (response.status_code, response.http_version) == (200, "HTTP/2"), f"{target}: {response}"
    with open(path, "rb") as file:
        content = file.read()
    assert response.content == content, f"{target}: {len(response.content)} bytes differ from the file's {len(content)}"


async def main():
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(base_url=origin, http1=False, http2=True, verify=False, limits=limits) as client:
        requests = [(target, path, coding) for target, path in targets for coding in ["identity", "gzip", "br"]]
        await asyncio.gather(*[load(client, *request) for request in requests])
        print(f"compared {len(requests)}")


asyncio.run(main())
