"""Handshakes that do not come to their end: hellos spelled octet by octet, and flights behind them."""

import os

from tlslite.constants import AlertDescription

from tls_words import (
    AES_128_GCM, ALERT, DATA, ECDHE_ECDSA, ECDHE_RSA, HANDSHAKE, HELLO_RETRY, P_256, REQUEST, X25519, X25519_MLKEM, answer, begins,
    connect, ends, extensions, hello, record, records, refuses, says_nothing, shorts, sized, without,
)


def hello_in_pieces_of_an_octet():
    begins(b"".join(record(bytes([octet])) for octet in hello()))


def hello_of_a_version_from_the_future():
    begins(record(hello(extensions(versions=(0x7F00, 0x0304)))))


def values_reserved_for_nothing():
    # RFC 8701: what nobody knows is passed over.
    grease = extensions(versions=(0x1A1A, 0x0304), groups=(0x2A2A, X25519), more=[(0x3A3A, b""), (0x4A4A, b"x")])
    begins(record(hello(grease, suites=(0x5A5A, AES_128_GCM))))


def session_id_comes_back():
    assert sized(1, b"s" * 32) in begins(record(hello()))


def retry_for_a_share():
    assert HELLO_RETRY in begins(record(hello(extensions(shares=()))))


def downgrade_is_marked():
    said = begins(record(hello(extensions(versions=None, shares=None), suites=(ECDHE_ECDSA, ECDHE_RSA))))
    assert said[6:38].endswith(b"DOWNGRD\1"), said[6:38]


def older_versions():
    for version in (0x0300, 0x0301, 0x0302):
        found = extensions(versions=None, shares=None)
        refuses(record(hello(found, suites=(ECDHE_ECDSA, ECDHE_RSA, 0x002F), version=version)), AlertDescription.protocol_version)


def unknown_versions_only():
    refuses(record(hello(extensions(versions=(0x7F00, 0x0302)))), AlertDescription.protocol_version)


def no_suite_in_common():
    refuses(record(hello(suites=(0x00FF, 0x1399))), AlertDescription.handshake_failure)


def suites_without_forward_secrecy():
    found = extensions(versions=None, shares=None)
    refuses(record(hello(found, suites=(0x002F, 0x0035, 0x009C, 0x000A, 0x0005))), AlertDescription.handshake_failure)


def no_group_in_common():
    found = extensions(groups=(0x0101,), shares=((0x0101, b"x" * 32),))
    refuses(record(hello(found)), AlertDescription.handshake_failure, AlertDescription.illegal_parameter)


def share_of_the_wrong_length():
    refuses(record(hello(extensions(shares=((X25519, b"x" * 31),)))), AlertDescription.illegal_parameter)


def share_of_low_order():
    refuses(record(hello(extensions(shares=((X25519, bytes(32)),)))), AlertDescription.illegal_parameter)


def no_signature_algorithms():
    refuses(record(hello(without(13, extensions()))), AlertDescription.missing_extension, AlertDescription.handshake_failure)


def no_compression_but_some():
    refuses(record(hello(compressions=b"\1")), AlertDescription.illegal_parameter)


def extension_twice():
    again = extensions(more=[(43, sized(1, shorts(0x0304)))])
    refuses(record(hello(again)), AlertDescription.illegal_parameter, AlertDescription.decode_error)


def octets_behind_the_extensions():
    refuses(record(hello(behind=b"x")), AlertDescription.decode_error)


def extension_longer_than_the_hello():
    refuses(record(hello(last=shorts(0x1234, 100) + b"x")), AlertDescription.decode_error)


def list_of_no_protocols():
    refuses(record(hello(extensions(more=[(16, sized(2, b""))]))), AlertDescription.decode_error, AlertDescription.illegal_parameter)


def ticket_that_is_not_last():
    ticket = sized(2, sized(2, b"ticket") + bytes(4)) + sized(2, sized(1, bytes(32)))
    found = extensions()
    refuses(record(hello([(45, b"\1\1"), (41, ticket)] + found)), AlertDescription.illegal_parameter)


