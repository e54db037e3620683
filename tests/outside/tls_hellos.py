"""Cases without a complete handshake: ClientHellos assembled byte by byte, and the messages after them."""

import os

from tlslite.constants import AlertDescription

from tls_client import (
    AES_128_GCM, ALERT, DATA, ECDHE_ECDSA, ECDHE_RSA, HANDSHAKE, HELLO_RETRY, P_256, REQUEST, X25519, X25519_MLKEM,
    assert_closes, assert_no_tls_reply, assert_refused, assert_server_hello, client_hello, connect, extensions,
    first_record, vector, record, records, uint16s, without,
)


def hello_in_one_byte_records():
    assert_server_hello(b"".join(record(bytes([byte])) for byte in client_hello()))


def unknown_future_version():
    assert_server_hello(record(client_hello(extensions(versions=(0x7F00, 0x0304)))))


def grease_values_are_ignored():
    # RFC 8701: unknown values are ignored.
    grease = extensions(versions=(0x1A1A, 0x0304), groups=(0x2A2A, X25519), more=[(0x3A3A, b""), (0x4A4A, b"x")])
    assert_server_hello(record(client_hello(grease, suites=(0x5A5A, AES_128_GCM))))


def session_id_is_echoed():
    assert vector(1, b"s" * 32) in assert_server_hello(record(client_hello()))


def hello_retry_request_without_key_share():
    assert HELLO_RETRY in assert_server_hello(record(client_hello(extensions(shares=()))))


def downgrade_is_signaled():
    received = assert_server_hello(record(client_hello(extensions(versions=None, shares=None), suites=(ECDHE_ECDSA, ECDHE_RSA))))
    assert received[6:38].endswith(b"DOWNGRD\1"), received[6:38]


def old_versions_are_refused():
    for version in (0x0300, 0x0301, 0x0302):
        offered = extensions(versions=None, shares=None)
        assert_refused(
            record(client_hello(offered, suites=(ECDHE_ECDSA, ECDHE_RSA, 0x002F), version=version)),
            AlertDescription.protocol_version,
        )


def only_unknown_versions():
    assert_refused(record(client_hello(extensions(versions=(0x7F00, 0x0302)))), AlertDescription.protocol_version)


def no_common_cipher_suite():
    assert_refused(record(client_hello(suites=(0x00FF, 0x1399))), AlertDescription.handshake_failure)


def suites_without_forward_secrecy():
    offered = extensions(versions=None, shares=None)
    assert_refused(
        record(client_hello(offered, suites=(0x002F, 0x0035, 0x009C, 0x000A, 0x0005))),
        AlertDescription.handshake_failure,
    )


def no_common_group():
    offered = extensions(groups=(0x0101,), shares=((0x0101, b"x" * 32),))
    assert_refused(
        record(client_hello(offered)),
        AlertDescription.handshake_failure, AlertDescription.illegal_parameter,
    )


def key_share_of_wrong_length():
    assert_refused(record(client_hello(extensions(shares=((X25519, b"x" * 31),)))), AlertDescription.illegal_parameter)


def zero_key_share():
    assert_refused(record(client_hello(extensions(shares=((X25519, bytes(32)),)))), AlertDescription.illegal_parameter)


def no_signature_algorithms():
    assert_refused(
        record(client_hello(without(13, extensions()))),
        AlertDescription.missing_extension, AlertDescription.handshake_failure,
    )


def only_deflate_compression():
    assert_refused(record(client_hello(compressions=b"\1")), AlertDescription.illegal_parameter)


def duplicate_supported_versions():
    repeated = extensions(more=[(43, vector(1, uint16s(0x0304)))])
    assert_refused(record(client_hello(repeated)), AlertDescription.illegal_parameter, AlertDescription.decode_error)


def bytes_after_the_extensions():
    assert_refused(record(client_hello(trailing=b"x")), AlertDescription.decode_error)


def extension_exceeds_the_hello():
    assert_refused(record(client_hello(last=uint16s(0x1234, 100) + b"x")), AlertDescription.decode_error)


def empty_protocol_list():
    assert_refused(
        record(client_hello(extensions(more=[(16, vector(2, b""))]))),
        AlertDescription.decode_error, AlertDescription.illegal_parameter,
    )


