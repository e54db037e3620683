"""Says to a server what no TLS client should, and wants the alert that RFC 8446 asks for; then what a client may say but
seldom does, and wants an answer. It stands for what the scripts of tlsfuzzer ask of a server.
Usage: tls_cases.py HOST PORT [CASE], prints a line for each case, and fails if one was not met with what it asks for."""

import sys

import tls_hellos
import tls_talks

CASES = [case for case in tls_hellos.CASES + tls_talks.CASES if case.__name__ in sys.argv[3:] or not sys.argv[3:]]
# What we live with: what is wrong there harms nobody. A case that is right after all fails, so that it is taken out here.
KNOWN = {
    tls_hellos.groups_without_shares_and_shares_without_groups: "it is refused, by handshake_failure (RFC 8446 §9.2 asks for missing_extension)",
    tls_hellos.renegotiation_by_a_first_hello: "what would be renewed is passed over (RFC 5746 §3.6), and nothing is ever renewed",
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