def ticket_that_nobody_gave():
    ticket = sized(2, sized(2, os.urandom(200)) + bytes(4)) + sized(2, sized(1, bytes(32)))
    begins(record(hello(extensions(more=[(45, b"\1\1"), (41, ticket)]))))


def record_longer_than_any():
    for length in (2**14 + 1, 2**14 + 257, 2**14 + 2049, 2**16 - 1):
        refuses(bytes([HANDSHAKE, 3, 1]) + shorts(length), AlertDescription.record_overflow)


def handshake_record_of_nothing():
    # Nobody may send one (RFC 8446 §5.1), and nobody says what becomes of it.
    said = answer(record(b"") + record(hello()))
    assert said and (said[0] == ALERT or said[1][0] == 2), f"said {said}"


def message_longer_than_any():
    refuses(record(b"\1\xff\xff\xff" + bytes(100)), AlertDescription.decode_error, AlertDescription.unexpected_message)


def something_before_the_hello():
    for octets in (record(b"\x14" + sized(3, bytes(32))), record(b"x", DATA), record(b"\1\0\1x", 24)):
        refuses(octets, AlertDescription.unexpected_message, AlertDescription.decode_error)


def hello_of_ssl_2():
    says_nothing(bytes.fromhex("802e0100020015000000100100800200800300800400800500800600400700c0") + bytes(16))


def request_without_tls():
    says_nothing(REQUEST)
    says_nothing(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))

def each_cut_of_a_hello():
    # By a length that is right for what is left, so that only what is within is cut.
    whole = hello()
    for end in range(4, len(whole) - 1):
        body = whole[4:end]
        said = answer(record(b"\1" + sized(3, body)))
        assert said and said[0] == ALERT and said[1][0] == 2, f"cut at {end}: {said}"


def hello_longer_than_a_record():
    # Extensions that nobody knows, one of them large; then more of them than a hello needs.
    large = hello(extensions(more=[(0x1234, bytes(15000))]))
    begins(record(large[:9000]) + record(large[9000:]))
    many = hello(extensions(more=[(0x4000 + number, b"x") for number in range(2500)]))
    begins(record(many))


def hello_longer_than_is_read():
    endless = record(b"\1" + (2**24 - 1).to_bytes(3, "big") + bytes(12000)) + record(bytes(16000))
    refuses(endless, AlertDescription.decode_error)


def record_between_pieces_of_a_hello():
    whole = hello()
    for kind, content in ((ALERT, b"\1\0"), (DATA, b"x"), (20, b"\1")):
        octets = record(whole[:50]) + record(content, kind) + record(whole[50:])
        refuses(octets, AlertDescription.unexpected_message)


def versions_of_records_and_hellos():
    # Those of records mean nothing, those of hellos nothing where the extension is there (RFC 8446 §4.1.2, §5.1).
    for version in (0x0300, 0x0301, 0x0303, 0x0304, 0x03FF):
        begins(record(hello(), version=version))
    said = begins(record(hello(extensions(versions=None, shares=None), suites=(ECDHE_ECDSA, ECDHE_RSA), version=0x0304)))
    assert said[4:6] == b"\3\3", said[4:6]


def version_1_3_is_preferred():
    said = begins(record(hello(extensions(versions=(0x0303, 0x0304)), suites=(ECDHE_ECDSA, ECDHE_RSA, AES_128_GCM))))
    assert shorts(43, 2, 0x0304) in said, said


def list_of_no_versions():
    refuses(record(hello(extensions(versions=()))), AlertDescription.decode_error, AlertDescription.protocol_version)


def lists_of_odd_length():
    for kind in (10, 13):
        found = without(kind, extensions(more=[])) + [(kind, sized(2, b"\0\x1d\0"))]
        refuses(record(hello(found)), AlertDescription.decode_error)


def lists_of_nothing():
    for kind in (10, 13):
        found = without(kind, extensions()) + [(kind, sized(2, b""))]
        refuses(record(hello(found)), AlertDescription.decode_error, AlertDescription.illegal_parameter, AlertDescription.handshake_failure)