def pre_shared_key_is_not_last():
    ticket = vector(2, vector(2, b"ticket") + bytes(4)) + vector(2, vector(1, bytes(32)))
    offered = extensions()
    assert_refused(record(client_hello([(45, b"\1\1"), (41, ticket)] + offered)), AlertDescription.illegal_parameter)


def unknown_ticket_is_ignored():
    ticket = vector(2, vector(2, os.urandom(200)) + bytes(4)) + vector(2, vector(1, bytes(32)))
    assert_server_hello(record(client_hello(extensions(more=[(45, b"\1\1"), (41, ticket)]))))


def oversized_record():
    for length in (2**14 + 1, 2**14 + 257, 2**14 + 2049, 2**16 - 1):
        assert_refused(bytes([HANDSHAKE, 3, 1]) + uint16s(length), AlertDescription.record_overflow)


def empty_handshake_record():
    # RFC 8446 §5.1 forbids it, and doesn't define the reaction.
    received = first_record(record(b"") + record(client_hello()))
    assert received and (received[0] == ALERT or received[1][0] == 2), f"received {received}"


def oversized_handshake_message():
    assert_refused(
        record(b"\1\xff\xff\xff" + bytes(100)),
        AlertDescription.decode_error, AlertDescription.unexpected_message,
    )


def message_before_the_hello():
    for data in (record(b"\x14" + vector(3, bytes(32))), record(b"x", DATA), record(b"\1\0\1x", 24)):
        assert_refused(data, AlertDescription.unexpected_message, AlertDescription.decode_error)


def ssl_2_hello():
    assert_no_tls_reply(bytes.fromhex("802e0100020015000000100100800200800300800400800500800600400700c0") + bytes(16))


def request_without_tls():
    assert_no_tls_reply(REQUEST)
    assert_no_tls_reply(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))


def hello_truncated_at_each_byte():
    # The message length is that of the truncated body, so only the fields within are truncated.
    whole = client_hello()
    for end in range(4, len(whole) - 1):
        body = whole[4:end]
        received = first_record(record(b"\1" + vector(3, body)))
        assert received and received[0] == ALERT and received[1][0] == 2, f"cut at {end}: {received}"


def hello_in_several_records():
    # Unknown extensions: a large one, then thousands of small ones.
    large = client_hello(extensions(more=[(0x1234, bytes(15000))]))
    assert_server_hello(record(large[:9000]) + record(large[9000:]))
    many = client_hello(extensions(more=[(0x4000 + number, b"x") for number in range(2500)]))
    assert_server_hello(record(many))


def hello_exceeds_the_limit():
    endless = record(b"\1" + (2**24 - 1).to_bytes(3, "big") + bytes(12000)) + record(bytes(16000))
    assert_refused(endless, AlertDescription.decode_error)


def other_record_within_a_hello():
    whole = client_hello()
    for kind, content in ((ALERT, b"\1\0"), (DATA, b"x"), (20, b"\1")):
        data = record(whole[:50]) + record(content, kind) + record(whole[50:])
        assert_refused(data, AlertDescription.unexpected_message)


def legacy_versions_are_ignored():
    # The record version is ignored, and so is legacy_version if supported_versions is present (RFC 8446 §4.1.2, §5.1).
    for version in (0x0300, 0x0301, 0x0303, 0x0304, 0x03FF):
        assert_server_hello(record(client_hello(), version=version))
    received = assert_server_hello(record(client_hello(extensions(versions=None, shares=None), suites=(ECDHE_ECDSA, ECDHE_RSA), version=0x0304)))
    assert received[4:6] == b"\3\3", received[4:6]


def tls_1_3_is_preferred():
    received = assert_server_hello(record(client_hello(extensions(versions=(0x0303, 0x0304)), suites=(ECDHE_ECDSA, ECDHE_RSA, AES_128_GCM))))
    assert uint16s(43, 2, 0x0304) in received, received


def empty_version_list():
    assert_refused(
        record(client_hello(extensions(versions=()))),
        AlertDescription.decode_error, AlertDescription.protocol_version,
    )


def lists_of_odd_length():
    for kind in (10, 13):
        offered = without(kind, extensions(more=[])) + [(kind, vector(2, b"\0\x1d\0"))]
        assert_refused(record(client_hello(offered)), AlertDescription.decode_error)


