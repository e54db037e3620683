"""Cases with a complete handshake, which tlslite-ng makes, and messages after it."""

import os

from tlslite.constants import AlertDescription, ContentType, KeyUpdateMessageType
from tlslite.errors import TLSRemoteAlert
from tlslite.messages import Alert, ApplicationData, ClientHello, Heartbeat, KeyUpdate, Message

from tls_client import (
    AES_128_GCM, DATA, ECDHE_ECDSA, ECDHE_RSA, REQUEST, TLS_1_2, TLS_1_3, assert_alert, assert_refused,
    assert_response, assert_server_hello, client_hello, extensions, handshake, vector, record, send,
    uint16s,
)


def both_versions():
    for version in (TLS_1_2, TLS_1_3):
        assert_response(handshake(version))


def unknown_protocol_is_refused():
    for version in (TLS_1_2, TLS_1_3):
        try:
            handshake(version, protocols=(b"smtp",))
            raise AssertionError("the handshake completed")
        except TLSRemoteAlert as alert:
            assert alert.description == AlertDescription.no_application_protocol, alert


def no_protocol_offered():
    assert_response(handshake(TLS_1_3, protocols=()))


def request_in_one_byte_records():
    for version in (TLS_1_2, TLS_1_3):
        connection = handshake(version)
        for byte in REQUEST:
            send(connection, ApplicationData().create(bytearray([byte])))
        received = connection.read(max=65536, min=12)
        assert received.startswith(b"HTTP/1.1 200"), received


def empty_records():
    connection = handshake(TLS_1_3)
    for _ in range(20):
        send(connection, ApplicationData().create(bytearray()))
    assert_response(connection)


def key_updates():
    connection = handshake(TLS_1_3)
    for wanted in (KeyUpdateMessageType.update_requested, KeyUpdateMessageType.update_not_requested):
        for _ in connection.send_keyupdate_request(wanted):
            pass
    assert_response(connection)


def key_update_of_unknown_kind():
    connection = handshake(TLS_1_3)
    send(connection, KeyUpdate().create(7))
    assert_alert(connection, AlertDescription.illegal_parameter, AlertDescription.decode_error)


def second_client_hello():
    for version in (TLS_1_2, TLS_1_3):
        connection = handshake(version)
        repeated = ClientHello().create((3, 3), bytearray(os.urandom(32)), bytearray(0), [ECDHE_ECDSA, ECDHE_RSA, AES_128_GCM])
        send(connection, repeated)
        assert_alert(
            connection,
            AlertDescription.unexpected_message, AlertDescription.no_renegotiation, AlertDescription.decode_error,
        )


def heartbeat():
    # Heartbleed (CVE-2014-0160): a heartbeat that states a longer payload than it has.
    for version in (TLS_1_2, TLS_1_3):
        connection = handshake(version)
        send(connection, Heartbeat().create(1, bytearray(b"x"), 16))
        assert_alert(
            connection,
            AlertDescription.unexpected_message, AlertDescription.decode_error, AlertDescription.illegal_parameter,
        )


def corrupted_record():
    for version in (TLS_1_2, TLS_1_3):
        connection = handshake(version)
        stream = connection.sock.socket
        sealed = []
        connection.sock.socket = type("Capture", (), {"send": lambda self, data: sealed.append(bytes(data)) or len(data)})()
        send(connection, ApplicationData().create(bytearray(REQUEST)))
        connection.sock.flush() if hasattr(connection.sock, "flush") else None
        connection.sock.socket = stream
        data = b"".join(sealed)
        stream.sendall(data[:-1] + bytes([data[-1] ^ 1]))
        assert_alert(connection, AlertDescription.bad_record_mac)


def change_cipher_spec_after_the_handshake():
    connection = handshake(TLS_1_3)
    connection.sock.socket.sendall(record(b"\1", 20, 0x0303))
    assert_alert(connection, AlertDescription.unexpected_message)


def wrong_finished():
    # The fifth call of this function computes the verify_data of the client's Finished.
    import tlslite.tlsconnection as library

    real, calls = library.secureHMAC, []

    def wrong(key, content, algorithm):
        proof = real(key, content, algorithm)
        calls.append(proof)
        return proof if len(calls) < 5 else bytearray(len(proof))

    library.secureHMAC = wrong
    try:
        connection = handshake(TLS_1_3)
        assert_alert(connection, AlertDescription.decrypt_error)
    except TLSRemoteAlert as alert:
        assert alert.description == AlertDescription.decrypt_error, alert
    finally:
        library.secureHMAC = real
    assert len(calls) == 5, f"called {len(calls)} times"


