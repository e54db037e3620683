"""An HTTP/3 client over aioquic without an event loop, with hooks for frames, transport parameters and hellos that aioquic
doesn't send."""

import os
import socket
import ssl
import time

from aioquic import tls
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicPacketType

# Seconds until a case fails that waits.
TIMEOUT = 20


class Hooked(QuicConnection):
    """A connection that also sends the frames, parameters and hellos of a case."""

    # Frames to send in packets of their own: pairs of type and payload, by epoch.
    frames = None
    change_parameters = None
    change_hello = None

    def _serialize_transport_parameters(self):
        parameters = super()._serialize_transport_parameters()
        return self.change_parameters(parameters) if self.change_parameters else parameters

    def _connect(self, now):
        original = tls.push_client_hello

        def push(buffer, hello):
            if self.change_hello:
                self.change_hello(hello)
            original(buffer, hello)

        tls.push_client_hello = push
        try:
            super()._connect(now)
        finally:
            tls.push_client_hello = original

    def _write_handshake(self, builder, epoch, now):
        if epoch == tls.Epoch.HANDSHAKE:
            self._write_frames(builder, epoch, QuicPacketType.HANDSHAKE)
        super()._write_handshake(builder, epoch, now)

    def _write_application(self, builder, network_path, now):
        self._write_frames(builder, tls.Epoch.ONE_RTT, QuicPacketType.ONE_RTT)
        super()._write_application(builder, network_path, now)

    def _write_frames(self, builder, epoch, packet_type):
        frames = (self.frames or {}).get(epoch)
        if frames and self._cryptos[epoch].send.is_valid():
            self.frames = None
            builder.start_packet(packet_type, self._cryptos[epoch])
            for kind, payload in frames:
                buffer = builder.start_frame(kind, capacity=len(payload) + 8)
                buffer.push_bytes(payload)


class Client:
    """A connection to the server. The response to each request is collected by its stream."""

    def __init__(self, address, http3=True, hooks=None, **settings):
        self.address = address
        self.tickets = []
        self.tokens = []
        self.settings = dict(
            alpn_protocols=H3_ALPN, is_client=True, verify_mode=ssl.CERT_NONE, server_name="localhost"
        ) | settings
        self.quic = Hooked(
            configuration=QuicConfiguration(**self.settings),
            session_ticket_handler=self.tickets.append,
            token_handler=self.tokens.append,
        )
        for name, value in (hooks or {}).items():
            setattr(self.quic, name, value)
        self.socket = bind("127.0.0.1")
        self.http3 = H3Connection(self.quic) if http3 else None
        # Events of QUIC, in their order.
        self.events = []
        self.responses = {}
        # Datagrams that were received.
        self.received = []
        self.quic.connect(address, now=time.monotonic())

    def run_until(self, condition, timeout=TIMEOUT):
        """Sends and receives until the condition is met."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"timed out; last events: {self.events[-3:]}"
            self.step(min(deadline, self.quic.get_timer() or deadline))

    def step(self, wake_up):
        self.send()
        now = time.monotonic()
        self.socket.settimeout(min(max(wake_up - now, 0.001), 1))
        try:
            datagram, source = self.socket.recvfrom(65536)
            self.received.append(datagram)
            self.quic.receive_datagram(datagram, source, time.monotonic())
        except (TimeoutError, ConnectionRefusedError):
            pass
        now = time.monotonic()
        timer = self.quic.get_timer()
        if timer is not None and timer <= now:
            self.quic.handle_timer(now)
        while (event := self.quic.next_event()) is not None:
            self.events.append(event)
            if self.http3:
                for received in self.http3.handle_event(event):
                    self.collect(received)
        self.send()

    def send(self):
        for datagram, _ in self.quic.datagrams_to_send(now=time.monotonic()):
            self.socket.sendto(datagram, self.address)

    def collect(self, event):
        if isinstance(event, (HeadersReceived, DataReceived)):
            response = self.responses.setdefault(event.stream_id, Response())
            if isinstance(event, HeadersReceived):
                response.fields.update((name.decode(), value.decode()) for name, value in event.headers)
            else:
                response.body += event.data
            response.is_complete |= event.stream_ended

    def event(self, kind, timeout=TIMEOUT):
        """Waits for an event of this class, and returns it."""
        self.run_until(lambda: any(isinstance(event, kind) for event in self.events), timeout)
        return next(event for event in self.events if isinstance(event, kind))

    def connected(self):
        self.event(events.HandshakeCompleted)
        return self

    def start(self, path="/", method="GET", fields=()):
        """Sends a request, and returns its stream."""
        stream = self.quic.get_next_available_stream_id()
        self.http3.send_headers(stream, request(path, method) + list(fields), end_stream=True)
        return stream

    def response(self, stream):
        self.run_until(lambda: stream in self.responses and self.responses[stream].is_complete)
        return self.responses.pop(stream)

    def get(self, path="/", fields=()):
        return self.response(self.start(path, fields=fields))

    def await_error(self, *codes):
        """Waits until the server closes the connection with one of these error codes."""
        error = self.event(events.ConnectionTerminated, timeout=10).error_code
        assert error in codes, f"error {error:#x} instead of {', '.join(map(hex, codes))}"

    def send_frames(self, *frames, epoch=tls.Epoch.ONE_RTT):
        self.quic.frames = {epoch: frames}
        self.quic.send_ping(1)
        self.send()

    def raw_stream(self, data, unidirectional=False, end=False):
        """Opens a stream, and sends bytes on it."""
        stream = self.quic.get_next_available_stream_id(is_unidirectional=unidirectional)
        self.quic.send_stream_data(stream, data, end)
        self.send()
        return stream


class Response:
    def __init__(self):
        self.fields = {}
        self.body = b""
        self.is_complete = False

    @property
    def status(self):
        return self.fields[":status"]


def bind(host):
    created = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    created.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
    created.bind((host, 0))
    return created


def request(path="/", method="GET"):
    return [
        (b":method", method.encode()), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path.encode()),
    ]


def varint(value):
    """RFC 9000 §16."""
    for length, prefix in ((1, 0), (2, 0x40), (4, 0x80), (8, 0xC0)):
        if value < 1 << (8 * length - 2):
            encoded = bytearray(value.to_bytes(length, "big"))
            encoded[0] |= prefix
            return bytes(encoded)
    raise ValueError(value)


def frame(kind, payload):
    """A frame of HTTP/3."""
    return varint(kind) + varint(len(payload)) + payload


def datagram_of_unknown_version():
    """An Initial packet of a version that no server has."""
    return b"\xc3\x0a\x0a\x0a\x0a\x08" + os.urandom(8) + b"\x08" + os.urandom(8) + bytes(1200)
