"""Handshakes that come to their end, by tlslite-ng, and what is said behind them."""

import os

from tlslite.constants import AlertDescription, ContentType, KeyUpdateMessageType
from tlslite.errors import TLSRemoteAlert
from tlslite.messages import Alert, ApplicationData, ClientHello, Heartbeat, KeyUpdate, Message

from tls_words import (
    AES_128_GCM, DATA, ECDHE_ECDSA, ECDHE_RSA, REQUEST, TLS_1_2, TLS_1_3, begins, ends_with, extensions, hello, is_answered, record,
    refuses, secured, send, shorts, sized,
)


def both_versions():
    for version in (TLS_1_2, TLS_1_3):
        is_answered(secured(version))


def protocol_that_is_not_spoken():
    for version in (TLS_1_2, TLS_1_3):
        try:
            secured(version, protocols=(b"smtp",))
            raise AssertionError("the handshake came to its end")
        except TLSRemoteAlert as alert:
            assert alert.description == AlertDescription.no_application_protocol, alert


def no_protocol_offered():
    is_answered(secured(TLS_1_3, protocols=()))


def request_in_records_of_an_octet():
    for version in (TLS_1_2, TLS_1_3):
        connection = secured(version)
        for octet in REQUEST:
            send(connection, ApplicationData().create(bytearray([octet])))
        said = connection.read(max=65536, min=12)
        assert said.startswith(b"HTTP/1.1 200"), said


def records_of_nothing():
    connection = secured(TLS_1_3)
    for _ in range(20):
        send(connection, ApplicationData().create(bytearray()))
    is_answered(connection)


def new_keys_in_between():
    connection = secured(TLS_1_3)
    for wanted in (KeyUpdateMessageType.update_requested, KeyUpdateMessageType.update_not_requested):
        for _ in connection.send_keyupdate_request(wanted):
            pass
    is_answered(connection)


def new_keys_of_an_unknown_kind():
    connection = secured(TLS_1_3)
    send(connection, KeyUpdate().create(7))
    ends_with(connection, AlertDescription.illegal_parameter, AlertDescription.decode_error)


def hello_once_more():
    for version in (TLS_1_2, TLS_1_3):
        connection = secured(version)
        again = ClientHello().create((3, 3), bytearray(os.urandom(32)), bytearray(0), [ECDHE_ECDSA, ECDHE_RSA, AES_128_GCM])
        send(connection, again)
        ends_with(connection, AlertDescription.unexpected_message, AlertDescription.no_renegotiation, AlertDescription.decode_error)


def heartbeat():
    # The record that asked for more than it brought, and was given it.
    for version in (TLS_1_2, TLS_1_3):
        connection = secured(version)
        send(connection, Heartbeat().create(1, bytearray(b"x"), 16))
        ends_with(connection, AlertDescription.unexpected_message, AlertDescription.decode_error, AlertDescription.illegal_parameter)


def record_that_was_changed_on_the_way():
    for version in (TLS_1_2, TLS_1_3):
        connection = secured(version)
        stream = connection.sock.socket
        sealed = []
        connection.sock.socket = type("Held", (), {"send": lambda self, octets: sealed.append(bytes(octets)) or len(octets)})()
        send(connection, ApplicationData().create(bytearray(REQUEST)))
        connection.sock.flush() if hasattr(connection.sock, "flush") else None
        connection.sock.socket = stream
        octets = b"".join(sealed)
        stream.sendall(octets[:-1] + bytes([octets[-1] ^ 1]))
        ends_with(connection, AlertDescription.bad_record_mac)


def change_of_ciphers_behind_the_handshake():
    connection = secured(TLS_1_3)
    connection.sock.socket.sendall(record(b"\1", 20, 0x0303))
    ends_with(connection, AlertDescription.unexpected_message)


def finished_that_proves_nothing():
    # The octets by which a client shows that it saw the same handshake are what this function is asked for last.
    import tlslite.tlsconnection as inside

    real, calls = inside.secureHMAC, []

    def wrong(key, content, algorithm):
        proof = real(key, content, algorithm)
        calls.append(proof)
        return proof if len(calls) < 5 else bytearray(len(proof))

    inside.secureHMAC = wrong
    try:
        connection = secured(TLS_1_3)
        ends_with(connection, AlertDescription.decrypt_error)
    except TLSRemoteAlert as alert:
        assert alert.description == AlertDescription.decrypt_error, alert
    finally:
        inside.secureHMAC = real
    assert len(calls) == 5, f"{len(calls)} times"