def close_notify_is_answered():
    for version in (TLS_1_2, TLS_1_3):
        connection = handshake(version)
        send(connection, Alert().create(AlertDescription.close_notify, 1))
        connection.closeSocket = False
        received = connection.read(max=1, min=1)
        assert received == b"", received


def message(kind, content):
    """Returns a handshake message that the library itself would not send."""
    return Message(ContentType.handshake, bytearray(bytes([kind]) + vector(3, content)))


def key_shares_of_each_group():
    # One ClientHello suffices with a key share of the group; without one, the server requests a second.
    for group in ("x25519", "secp256r1", "secp384r1"):
        assert_response(handshake(TLS_1_3, keyShares=[group]))
    assert_response(handshake(TLS_1_3, keyShares=[]))


def record_size_limit():
    for version in (TLS_1_2, TLS_1_3):
        assert_response(handshake(version, record_size_limit=64 if version == TLS_1_2 else 16384))


def maximum_padding():
    assert_response(handshake(TLS_1_3, padding_cb=lambda length, kind, most: most))


def handshake_messages_after_the_handshake():
    # Certificate, CertificateRequest, NewSessionTicket, ServerHello, EndOfEarlyData, Finished, and an unknown type.
    for kind, content in ((11, b"\0" + vector(3, b"")), (13, b"\0" + vector(2, b"")), (4, bytes(20)), (2, bytes(40)), (5, b""), (20, bytes(32)), (99, b"")):
        for version in (TLS_1_2, TLS_1_3):
            connection = handshake(version)
            send(connection, message(kind, content))
            assert_alert(connection, AlertDescription.unexpected_message)


def fragmented_key_update():
    connection = handshake(TLS_1_3)
    send(connection, Message(ContentType.handshake, bytearray(b"\x18\0")))
    send(connection, Message(ContentType.application_data, bytearray(b"x")))
    assert_alert(connection, AlertDescription.unexpected_message)


def key_update_of_wrong_length():
    for content in (b"", b"\0\0"):
        connection = handshake(TLS_1_3)
        send(connection, message(24, content))
        assert_alert(connection, AlertDescription.decode_error)


def two_key_updates_in_a_record():
    connection = handshake(TLS_1_3)
    send(connection, Message(ContentType.handshake, bytearray(b"\x18\0\0\1\0" * 2)))
    assert_alert(connection, AlertDescription.unexpected_message)


def key_update_in_tls_1_2():
    connection = handshake(TLS_1_2)
    send(connection, KeyUpdate().create(0))
    assert_alert(connection, AlertDescription.unexpected_message)


def endless_key_updates():
    connection = handshake(TLS_1_3)
    try:
        for _ in range(100):
            for _ in connection.send_keyupdate_request(KeyUpdateMessageType.update_not_requested):
                pass
    except (ConnectionError, OSError):
        return
    assert_alert(connection, AlertDescription.unexpected_message)


def endless_empty_records():
    for version in (TLS_1_2, TLS_1_3):
        connection = handshake(version)
        for _ in range(100):
            try:
                send(connection, ApplicationData().create(bytearray()))
            except (ConnectionError, OSError):
                break
        assert_alert(connection, AlertDescription.unexpected_message)


def empty_messages():
    for version in (TLS_1_2, TLS_1_3):
        for kind in (ContentType.handshake, ContentType.alert):
            connection = handshake(version)
            connection.sock.flush()
            for _ in connection._recordLayer.sendRecord(Message(kind, bytearray())):
                pass
            connection.sock.flush()
            assert_alert(connection, AlertDescription.unexpected_message)


def oversized_record_after_the_handshake():
    for version, length in ((TLS_1_2, 2**14 + 2049), (TLS_1_3, 2**14 + 257)):
        connection = handshake(version)
        connection.sock.socket.sendall(bytes([DATA, 3, 3]) + uint16s(length))
        assert_alert(connection, AlertDescription.record_overflow)