def empty_lists():
    for kind in (10, 13):
        offered = without(kind, extensions()) + [(kind, vector(2, b""))]
        assert_refused(
            record(client_hello(offered)),
            AlertDescription.decode_error, AlertDescription.illegal_parameter, AlertDescription.handshake_failure,
        )


def duplicate_extensions():
    offered = extensions(more=[(16, vector(2, vector(1, b"h2"))), (45, b"\1\1"), (5, b"\1\0\0\0\0"), (0x1234, b"")])
    for repeated in offered[:-1]:
        assert_refused(
            record(client_hello(offered + [repeated])),
            AlertDescription.illegal_parameter, AlertDescription.decode_error,
        )


def unsupported_signature_schemes():
    for schemes in (uint16s(0x0201, 0x0203), uint16s(0x0202), uint16s(0xFE00)):
        # The alert is encrypted, because the ServerHello precedes the signature.
        assert_closes(record(client_hello(without(13, extensions()) + [(13, vector(2, schemes))])))
        older_hello = without(13, extensions(versions=None, shares=None)) + [(13, vector(2, schemes))]
        assert_refused(
            record(client_hello(older_hello, suites=(ECDHE_ECDSA, ECDHE_RSA))),
            AlertDescription.handshake_failure,
        )


def many_unknown_signature_schemes():
    schemes = uint16s(*range(0xFE00, 0xFF80), 0x0403, 0x0804, 0x0807)
    assert_server_hello(record(client_hello(without(13, extensions()) + [(13, vector(2, schemes))])))


def cbc_suites_are_refused():
    # CBC with and without SHA-2 (Lucky Thirteen, POODLE).
    offered = extensions(versions=None, shares=None)
    suites = (0xC009, 0xC00A, 0xC013, 0xC014, 0xC023, 0xC024, 0xC027, 0xC028, 0xC008, 0xC012, 0x0033, 0x009E)
    assert_refused(record(client_hello(offered, suites=suites)), AlertDescription.handshake_failure)


def groups_or_key_shares_missing():
    assert_refused(record(client_hello(extensions(shares=None))), AlertDescription.missing_extension)
    assert_refused(record(client_hello(extensions(groups=None))), AlertDescription.missing_extension)


def duplicate_key_share():
    twice = ((X25519, os.urandom(32)), (X25519, os.urandom(32)))
    assert_refused(record(client_hello(extensions(shares=twice))), AlertDescription.illegal_parameter)


def invalid_key_shares():
    # Points off the curve, at infinity, compressed and of wrong lengths; invalid ML-KEM keys.
    points = [b"\4" + b"\1" * 64, b"\0", b"\2" + b"\1" * 32, b"\4" + bytes(64), b"\4" + b"\1" * 63, b"\4" + b"\xff" * 64, b""]
    shares = [(P_256, point) for point in points]
    shares += [(24, b"\4" + b"\1" * 96), (24, b"\0")]
    shares += [(X25519_MLKEM, b"\xff" * 1216), (X25519_MLKEM, b"x" * 1215), (X25519_MLKEM, bytes(1217))]
    for group, share in shares:
        offered = extensions(groups=(group,), shares=((group, share),))
        assert_refused(record(client_hello(offered)), AlertDescription.illegal_parameter, AlertDescription.decode_error)


def low_order_key_shares():
    # RFC 7748 §6.1: points with which every shared secret is zero.
    for share in (bytes(32), b"\1" + bytes(31), bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
                  b"\xec" + b"\xff" * 30 + b"\x7f", b"\xed" + b"\xff" * 30 + b"\x7f", b"\xee" + b"\xff" * 30 + b"\x7f"):
        assert_refused(record(client_hello(extensions(shares=((X25519, share),)))), AlertDescription.illegal_parameter)


def invalid_server_names():
    def named(content):
        return record(client_hello([(0, content)] + without(0, extensions())))

    host = b"\0" + vector(2, b"localhost")
    for content in (b"", vector(2, b""), vector(2, host + host), vector(2, b"\0" + vector(2, b"")), vector(2, host) + b"x",
                    vector(2, host[:-1]), vector(2, b"\0" + vector(2, b"local\0host")), vector(2, b"\0" + vector(2, b"\xff\xfe"))):
        assert_refused(
            named(content),
            AlertDescription.decode_error, AlertDescription.illegal_parameter, AlertDescription.unrecognized_name,
        )
    # Unknown names get the first certificate. Includes the longest valid name.
    for name in (b"unknown.example", b"a." * 126 + b"a", b"127.0.0.1"):
        assert_server_hello(named(vector(2, b"\0" + vector(2, name))))


