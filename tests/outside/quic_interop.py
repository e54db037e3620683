"""Interoperation with aioquic: features of QUIC and HTTP/3 that the site must survive."""

import hashlib
import os
import time

from aioquic.quic import events
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite, SessionTicket

from quic_client import Client, bind, datagram_of_unknown_version

# The files of the site, and their digests.
SMALL, LARGE = "/index.html", "/large.bin"


def assert_site(client):
    response = client.get(SMALL)
    assert response.status == "200" and b"page" in response.body, response.fields


def request_and_response(server):
    client = Client(server.address).connected()
    assert_site(client)
    assert client.get("/nothing").status == "404"
    assert client.quic._loss.peer_completed_address_validation


def version_negotiation_is_answered(server):
    socket = bind("127.0.0.1")
    socket.settimeout(10)
    datagram = datagram_of_unknown_version()
    socket.sendto(datagram, server.address)
    reply = socket.recv(2048)
    assert reply[0] & 0x80 and reply[1:5] == bytes(4), reply
    # The connection IDs are exchanged (RFC 9000 §17.2.1).
    assert reply[5:23] == datagram[14:23] + datagram[5:14], reply
    versions = [reply[start:start + 4] for start in range(23, len(reply), 4)]
    assert b"\x00\x00\x00\x01" in versions, versions


def short_datagram_of_unknown_version_is_dropped(server):
    socket = bind("127.0.0.1")
    socket.settimeout(0.2)
    socket.sendto(datagram_of_unknown_version()[:1199], server.address)
    try:
        raise AssertionError(socket.recv(2048))
    except TimeoutError:
        pass


def unknown_version_is_given_up(server):
    client = Client(
        server.address,
        original_version=QuicProtocolVersion.VERSION_2,
        supported_versions=[QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1],
    ).connected()
    assert_site(client)
    assert client.quic._version == QuicProtocolVersion.VERSION_1


def chacha20_is_used(server):
    client = Client(server.address, cipher_suites=[CipherSuite.CHACHA20_POLY1305_SHA256]).connected()
    assert_site(client)
    assert client.quic.tls.key_schedule.cipher_suite == CipherSuite.CHACHA20_POLY1305_SHA256


def aes256_is_used(server):
    client = Client(server.address, cipher_suites=[CipherSuite.AES_256_GCM_SHA384]).connected()
    assert_site(client)
    assert client.quic.tls.key_schedule.cipher_suite == CipherSuite.AES_256_GCM_SHA384


def session_is_resumed(server):
    first = Client(server.address).connected()
    first.run_until(lambda: first.tickets)
    assert isinstance(first.tickets[0], SessionTicket)
    assert not first.event(events.HandshakeCompleted).session_resumed
    second = Client(server.address, session_ticket=first.tickets[0]).connected()
    assert second.event(events.HandshakeCompleted).session_resumed
    assert not second.event(events.HandshakeCompleted).early_data_accepted
    assert_site(second)


def token_is_accepted_by_a_later_connection(server):
    first = Client(server.address).connected()
    first.run_until(lambda: first.tokens)
    assert_site(Client(server.address, token=first.tokens[0]).connected())


def keys_are_updated_by_the_client(server):
    client = Client(server.address).connected()
    for _ in range(3):
        assert_site(client)
        phase = client.quic._cryptos_1rtt.key_phase if hasattr(client.quic, "_cryptos_1rtt") else None
        client.quic.request_key_update()
        assert_site(client)
        assert phase is None or client.quic._cryptos_1rtt.key_phase != phase


def connection_id_is_changed(server):
    client = Client(server.address).connected()
    assert_site(client)
    for _ in range(3):
        client.run_until(lambda: client.quic._peer_cid_available)
        before = client.quic._peer_cid.cid
        client.quic.change_connection_id()
        assert_site(client)
        assert client.quic._peer_cid.cid != before


def port_changes(server):
    client = Client(server.address).connected()
    assert_site(client)
    for _ in range(3):
        client.socket = bind("127.0.0.1")
        assert_site(client)


