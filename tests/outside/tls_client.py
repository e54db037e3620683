"""TLS client for the cases: messages assembled byte by byte, connections of tlslite-ng, and checks of the server's reply."""

import os
import socket
import struct
import sys

from tlslite.api import HandshakeSettings, TLSConnection
from tlslite.errors import TLSRemoteAlert

HOST, PORT = sys.argv[1], int(sys.argv[2])
HANDSHAKE, ALERT, DATA = 22, 21, 23
AES_128_GCM = 0x1301
TLS_1_2, TLS_1_3 = (3, 3), (3, 4)
ECDHE_ECDSA, ECDHE_RSA = 0xC02B, 0xC02F
X25519, P_256, X25519_MLKEM = 29, 23, 0x11EC
HELLO_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def connect():
    return socket.create_connection((HOST, PORT), timeout=10)


def vector(size, content):
    """Returns a vector (RFC 8446 §3.4): the content after its length, an integer of `size` bytes."""
    return len(content).to_bytes(size, "big") + content


def uint16s(*numbers):
    return struct.pack(f">{len(numbers)}H", *numbers)


def extensions(versions=(0x0304,), groups=(X25519, P_256), shares=((X25519, os.urandom(32)),), more=()):
    """Returns the extensions of a TLS 1.3 ClientHello as pairs of type and content. An argument of `None` omits its extension."""
    offered = [(0, vector(2, b"\0" + vector(2, b"localhost")))]
    if versions is not None:
        offered.append((43, vector(1, uint16s(*versions))))
    if groups is not None:
        offered.append((10, vector(2, uint16s(*groups))))
    offered.append((13, vector(2, uint16s(0x0403, 0x0804, 0x0401, 0x0807))))
    if shares is not None:
        offered.append((51, vector(2, b"".join(uint16s(group) + vector(2, share) for group, share in shares))))
    return offered + list(more)


def without(kind, offered):
    return [each for each in offered if each[0] != kind]


def client_hello(offered=None, suites=(AES_128_GCM,), version=0x0303, compressions=b"\0", last=b"", trailing=b"", session=b"s" * 32):
    offered = extensions() if offered is None else offered
    body = uint16s(version) + os.urandom(32) + vector(1, session)
    body += vector(2, uint16s(*suites)) + vector(1, compressions)
    body += vector(2, b"".join(uint16s(kind) + vector(2, content) for kind, content in offered) + last) + trailing
    return b"\1" + vector(3, body)


def record(content, kind=HANDSHAKE, version=0x0301):
    return bytes([kind]) + uint16s(version) + vector(2, content)


def read_exactly(stream, count):
    content = b""
    while len(content) < count:
        piece = stream.recv(count - len(content))
        if not piece:
            return None
        content += piece
    return content


def first_record(data):
    """Sends data on a new connection. Returns the type and content of the server's first record, or `None` if it sends none."""
    with connect() as stream:
        stream.sendall(data)
        try:
            head = read_exactly(stream, 5)
            return head and (head[0], read_exactly(stream, int.from_bytes(head[3:], "big")))
        except ConnectionResetError:
            return None


def assert_closes(data):
    """Checks that the server closes the connection after this data. It may send an alert before, possibly encrypted."""
    with connect() as stream:
        try:
            stream.sendall(data)
            received = b""
            while piece := stream.recv(65536):
                received += piece
        except (ConnectionResetError, BrokenPipeError):
            pass


def records(stream):
    """Yields type and content of the server's records, until it closes the connection."""
    while head := read_exactly(stream, 5):
        yield head[0], read_exactly(stream, int.from_bytes(head[3:], "big"))


def assert_refused(data, *alerts):
    """Checks that the server's only reply to this data is one of these alerts, with level fatal."""
    received = first_record(data)
    wanted = [(ALERT, bytes([2, alert])) for alert in alerts]
    assert received in wanted, f"received {received}, expected one of {wanted}"


def assert_server_hello(data):
    """Checks that the server replies with a ServerHello, and returns that message."""
    received = first_record(data)
    assert received and received[0] == HANDSHAKE and received[1][0] == 2, f"received {received}"
    return received[1]


def assert_no_tls_reply(data):
    """Checks that the server closes without a handshake: with an alert at most, or with an error in plaintext HTTP."""
    received = first_record(data)
    assert received is None or received[0] in (ALERT, b"H"[0]), f"received {received}"


def handshake(version, protocols=(b"http/1.1",), **more):
    """Returns a connection after its handshake. `more` are attributes of tlslite's HandshakeSettings."""
    settings = HandshakeSettings()
    for name, value in more.items():
        setattr(settings, name, value)
    settings.minVersion = settings.maxVersion = version
    connection = TLSConnection(connect())
    offered = [bytearray(each) for each in protocols] or None
    connection.handshakeClientCert(settings=settings, serverName="localhost", alpn=offered)
    return connection


def send(connection, message):
    for _ in connection._sendMsg(message):
        pass


def assert_response(connection):
    connection.write(REQUEST)
    received = b""
    while piece := connection.read(max=65536, min=1):
        received += piece
    assert received.startswith(b"HTTP/1.1 200 "), received[:200]


def assert_alert(connection, *alerts):
    """Checks that the server closes the connection with one of these alerts, and sends no more data."""
    try:
        received = connection.read(max=1, min=1)
        raise AssertionError(f"received {received!r}")
    except TLSRemoteAlert as alert:
        assert alert.description in alerts, f"alert {alert}"