def malformed_protocol_lists():
    for content in (b"", vector(2, vector(1, b"")), vector(2, vector(1, b"h2") + vector(1, b"")), vector(2, vector(1, b"h2")) + b"x",
                    vector(2, b"\3h2"), uint16s(9) + vector(1, b"h2")):
        offered = extensions(more=[(16, content)])
        assert_refused(record(client_hello(offered)), AlertDescription.decode_error, AlertDescription.illegal_parameter)


def optional_extensions_are_ignored():
    # Smaller records (RFC 6066, RFC 8449), padding, heartbeat, compressed certificates, next protocol negotiation, ALPS.
    more = [(1, b"\1"), (28, uint16s(64)), (21, bytes(300)), (15, b"\1"), (27, b"\2\0\2"), (13172, b""), (17513, b"\0\3\2h2")]
    assert_server_hello(record(client_hello(extensions(more=more))))


def session_id_of_any_length():
    for length in range(33):
        named = client_hello(session=bytes(range(length)))
        assert vector(1, bytes(range(length))) + uint16s(AES_128_GCM) in assert_server_hello(record(named)), length
    assert_refused(record(client_hello(session=bytes(33))), AlertDescription.decode_error)


def different_second_hello():
    first = record(client_hello(extensions(shares=())))
    for second in (client_hello(extensions(shares=())), client_hello(extensions(shares=((P_256, b"\4" + b"\1" * 64),)))):
        with connect() as stream:
            stream.sendall(first)
            received = records(stream)
            assert HELLO_RETRY in next(received)[1]
            stream.sendall(record(second))
            alert = next((content for kind, content in received if kind == ALERT), None)
            assert alert in (b"\2\x2f", b"\2\x0a"), alert


def misplaced_change_cipher_spec():
    change = record(b"\1", 20, 0x0303)
    assert_refused(change + record(client_hello()), AlertDescription.unexpected_message)
    # After the hello, one is ignored for the sake of middleboxes (RFC 8446 §5), but neither many nor a malformed one.
    assert_server_hello(record(client_hello()) + change)
    for data in (change * 100, record(b"\2", 20, 0x0303), record(b"\1\1", 20, 0x0303)):
        assert_closes(record(client_hello()) + data)


def application_data_during_the_handshake():
    for version in (client_hello(), client_hello(extensions(versions=None, shares=None), suites=(ECDHE_ECDSA, ECDHE_RSA))):
        assert_closes(record(version) + record(REQUEST, DATA, 0x0303))


def alerts_during_the_handshake():
    older_hello = client_hello(extensions(versions=None, shares=None), suites=(ECDHE_ECDSA, ECDHE_RSA))
    for first in (client_hello(), older_hello):
        for alert in (b"\2\x28", b"\2", b"", b"\2\x28\0"):
            assert_closes(record(first) + record(alert, ALERT, 0x0303))
        assert_closes(record(first) + record(b"\1\x5a", ALERT, 0x0303) * 100)


# The client's second flight in TLS 1.2, which is plaintext before ChangeCipherSpec.


def assert_second_flight_refused(data, *alerts, offered=None):
    """Checks that the server's reply to this data, sent after its first flight in TLS 1.2, is one of these alerts."""
    offered = extensions(versions=None, shares=None) if offered is None else offered
    with connect() as stream:
        stream.sendall(record(client_hello(offered, suites=(ECDHE_ECDSA, ECDHE_RSA))))
        received, flight = records(stream), b""
        while not flight.endswith(b"\x0e\0\0\0"):
            kind, content = next(received)
            assert kind == HANDSHAKE, (kind, content)
            flight += content
        stream.sendall(data)
        alert = next(received, None)
        assert alert in [(ALERT, bytes([2, each])) for each in alerts], f"received {alert} after {data[:9]}"


def messages_out_of_order():
    for data in (record(b"\1", 20, 0x0303), record(b"\x14" + vector(3, bytes(12))), record(client_hello()), record(b"\x0e\0\0\0"),
                   record(b"\x18\0\0\1\0"), record(REQUEST, DATA, 0x0303)):
        assert_second_flight_refused(data, AlertDescription.unexpected_message, AlertDescription.decode_error)


