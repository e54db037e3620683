"""Loads each target in each coding over one kept connection, with one of Python's HTTP clients, twice: compares the
decoded bytes with the file, then asks again with the tag and wants a 304. Usage: load.py CLIENT ADDRESS LIST."""

import asyncio
import gzip
import http.client
import sys
import zlib

client, address, listing = sys.argv[1:]
targets = [line.rstrip("\n").split("\t") for line in open(listing, encoding="utf-8")]
wanted = [(target, open(path, "rb").read()) for target, path in targets]
compared = 0


def compare(target, status, body, content):
    global compared
    assert status == 200, f"{target}: {status}"
    assert body == content, f"{target}: {len(body)} bytes that are not the file's {len(content)}"
    compared += 1


def by_http_client():
    connection = http.client.HTTPConnection(address)

    def ask(method, target, **fields):
        connection.request(method, target, headers={name.replace("_", "-"): value for name, value in fields.items()})
        answer = connection.getresponse()
        return answer, answer.read()

    for target, content in wanted:
        answer, body = ask("GET", target)
        compare(target, answer.status, body, content)
        tag = answer.headers["ETag"]
        assert ask("GET", target, If_None_Match=tag)[0].status == 304, target
        answer, body = ask("HEAD", target)
        assert (answer.status, body, answer.headers["Content-Length"]) == (200, b"", str(len(content))), target
        answer, body = ask("GET", target, Accept_Encoding="gzip")
        decoded = gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body
        compare(target, answer.status, decoded, content)
        if len(content) > 10:
            answer, body = ask("GET", target, Range="bytes=3-8", If_Range=tag)
            assert (answer.status, body) == (206, content[3:9]), target
    connection.close()


def by_httpx():
    import httpx

    with httpx.Client(base_url=f"http://{address}", limits=httpx.Limits(max_connections=1)) as session:
        for target, content in wanted:
            for coding in ["identity", "gzip", "br", "gzip, deflate, br"]:
                answer = session.get(target, headers={"Accept-Encoding": coding})
                compare(target, answer.status_code, answer.content, content)
            again = session.get(target, headers={"If-None-Match": answer.headers["ETag"], "Accept-Encoding": coding})
            assert again.status_code == 304, target


def by_aiohttp():
    import aiohttp

    async def load():
        connector = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(f"http://{address}", connector=connector) as session:
            for target, content in wanted:
                for coding in ["identity", "gzip", "br", "deflate, gzip, br"]:
                    async with session.get(yarl_target(target), headers={"Accept-Encoding": coding}) as answer:
                        compare(target, answer.status, await answer.read(), content)
                async with session.head(yarl_target(target)) as answer:
                    assert answer.status == 200, target

    def yarl_target(target):
        from yarl import URL

        return URL(target, encoded=True)

    asyncio.run(load())


{"http.client": by_http_client, "httpx": by_httpx, "aiohttp": by_aiohttp}[client]()
print(f"compared {compared}")