def each_extension_twice():
    found = extensions(more=[(16, sized(2, sized(1, b"h2"))), (45, b"\1\1"), (5, b"\1\0\0\0\0"), (0x1234, b"")])
    for again in found[:-1]:
        refuses(record(hello(found + [again])), AlertDescription.illegal_parameter, AlertDescription.decode_error)


def signatures_that_the_key_cannot_make():
    for schemes in (shorts(0x0201, 0x0203), shorts(0x0202), shorts(0xFE00)):
        # The alert is sealed, for the server's hello comes before its signature.
        ends(record(hello(without(13, extensions()) + [(13, sized(2, schemes))])))
        older = without(13, extensions(versions=None, shares=None)) + [(13, sized(2, schemes))]
        refuses(record(hello(older, suites=(ECDHE_ECDSA, ECDHE_RSA))), AlertDescription.handshake_failure)


def many_signatures_nobody_knows():
    schemes = shorts(*range(0xFE00, 0xFF80), 0x0403, 0x0804, 0x0807)
    begins(record(hello(without(13, extensions()) + [(13, sized(2, schemes))])))


def suites_by_blocks():
    # CBC, with and without SHA-2: where Lucky Thirteen and POODLE are at home.
    found = extensions(versions=None, shares=None)
    suites = (0xC009, 0xC00A, 0xC013, 0xC014, 0xC023, 0xC024, 0xC027, 0xC028, 0xC008, 0xC012, 0x0033, 0x009E)
    refuses(record(hello(found, suites=suites)), AlertDescription.handshake_failure)


def groups_without_shares_and_shares_without_groups():
    refuses(record(hello(extensions(shares=None))), AlertDescription.missing_extension)
    refuses(record(hello(extensions(groups=None))), AlertDescription.missing_extension)


def share_twice():
    twice = ((X25519, os.urandom(32)), (X25519, os.urandom(32)))
    refuses(record(hello(extensions(shares=twice))), AlertDescription.illegal_parameter)


def points_that_are_none():
    # Off the curve, at infinity, compressed, of other lengths; and what no key of ML-KEM can be.
    points = [b"\4" + b"\1" * 64, b"\0", b"\2" + b"\1" * 32, b"\4" + bytes(64), b"\4" + b"\1" * 63, b"\4" + b"\xff" * 64, b""]
    shares = [(P_256, point) for point in points]
    shares += [(24, b"\4" + b"\1" * 96), (24, b"\0")]
    shares += [(X25519_MLKEM, b"\xff" * 1216), (X25519_MLKEM, b"x" * 1215), (X25519_MLKEM, bytes(1217))]
    for group, share in shares:
        found = extensions(groups=(group,), shares=((group, share),))
        refuses(record(hello(found)), AlertDescription.illegal_parameter, AlertDescription.decode_error)


def shares_of_low_order():
    # RFC 7748 §6.1: those with which every secret is zero.
    for share in (bytes(32), b"\1" + bytes(31), bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
                  b"\xec" + b"\xff" * 30 + b"\x7f", b"\xed" + b"\xff" * 30 + b"\x7f", b"\xee" + b"\xff" * 30 + b"\x7f"):
        refuses(record(hello(extensions(shares=((X25519, share),)))), AlertDescription.illegal_parameter)


def names_that_are_none():
    def named(content):
        return record(hello([(0, content)] + without(0, extensions())))

    host = b"\0" + sized(2, b"localhost")
    for content in (b"", sized(2, b""), sized(2, host + host), sized(2, b"\0" + sized(2, b"")), sized(2, host) + b"x",
                    sized(2, host[:-1]), sized(2, b"\0" + sized(2, b"local\0host")), sized(2, b"\0" + sized(2, b"\xff\xfe"))):
        refuses(named(content), AlertDescription.decode_error, AlertDescription.illegal_parameter, AlertDescription.unrecognized_name)
    # What we do not serve is answered with the first certificate, and the longest name is one.
    for name in (b"nobody.example", b"a." * 126 + b"a", b"127.0.0.1"):
        begins(named(sized(2, b"\0" + sized(2, name))))


