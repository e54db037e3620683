"""Sends TLS messages that no client should send, and checks for the alerts of RFC 8446; then valid but unusual
messages, and checks for a response. Takes the place of tlsfuzzer's scripts for servers.

Usage: tls_cases.py HOST PORT [CASE]. Prints a line for each case, and fails if one of them failed."""

import sys

import tls_hellos
import tls_connections

CASES = [case for case in tls_hellos.CASES + tls_connections.CASES if case.__name__ in sys.argv[3:] or not sys.argv[3:]]
# Known deviations, which are harmless. A case that passes nevertheless fails the run, so that this list shrinks.
KNOWN = {
    tls_hellos.groups_or_key_shares_missing: "refused with handshake_failure (RFC 8446 §9.2 requires missing_extension)",
    tls_hellos.renegotiation_info_in_first_hello: "its content is ignored (RFC 5746 §3.6 requires an alert), and the server never renegotiates",
}
faults = 0
for case in CASES:
    try:
        case()
        fault = None
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
    if (fault is not None) == (case in KNOWN):
        print(f"passed {case.__name__}" if fault is None else f"known {case.__name__}: {KNOWN[case]}")
    else:
        faults += 1
        print(f"FAILED {case.__name__}: {fault}")
sys.exit(faults > 0)
