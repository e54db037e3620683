"""Loads each target in each content coding over one persistent connection with one of Python's HTTP clients, compares the
decoded bytes with the file, then revalidates with the entity tag and expects 304.

Usage: load.py CLIENT ADDRESS LIST. Each line of the list has a target and a path, separated by a tab."""

import asyncio
import gzip
import http.client
import sys
import zlib

client, address, listing = sys.argv[1:]
targets = [line.rstrip("\n").split("\t") for line in open(listing, encoding="utf-8")]
expected = [(target, open(path, "rb").read()) for target, path in targets]
compared = 0


def compare(target, status, body, content):
    global compared
    assert status == 200, f"{target}: {status}"
    assert body == content, f"{target}: {len(body)} bytes differ from the file's {len(content)}"
    compared += 1


def by_http_client():
    connection = http.client.HTTPConnection(address)

    def request(method, target, **fields):
        connection.request(method, target, headers={name.replace("_", "-"): value for name, value in fields.items()})
        response = connection.getresponse()
        return response, response.read()

    for target, content in expected:
        response, body = request("GET", target)
        compare(target, response.status, body, content)
        tag = response.headers["ETag"]
        assert request("GET", target, If_None_Match=tag)[0].status == 304, target
        response, body = request("HEAD", target)
        assert (response.status, body, response.headers["Content-Length"]) == (200, b"", str(len(content))), target
        response, body = request("GET", target, Accept_Encoding="gzip")
        decoded = gzip.decompress(body) if response.headers["Content-Encoding"] == "gzip" else body
        compare(target, response.status, decoded, content)
        if len(content) > 10:
            response, body = request("GET", target, Range="bytes=3-8", If_Range=tag)
            assert (response.status, body) == (206, content[3:9]), target
    connection.close()


def by_httpx():
    import httpx

    with httpx.Client(base_url=f"http://{address}", limits=httpx.Limits(max_connections=1)) as session:
        for target, content in expected:
            for coding in ["identity", "gzip", "br", "gzip, deflate, br"]:
                response = session.get(target, headers={"Accept-Encoding": coding})
                compare(target, response.status_code, response.content, content)
            revalidated = session.get(target, headers={"If-None-Match": response.headers["ETag"], "Accept-Encoding": coding})
            assert revalidated.status_code == 304, target


def by_aiohttp():
    import aiohttp

    async def load():
        connector = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(f"http://{address}", connector=connector) as session:
            for target, content in expected:
                for coding in ["identity", "gzip", "br", "deflate, gzip, br"]:
                    async with session.get(yarl_target(target), headers={"Accept-Encoding": coding}) as response:
                        compare(target, response.status, await response.read(), content)
                async with session.head(yarl_target(target)) as response:
                    assert response.status == 200, target

    def yarl_target(target):
        from yarl import URL

        return URL(target, encoded=True)

    asyncio.run(load())


{"http.client": by_http_client, "httpx": by_httpx, "aiohttp": by_aiohttp}[client]()
print(f"compared {compared}")
