"""Sends requests, and has httplint check the responses.

Usage: lint.py ADDRESS, with a line of standard input for each request: method, target and further fields, separated by
tabs. Prints a line for each note of level WARN or BAD: status, method, target, level, the note's name, its subject and
its summary, separated by tabs."""

import socket
import sys
import time

from httplint import HttpRequestLinter, HttpResponseLinter

host, port = sys.argv[1].rsplit(":", 1)
connection = socket.create_connection((host, int(port)), timeout=20)
stream = connection.makefile("rb")


def exchange(method, target, fields):
    fields = [(b"Host", b"example.com"), (b"User-Agent", b"lint")] + fields
    head = b"".join(name + b": " + value + b"\r\n" for name, value in fields)
    connection.sendall(b"%s %s HTTP/1.1\r\n%s\r\n" % (method, target, head))

    request = HttpRequestLinter(start_time=time.time())
    request.process_request_topline(method, target, b"HTTP/1.1")
    request.process_headers(fields)
    request.finish_content(True)

    version, status, phrase = stream.readline().rstrip(b"\r\n").split(b" ", 2)
    response_fields = [line.split(b": ", 1) for line in iter(lambda: stream.readline().rstrip(b"\r\n"), b"")]
    response = HttpResponseLinter(start_time=time.time())
    response.request = request
    response.is_head_response = method == b"HEAD"
    response.process_response_topline(version, status, phrase)
    response.process_headers([tuple(field) for field in response_fields])
    lengths = [int(value) for name, value in response_fields if name.lower() == b"content-length"]
    if method != b"HEAD" and status not in (b"204", b"304"):
        response.feed_content(stream.read(lengths[0]))
    response.finish_content(True)

    def print_note(note, depth=0):
        if note.level.name in ("WARN", "BAD"):
            columns = [status.decode(), method.decode(), target.decode(), note.level.name]
            print("\t".join(columns + [type(note).__name__, note.subject, str(note.summary).replace("\n", " ")]))
        for child in note.subnotes:
            print_note(child, depth + 1)

    for note in response.notes:
        print_note(note)
    return status


count = 0
for line in sys.stdin.buffer.read().splitlines():
    method, target, *fields = line.split(b"\t")
    status = exchange(method, target, [tuple(field.split(b": ", 1)) for field in fields])
    print(f"answered\t{status.decode()}\t{method.decode()}\t{target.decode()}")
    count += 1
print(f"linted\t{count}")
