"""Runs the cases of a QUIC and HTTP/3 suite against a server.

Usage: quic_cases.py SUITE HOST PORT LARGE [CASE]. SUITE is `interop`, `early`, `errors` or `merged`, and LARGE the file that the server serves
at /large.bin. Prints a line for each case, and fails if one of them failed."""

import hashlib
import importlib
import logging
import sys
import time
from types import SimpleNamespace

suite, host, port, large = sys.argv[1:5]
# What the server does wrong is the subject of the cases.
logging.disable(logging.CRITICAL)
server = SimpleNamespace(
    address=(host, int(port)), large_digest=hashlib.sha256(open(large, "rb").read()).hexdigest()
)
faults = 0
for case in importlib.import_module(f"quic_{suite}").CASES:
    if sys.argv[5:] and case.__name__ not in sys.argv[5:]:
        continue
    start = time.monotonic()
    try:
        case(server)
        print(f"passed {case.__name__} {time.monotonic() - start:.1f} s", flush=True)
    except Exception as error:
        faults += 1
        print(f"FAILED {case.__name__}: {type(error).__name__}: {error}", flush=True)
sys.exit(faults > 0)
