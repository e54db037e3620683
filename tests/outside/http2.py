"""Loads each target with httpx over HTTP/2 on one connection, many at a time and in each coding: compares the decoded
bytes with the file. Usage: http2.py ORIGIN LIST."""

import asyncio
import sys

import httpx

origin, listing = sys.argv[1:]
targets = [line.rstrip("\n").split("\t") for line in open(listing, encoding="utf-8")]
at_a_time = asyncio.Semaphore(50)


async def load(client, target, path, coding):
    async with at_a_time:
        answer = await client.get(target, headers={"Accept-Encoding": coding})
    assert (answer.status_code, answer.http_version) == (200, "HTTP/2"), f"{target}: {answer}"
    with open(path, "rb") as file:
        content = file.read()
    assert answer.content == content, f"{target}: {len(answer.content)} bytes that are not the file's {len(content)}"


async def main():
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(base_url=origin, http1=False, http2=True, verify=False, limits=limits) as client:
        asked = [(target, path, coding) for target, path in targets for coding in ["identity", "gzip", "br"]]
        await asyncio.gather(*[load(client, *each) for each in asked])
        print(f"compared {len(asked)}")


asyncio.run(main())