def protocols_that_are_none():
    for content in (b"", sized(2, sized(1, b"")), sized(2, sized(1, b"h2") + sized(1, b"")), sized(2, sized(1, b"h2")) + b"x",
                    sized(2, b"\3h2"), shorts(9) + sized(1, b"h2")):
        found = extensions(more=[(16, content)])
        refuses(record(hello(found)), AlertDescription.decode_error, AlertDescription.illegal_parameter)


def extensions_that_nobody_has_to_know():
    # A smaller record (RFC 6066, RFC 8449), padding, heartbeats, certificates compressed or raw, next protocol, cookies.
    more = [(1, b"\1"), (28, shorts(64)), (21, bytes(300)), (15, b"\1"), (27, b"\2\0\2"), (13172, b""), (17513, b"\0\3\2h2")]
    begins(record(hello(extensions(more=more))))


def session_id_of_any_length():
    for length in range(33):
        named = hello(session=bytes(range(length)))
        assert sized(1, bytes(range(length))) + shorts(AES_128_GCM) in begins(record(named)), length
    refuses(record(hello(session=bytes(33))), AlertDescription.decode_error)


def second_hello_that_is_another():
    first = record(hello(extensions(shares=())))
    for second in (hello(extensions(shares=())), hello(extensions(shares=((P_256, b"\4" + b"\1" * 64),)))):
        with connect() as stream:
            stream.sendall(first)
            said = records(stream)
            assert HELLO_RETRY in next(said)[1]
            stream.sendall(record(second))
            alert = next((content for kind, content in said if kind == ALERT), None)
            assert alert in (b"\2\x2f", b"\2\x0a"), alert


def change_of_ciphers_where_it_has_no_place():
    change = record(b"\1", 20, 0x0303)
    refuses(change + record(hello()), AlertDescription.unexpected_message)
    # Behind the hello one is borne, for what stands in between (RFC 8446 §5); not many, nor what looks like one.
    begins(record(hello()) + change)
    for octets in (change * 100, record(b"\2", 20, 0x0303), record(b"\1\1", 20, 0x0303)):
        ends(record(hello()) + octets)


def content_before_the_end_of_the_handshake():
    for version in (hello(), hello(extensions(versions=None, shares=None), suites=(ECDHE_ECDSA, ECDHE_RSA))):
        ends(record(version) + record(REQUEST, DATA, 0x0303))


def alerts_before_the_end_of_the_handshake():
    older = hello(extensions(versions=None, shares=None), suites=(ECDHE_ECDSA, ECDHE_RSA))
    for first in (hello(), older):
        for alert in (b"\2\x28", b"\2", b"", b"\2\x28\0"):
            ends(record(first) + record(alert, ALERT, 0x0303))
        ends(record(first) + record(b"\1\x5a", ALERT, 0x0303) * 100)


# A flight of TLS 1.2, which is in the clear until the ciphers change.


def second_flight(octets, *alerts, found=None):
    """What a server of TLS 1.2 says to this behind its own first flight is one of these alerts."""
    found = extensions(versions=None, shares=None) if found is None else found
    with connect() as stream:
        stream.sendall(record(hello(found, suites=(ECDHE_ECDSA, ECDHE_RSA))))
        said, flight = records(stream), b""
        while not flight.endswith(b"\x0e\0\0\0"):
            kind, content = next(said)
            assert kind == HANDSHAKE, (kind, content)
            flight += content
        stream.sendall(octets)
        alert = next(said, None)
        assert alert in [(ALERT, bytes([2, each])) for each in alerts], f"said {alert} to {octets[:9]}"


def messages_out_of_order():
    for octets in (record(b"\1", 20, 0x0303), record(b"\x14" + sized(3, bytes(12))), record(hello()), record(b"\x0e\0\0\0"),
                   record(b"\x18\0\0\1\0"), record(REQUEST, DATA, 0x0303)):
        second_flight(octets, AlertDescription.unexpected_message, AlertDescription.decode_error)