def address_changes_with_the_connection_id(server):
    client = Client(server.address).connected()
    assert_site(client)
    client.run_until(lambda: client.quic._peer_cid_available)
    client.socket = bind("127.0.0.2")
    client.quic.change_connection_id()
    assert_site(client)


def address_changes_during_a_transfer(server):
    client = Client(server.address).connected()
    stream = client.start(LARGE)
    for count, host in ((50, "127.0.0.2"), (150, "127.0.0.1"), (250, "127.0.0.3")):
        client.run_until(lambda: len(client.received) > count)
        client.socket = bind(host)
        # A client that has acknowledged everything sends nothing, and the server doesn't learn that it has moved.
        client.quic.send_ping(1)
    assert_large(server, client.response(stream))


def assert_large(server, response):
    assert response.status == "200", response.fields
    assert hashlib.sha256(response.body).hexdigest() == server.large_digest, len(response.body)


def large_content_is_complete(server):
    client = Client(server.address).connected()
    assert_large(server, client.get(LARGE))


def small_windows_are_respected(server):
    client = Client(server.address, max_data=20_000, max_stream_data=5_000).connected()
    assert_large(server, client.get(LARGE))


def hundred_requests_share_a_connection(server):
    client = Client(server.address).connected()
    streams = [client.start(SMALL) for _ in range(100)]
    for stream in streams:
        assert client.response(stream).status == "200"
    # More than the server allows at once: the client waits for further streams.
    streams = [client.start(SMALL) for _ in range(250)]
    for stream in streams:
        assert client.response(stream).status == "200"


def repeated_requests_use_the_dynamic_table(server):
    client = Client(server.address).connected()
    fields = [(b"user-agent", b"a name that is in no table"), (b"x-own", b"a value that is in no table")]
    for _ in range(20):
        response = client.get(SMALL, fields)
        assert response.status == "200"
    assert client.http3.received_settings is not None


def connection_without_events_sends_pings(server):
    client = Client(server.address).connected()
    client.quic.send_ping(7)
    assert client.event(events.PingAcknowledged).uid == 7


def reserved_streams_frames_and_settings_are_ignored(server):
    client = Client(server.address).connected()
    for kind in (0x21, 0x21 + 0x1F * 7):
        client.raw_stream(bytes([0x40 | kind >> 8, kind & 0xFF]) + os.urandom(100), unidirectional=True)
    client.quic.send_stream_data(client.http3._local_control_stream_id, b"\x21\x05hello", False)
    assert_site(client)


def stop_sending_ends_a_response(server):
    client = Client(server.address, max_stream_data=5_000).connected()
    stream = client.start(LARGE)
    client.run_until(lambda: stream in client.responses)
    client.quic.stop_stream(stream, 0x10C)
    reset = client.event(events.StreamReset)
    assert (reset.stream_id, reset.error_code) == (stream, 0x10C), reset
    assert_site(client)


def client_may_close_at_any_time(server):
    client = Client(server.address).connected()
    client.start(LARGE)
    client.quic.close(error_code=0x100)
    client.send()
    assert_site(Client(server.address).connected())


def retry_validates_addresses_during_a_flood(server):
    # Connections that remain half open: the server receives nothing after their hellos.
    for _ in range(1000):
        half_open = Client(server.address, http3=False)
        half_open.send()
        half_open.socket.close()
    client = Client(server.address)
    client.connected()
    assert client.quic._retry_count == 1, "no Retry packet"
    assert_site(client)


# The flood comes last, because it changes how the server treats further clients.
CASES = [
    request_and_response, version_negotiation_is_answered, short_datagram_of_unknown_version_is_dropped,
    unknown_version_is_given_up, chacha20_is_used, aes256_is_used, session_is_resumed,
    token_is_accepted_by_a_later_connection, keys_are_updated_by_the_client, connection_id_is_changed, port_changes,
    address_changes_with_the_connection_id, address_changes_during_a_transfer, large_content_is_complete,
    small_windows_are_respected, hundred_requests_share_a_connection, repeated_requests_use_the_dynamic_table,
    connection_without_events_sends_pings, reserved_streams_frames_and_settings_are_ignored,
    stop_sending_ends_a_response, client_may_close_at_any_time, retry_validates_addresses_during_a_flood,
]