def end_is_answered_by_an_end():
    for version in (TLS_1_2, TLS_1_3):
        connection = secured(version)
        send(connection, Alert().create(AlertDescription.close_notify, 1))
        connection.closeSocket = False
        said = connection.read(max=1, min=1)
        assert said == b"", said

def message(kind, content):
    """A message of the handshake that the library would not send."""
    return Message(ContentType.handshake, bytearray(bytes([kind]) + sized(3, content)))


def shares_of_each_group():
    # One hello is enough for those with a share, two are needed for those without.
    for group in ("x25519", "secp256r1", "secp384r1"):
        is_answered(secured(TLS_1_3, keyShares=[group]))
    is_answered(secured(TLS_1_3, keyShares=[]))


def small_records_asked_for():
    for version in (TLS_1_2, TLS_1_3):
        is_answered(secured(version, record_size_limit=64 if version == TLS_1_2 else 16384))


def padding_up_to_the_end():
    is_answered(secured(TLS_1_3, padding_cb=lambda length, kind, most: most))


def messages_behind_the_handshake():
    # A certificate that nobody asked for, a request for one, a ticket, another's hello, the end of early data.
    for kind, content in ((11, b"\0" + sized(3, b"")), (13, b"\0" + sized(2, b"")), (4, bytes(20)), (2, bytes(40)), (5, b""), (20, bytes(32)), (99, b"")):
        for version in (TLS_1_2, TLS_1_3):
            connection = secured(version)
            send(connection, message(kind, content))
            ends_with(connection, AlertDescription.unexpected_message)


def new_keys_in_pieces():
    connection = secured(TLS_1_3)
    send(connection, Message(ContentType.handshake, bytearray(b"\x18\0")))
    send(connection, Message(ContentType.application_data, bytearray(b"x")))
    ends_with(connection, AlertDescription.unexpected_message)


def new_keys_of_a_wrong_length():
    for content in (b"", b"\0\0"):
        connection = secured(TLS_1_3)
        send(connection, message(24, content))
        ends_with(connection, AlertDescription.decode_error)


def two_new_keys_in_a_record():
    connection = secured(TLS_1_3)
    send(connection, Message(ContentType.handshake, bytearray(b"\x18\0\0\1\0" * 2)))
    ends_with(connection, AlertDescription.unexpected_message)


def new_keys_in_tls_1_2():
    connection = secured(TLS_1_2)
    send(connection, KeyUpdate().create(0))
    ends_with(connection, AlertDescription.unexpected_message)


def new_keys_without_end():
    connection = secured(TLS_1_3)
    try:
        for _ in range(100):
            for _ in connection.send_keyupdate_request(KeyUpdateMessageType.update_not_requested):
                pass
    except (ConnectionError, OSError):
        return
    ends_with(connection, AlertDescription.unexpected_message)


def records_of_nothing_without_end():
    for version in (TLS_1_2, TLS_1_3):
        connection = secured(version)
        for _ in range(100):
            try:
                send(connection, ApplicationData().create(bytearray()))
            except (ConnectionError, OSError):
                break
        ends_with(connection, AlertDescription.unexpected_message)


def messages_of_nothing():
    for version in (TLS_1_2, TLS_1_3):
        for kind in (ContentType.handshake, ContentType.alert):
            connection = secured(version)
            connection.sock.flush()
            for _ in connection._recordLayer.sendRecord(Message(kind, bytearray())):
                pass
            connection.sock.flush()
            ends_with(connection, AlertDescription.unexpected_message)


def record_behind_the_handshake_longer_than_any():
    for version, length in ((TLS_1_2, 2**14 + 2049), (TLS_1_3, 2**14 + 257)):
        connection = secured(version)
        connection.sock.socket.sendall(bytes([DATA, 3, 3]) + shorts(length))
        ends_with(connection, AlertDescription.record_overflow)


def record_shorter_than_its_seal():
    for version in (TLS_1_2, TLS_1_3):
        for length in (0, 1, 15, 16, 17, 23):
            connection = secured(version)
            connection.sock.socket.sendall(record(bytes(length), DATA, 0x0303))
            ends_with(connection, AlertDescription.bad_record_mac)


