"""Conformance vectors: `CANNERY_VECTORS` names a file with one JSON object per line, and `CANNERY_ARCHIVE` the archive.

`cannery explain --json ARCHIVE URL` prints such objects.
"""

from __future__ import annotations

import json
import os
import unittest
from typing import Any

from cannery import Archive, respond


def text(value: bytes) -> str:
    """Decodes a field value as the vectors do."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def expected_body(archive: bytes, parts: list[dict[str, Any]]) -> bytes:
    body = b""
    for part in parts:
        if "text" in part:
            body += part["text"].encode()
        else:
            body += archive[part["position"] : part["position"] + part["bytes"]]
    return body


@unittest.skipUnless(
    "CANNERY_VECTORS" in os.environ and "CANNERY_ARCHIVE" in os.environ,
    "CANNERY_VECTORS or CANNERY_ARCHIVE is not set",
)
class VectorsTest(unittest.TestCase):
    def test_responses_equal_the_vectors(self) -> None:
        path = os.environ["CANNERY_ARCHIVE"]
        with open(path, "rb") as file:
            content = file.read()
        with Archive(path) as archive, open(os.environ["CANNERY_VECTORS"], encoding="utf-8") as vectors:
            count = 0
            for number, line in enumerate(vectors, 1):
                if not line.strip():
                    continue
                vector = json.loads(line)
                request = vector["request"]
                expected = vector["response"]
                fields = [(name.encode(), value.encode()) for name, value in request["fields"]]
                response = respond(archive, request["method"], request["target"].encode(), fields)
                with self.subTest(line=number, request=request):
                    self.assertEqual(response.status, expected["status"])
                    self.assertEqual(
                        sorted((name.decode().lower(), text(value)) for name, value in response.fields),
                        sorted((name.lower(), value) for name, value in expected["fields"]),
                    )
                    self.assertEqual(b"".join(response.body), expected_body(content, expected["body"]))
                count += 1
        self.assertGreater(count, 0)
