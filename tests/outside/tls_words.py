"""What is said to a server, octet by octet or by tlslite-ng, and what it is to answer."""

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


def sized(size, content):
    """Content behind its length in so many octets."""
    return len(content).to_bytes(size, "big") + content


def shorts(*numbers):
    return struct.pack(f">{len(numbers)}H", *numbers)


def extensions(versions=(0x0304,), groups=(X25519, P_256), shares=((X25519, os.urandom(32)),), more=()):
    """The extensions of a hello of TLS 1.3, by type; an argument that is `None` leaves its own out."""
    found = [(0, sized(2, b"\0" + sized(2, b"localhost")))]
    if versions is not None:
        found.append((43, sized(1, shorts(*versions))))
    if groups is not None:
        found.append((10, sized(2, shorts(*groups))))
    found.append((13, sized(2, shorts(0x0403, 0x0804, 0x0401, 0x0807))))
    if shares is not None:
        found.append((51, sized(2, b"".join(shorts(group) + sized(2, share) for group, share in shares))))
    return found + list(more)


def without(kind, found):
    return [each for each in found if each[0] != kind]


def hello(found=None, suites=(AES_128_GCM,), version=0x0303, compressions=b"\0", last=b"", behind=b"", session=b"s" * 32):
    found = extensions() if found is None else found
    body = shorts(version) + os.urandom(32) + sized(1, session)
    body += sized(2, shorts(*suites)) + sized(1, compressions)
    body += sized(2, b"".join(shorts(kind) + sized(2, content) for kind, content in found) + last) + behind
    return b"\1" + sized(3, body)


def record(content, kind=HANDSHAKE, version=0x0301):
    return bytes([kind]) + shorts(version) + sized(2, content)


def read(stream, count):
    content = b""
    while len(content) < count:
        piece = stream.recv(count - len(content))
        if not piece:
            return None
        content += piece
    return content


def answer(octets):
    """What the server says first to octets: the type and content of a record, or nothing."""
    with connect() as stream:
        stream.sendall(octets)
        try:
            head = read(stream, 5)
            return head and (head[0], read(stream, int.from_bytes(head[3:], "big")))
        except ConnectionResetError:
            return None


def ends(octets):
    """The server ends the connection at octets, whatever it says before: an alert may be sealed."""
    with connect() as stream:
        try:
            stream.sendall(octets)
            said = b""
            while piece := stream.recv(65536):
                said += piece
        except (ConnectionResetError, BrokenPipeError):
            pass


def records(stream):
    """Records of a server, until it ends."""
    while head := read(stream, 5):
        yield head[0], read(stream, int.from_bytes(head[3:], "big"))


def refuses(octets, *alerts):
    """The server ends with one of these alerts, which is fatal, and says nothing else."""
    said = answer(octets)
    wanted = [(ALERT, bytes([2, alert])) for alert in alerts]
    assert said in wanted, f"said {said}, instead of one of {wanted}"


def begins(octets):
    """The server says hello; gives the message."""
    said = answer(octets)
    assert said and said[0] == HANDSHAKE and said[1][0] == 2, f"said {said}"
    return said[1]


def says_nothing(octets):
    """The server ends, with an alert at most, or in words to who seems to speak HTTP."""
    said = answer(octets)
    assert said is None or said[0] in (ALERT, b"H"[0]), f"said {said}"


def secured(version, protocols=(b"http/1.1",), **more):
    """A connection that has shaken hands; `more` are settings of the library's."""
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


def is_answered(connection):
    connection.write(REQUEST)
    said = b""
    while piece := connection.read(max=65536, min=1):
        said += piece
    assert said.startswith(b"HTTP/1.1 200 "), said[:200]


def ends_with(connection, *alerts):
    """The server ends the connection with one of these alerts, and answers nothing more."""
    try:
        said = connection.read(max=1, min=1)
        raise AssertionError(f"said {said!r}")
    except TLSRemoteAlert as alert:
        assert alert.description in alerts, f"alert {alert}"