def unrequested_certificate():
    assert_second_flight_refused(
        record(b"\x0b" + vector(3, vector(3, b""))),
        AlertDescription.unexpected_message,
    )
    assert_second_flight_refused(
        record(b"\x0f" + vector(3, uint16s(0x0403) + vector(2, b"x"))),
        AlertDescription.unexpected_message,
    )


def invalid_tls_1_2_key_exchanges():
    for share in (b"", b"\1" * 31, b"\1" * 33, bytes(32), b"\1" + bytes(31)):
        assert_second_flight_refused(
            record(b"\x10" + vector(3, vector(1, share))),
            AlertDescription.illegal_parameter, AlertDescription.decode_error,
        )
    offered = extensions(versions=None, groups=(P_256,), shares=None)
    for share in (b"\4" + b"\1" * 64, b"\0", b"\2" + b"\1" * 32, b"\4" + bytes(64)):
        assert_second_flight_refused(
            record(b"\x10" + vector(3, vector(1, share))),
            AlertDescription.illegal_parameter, AlertDescription.decode_error, offered=offered,
        )
    assert_second_flight_refused(
        record(b"\x10" + vector(3, vector(1, b"\1" * 32) + b"x")),
        AlertDescription.decode_error,
    )


def secure_renegotiation_is_signaled():
    # RFC 5746: the client requests it by an extension or a cipher suite, and the server confirms it.
    safe = uint16s(0xFF01, 1) + b"\0"
    offered = extensions(versions=None, shares=None)
    assert safe in assert_server_hello(record(client_hello(offered + [(0xFF01, b"\0")], suites=(ECDHE_ECDSA, ECDHE_RSA))))
    assert safe in assert_server_hello(record(client_hello(offered, suites=(ECDHE_ECDSA, ECDHE_RSA, 0x00FF))))


def renegotiation_info_in_first_hello():
    offered = extensions(versions=None, shares=None)
    renewed = client_hello(offered + [(0xFF01, vector(1, b"x" * 12))], suites=(ECDHE_ECDSA, ECDHE_RSA))
    assert_refused(record(renewed), AlertDescription.handshake_failure, AlertDescription.illegal_parameter)


def extended_master_secret_is_echoed():
    # RFC 7627: only if the client requests it.
    offered = extensions(versions=None, shares=None)
    for more in ([], [(23, b"")]):
        received = assert_server_hello(record(client_hello(offered + more, suites=(ECDHE_ECDSA, ECDHE_RSA))))
        assert (uint16s(23, 0) in received) == bool(more), received


CASES = [
    hello_in_one_byte_records, unknown_future_version, grease_values_are_ignored, session_id_is_echoed,
    hello_retry_request_without_key_share, downgrade_is_signaled, old_versions_are_refused, only_unknown_versions,
    no_common_cipher_suite, suites_without_forward_secrecy, no_common_group, key_share_of_wrong_length,
    zero_key_share, no_signature_algorithms, only_deflate_compression, duplicate_supported_versions,
    bytes_after_the_extensions, extension_exceeds_the_hello, empty_protocol_list, pre_shared_key_is_not_last,
    unknown_ticket_is_ignored, oversized_record, empty_handshake_record, oversized_handshake_message,
    message_before_the_hello, ssl_2_hello, request_without_tls, hello_truncated_at_each_byte,
    hello_in_several_records, hello_exceeds_the_limit, other_record_within_a_hello, legacy_versions_are_ignored,
    tls_1_3_is_preferred, empty_version_list, lists_of_odd_length, empty_lists, duplicate_extensions,
    unsupported_signature_schemes, many_unknown_signature_schemes, cbc_suites_are_refused,
    groups_or_key_shares_missing, duplicate_key_share, invalid_key_shares, low_order_key_shares,
    invalid_server_names, malformed_protocol_lists, optional_extensions_are_ignored, session_id_of_any_length,
    different_second_hello, misplaced_change_cipher_spec, application_data_during_the_handshake,
    alerts_during_the_handshake, messages_out_of_order, unrequested_certificate, invalid_tls_1_2_key_exchanges,
    secure_renegotiation_is_signaled, renegotiation_info_in_first_hello, extended_master_secret_is_echoed,
]