def warnings_without_a_meaning():
    connection = secured(TLS_1_2)
    send(connection, Alert().create(AlertDescription.no_renegotiation, 1))
    send(connection, Alert().create(AlertDescription.user_canceled, 1))
    is_answered(connection)


def request_behind_the_end():
    for version in (TLS_1_2, TLS_1_3):
        connection = secured(version)
        send(connection, Alert().create(AlertDescription.close_notify, 1))
        try:
            send(connection, ApplicationData().create(bytearray(REQUEST)))
        except (ConnectionError, OSError):
            pass
        connection.closeSocket = False
        said = connection.read(max=1, min=1)
        assert said == b"", said


def ticket_of():
    """A ticket that this server has given, for sessions of the one suite that a hello offers here."""
    connection = secured(TLS_1_3, cipherNames=["aes128gcm"])
    is_answered(connection)
    assert connection.tickets, "no ticket was given"
    return bytes(connection.tickets[0].ticket)


def resumes(ticket, modes=b"\1\1", binder=bytes(32)):
    """A hello that wants to go on by a ticket, without knowing what it proves."""
    offer = sized(2, sized(2, ticket) + bytes(4)) + sized(2, sized(1, binder))
    found = extensions(more=([(45, modes)] if modes else []) + [(41, offer)])
    return record(hello(found))


def ticket_without_its_proof():
    refuses(resumes(ticket_of()), AlertDescription.decrypt_error, AlertDescription.illegal_parameter)
    refuses(resumes(ticket_of(), binder=bytes(48)), AlertDescription.decrypt_error, AlertDescription.illegal_parameter)


def ticket_cut_or_changed():
    ticket = ticket_of()
    changed = [ticket[:place] + bytes([ticket[place] ^ 1]) + ticket[place + 1:] for place in range(0, len(ticket), 7)]
    for each in changed + [ticket[:end] for end in range(1, len(ticket), 7)] + [ticket + b"x"]:
        said = begins(resumes(each))
        assert shorts(41, 2, 0) not in said, "went on by a ticket that is none"


def ticket_without_its_modes():
    refuses(resumes(ticket_of(), modes=None), AlertDescription.missing_extension)


def ticket_with_another_number_of_proofs():
    ticket = ticket_of()
    offer = sized(2, sized(2, ticket) + bytes(4)) + sized(2, sized(1, bytes(32)) * 2)
    found = extensions(more=[(45, b"\1\1"), (41, offer)])
    refuses(record(hello(found)), AlertDescription.illegal_parameter, AlertDescription.decrypt_error, AlertDescription.decode_error)


def finished_of_tls_1_2_that_proves_nothing():
    import tlslite.tlsconnection as inside

    real = inside.calc_key

    def wrong(*arguments, **more):
        proof = real(*arguments, **more)
        return bytearray(len(proof)) if b"client finished" in arguments else proof

    inside.calc_key = wrong
    try:
        secured(TLS_1_2)
        raise AssertionError("the handshake came to its end")
    except TLSRemoteAlert as alert:
        assert alert.description == AlertDescription.decrypt_error, alert
    finally:
        inside.calc_key = real


CASES = [
    both_versions, protocol_that_is_not_spoken, no_protocol_offered, request_in_records_of_an_octet, records_of_nothing,
    new_keys_in_between, new_keys_of_an_unknown_kind, hello_once_more, heartbeat, record_that_was_changed_on_the_way,
    change_of_ciphers_behind_the_handshake, finished_that_proves_nothing, end_is_answered_by_an_end, shares_of_each_group,
    small_records_asked_for, padding_up_to_the_end, messages_behind_the_handshake, new_keys_in_pieces,
    new_keys_of_a_wrong_length, two_new_keys_in_a_record, new_keys_in_tls_1_2, new_keys_without_end,
    records_of_nothing_without_end, messages_of_nothing, record_behind_the_handshake_longer_than_any,
    record_shorter_than_its_seal, warnings_without_a_meaning, request_behind_the_end, ticket_without_its_proof,
    ticket_cut_or_changed, ticket_without_its_modes, ticket_with_another_number_of_proofs,
    finished_of_tls_1_2_that_proves_nothing,
]