def certificate_that_nobody_asked_for():
    second_flight(record(b"\x0b" + sized(3, sized(3, b""))), AlertDescription.unexpected_message)
    second_flight(record(b"\x0f" + sized(3, shorts(0x0403) + sized(2, b"x"))), AlertDescription.unexpected_message)


def shares_of_tls_1_2_that_are_none():
    for share in (b"", b"\1" * 31, b"\1" * 33, bytes(32), b"\1" + bytes(31)):
        second_flight(record(b"\x10" + sized(3, sized(1, share))), AlertDescription.illegal_parameter, AlertDescription.decode_error)
    found = extensions(versions=None, groups=(P_256,), shares=None)
    for share in (b"\4" + b"\1" * 64, b"\0", b"\2" + b"\1" * 32, b"\4" + bytes(64)):
        second_flight(record(b"\x10" + sized(3, sized(1, share))), AlertDescription.illegal_parameter, AlertDescription.decode_error, found=found)
    second_flight(record(b"\x10" + sized(3, sized(1, b"\1" * 32) + b"x")), AlertDescription.decode_error)


def renegotiation_is_known_to_be_safe():
    # RFC 5746: asked for by an extension or by a suite, said in return; nothing can be renewed by a first hello.
    safe = shorts(0xFF01, 1) + b"\0"
    found = extensions(versions=None, shares=None)
    assert safe in begins(record(hello(found + [(0xFF01, b"\0")], suites=(ECDHE_ECDSA, ECDHE_RSA))))
    assert safe in begins(record(hello(found, suites=(ECDHE_ECDSA, ECDHE_RSA, 0x00FF))))


def renegotiation_by_a_first_hello():
    found = extensions(versions=None, shares=None)
    renewed = hello(found + [(0xFF01, sized(1, b"x" * 12))], suites=(ECDHE_ECDSA, ECDHE_RSA))
    refuses(record(renewed), AlertDescription.handshake_failure, AlertDescription.illegal_parameter)


def extended_master_secret_is_said_in_return():
    # RFC 7627, where it is asked for.
    found = extensions(versions=None, shares=None)
    for more in ([], [(23, b"")]):
        said = begins(record(hello(found + more, suites=(ECDHE_ECDSA, ECDHE_RSA))))
        assert (shorts(23, 0) in said) == bool(more), said


CASES = [
    hello_in_pieces_of_an_octet, hello_of_a_version_from_the_future, values_reserved_for_nothing, session_id_comes_back,
    retry_for_a_share, downgrade_is_marked, older_versions, unknown_versions_only, no_suite_in_common,
    suites_without_forward_secrecy, no_group_in_common, share_of_the_wrong_length, share_of_low_order,
    no_signature_algorithms, no_compression_but_some, extension_twice, octets_behind_the_extensions,
    extension_longer_than_the_hello, list_of_no_protocols, ticket_that_is_not_last, ticket_that_nobody_gave,
    record_longer_than_any, handshake_record_of_nothing, message_longer_than_any, something_before_the_hello,
    hello_of_ssl_2, request_without_tls, each_cut_of_a_hello, hello_longer_than_a_record, hello_longer_than_is_read,
    record_between_pieces_of_a_hello, versions_of_records_and_hellos, version_1_3_is_preferred, list_of_no_versions,
    lists_of_odd_length, lists_of_nothing, each_extension_twice, signatures_that_the_key_cannot_make,
    many_signatures_nobody_knows, suites_by_blocks, groups_without_shares_and_shares_without_groups, share_twice, points_that_are_none, shares_of_low_order,
    names_that_are_none, protocols_that_are_none, extensions_that_nobody_has_to_know, session_id_of_any_length,
    second_hello_that_is_another, change_of_ciphers_where_it_has_no_place, content_before_the_end_of_the_handshake,
    alerts_before_the_end_of_the_handshake, messages_out_of_order, certificate_that_nobody_asked_for,
    shares_of_tls_1_2_that_are_none, renegotiation_is_known_to_be_safe, renegotiation_by_a_first_hello, extended_master_secret_is_said_in_return,
]