def record_shorter_than_its_tag():
    for version in (TLS_1_2, TLS_1_3):
        for length in (0, 1, 15, 16, 17, 23):
            connection = handshake(version)
            connection.sock.socket.sendall(record(bytes(length), DATA, 0x0303))
            assert_alert(connection, AlertDescription.bad_record_mac)


def warning_alerts_are_ignored():
    connection = handshake(TLS_1_2)
    send(connection, Alert().create(AlertDescription.no_renegotiation, 1))
    send(connection, Alert().create(AlertDescription.user_canceled, 1))
    assert_response(connection)


def request_after_close_notify():
    for version in (TLS_1_2, TLS_1_3):
        connection = handshake(version)
        send(connection, Alert().create(AlertDescription.close_notify, 1))
        try:
            send(connection, ApplicationData().create(bytearray(REQUEST)))
        except (ConnectionError, OSError):
            pass
        connection.closeSocket = False
        received = connection.read(max=1, min=1)
        assert received == b"", received


def obtain_ticket():
    """Returns a ticket of this server, for a session with the only cipher suite that our hellos offer."""
    connection = handshake(TLS_1_3, cipherNames=["aes128gcm"])
    assert_response(connection)
    assert connection.tickets, "no ticket was given"
    return bytes(connection.tickets[0].ticket)


def resumption_hello(ticket, modes=b"\1\1", binder=bytes(32)):
    """Returns a ClientHello that offers a ticket, with a binder made without the ticket's secret."""
    offer = vector(2, vector(2, ticket) + bytes(4)) + vector(2, vector(1, binder))
    offered = extensions(more=([(45, modes)] if modes else []) + [(41, offer)])
    return record(client_hello(offered))


def wrong_binder():
    assert_refused(
        resumption_hello(obtain_ticket()),
        AlertDescription.decrypt_error, AlertDescription.illegal_parameter,
    )
    assert_refused(
        resumption_hello(obtain_ticket(), binder=bytes(48)),
        AlertDescription.decrypt_error, AlertDescription.illegal_parameter,
    )


def damaged_ticket_is_ignored():
    ticket = obtain_ticket()
    changed = [ticket[:place] + bytes([ticket[place] ^ 1]) + ticket[place + 1:] for place in range(0, len(ticket), 7)]
    for each in changed + [ticket[:end] for end in range(1, len(ticket), 7)] + [ticket + b"x"]:
        received = assert_server_hello(resumption_hello(each))
        assert uint16s(41, 2, 0) not in received, "resumed with a damaged ticket"


def missing_psk_modes():
    assert_refused(resumption_hello(obtain_ticket(), modes=None), AlertDescription.missing_extension)


def binder_count_mismatch():
    ticket = obtain_ticket()
    offer = vector(2, vector(2, ticket) + bytes(4)) + vector(2, vector(1, bytes(32)) * 2)
    offered = extensions(more=[(45, b"\1\1"), (41, offer)])
    assert_refused(
        record(client_hello(offered)),
        AlertDescription.illegal_parameter, AlertDescription.decrypt_error, AlertDescription.decode_error,
    )


def wrong_tls_1_2_finished():
    import tlslite.tlsconnection as library

    real = library.calc_key

    def wrong(*arguments, **more):
        proof = real(*arguments, **more)
        return bytearray(len(proof)) if b"client finished" in arguments else proof

    library.calc_key = wrong
    try:
        handshake(TLS_1_2)
        raise AssertionError("the handshake completed")
    except TLSRemoteAlert as alert:
        assert alert.description == AlertDescription.decrypt_error, alert
    finally:
        library.calc_key = real


CASES = [
    both_versions, unknown_protocol_is_refused, no_protocol_offered, request_in_one_byte_records, empty_records,
    key_updates, key_update_of_unknown_kind, second_client_hello, heartbeat, corrupted_record,
    change_cipher_spec_after_the_handshake, wrong_finished, close_notify_is_answered, key_shares_of_each_group,
    record_size_limit, maximum_padding, handshake_messages_after_the_handshake, fragmented_key_update,
    key_update_of_wrong_length, two_key_updates_in_a_record, key_update_in_tls_1_2, endless_key_updates,
    endless_empty_records, empty_messages, oversized_record_after_the_handshake, record_shorter_than_its_tag,
    warning_alerts_are_ignored, request_after_close_notify, wrong_binder, damaged_ticket_is_ignored,
    missing_psk_modes, binder_count_mismatch, wrong_tls_1_2_finished,
]
