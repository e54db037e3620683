"""Early data (0-RTT) of aioquic: accepted once for each session, and only for GET and HEAD."""

from aioquic.quic import events

from quic_client import Client


def client_with_sessions(server):
    client = Client(server.address).connected()
    client.run_until(lambda: len(client.tickets) >= 2)
    assert client.tickets[0].max_early_data_size == 0xFFFFFFFF
    return client


def requests_are_early_data(server):
    ticket = client_with_sessions(server).tickets[0]
    client = Client(server.address, session_ticket=ticket)
    stream = client.start("/index.html")
    assert client.response(stream).status == "200"
    handshake = client.event(events.HandshakeCompleted)
    assert handshake.session_resumed and handshake.early_data_accepted


def other_methods_are_answered_after_the_handshake(server):
    ticket = client_with_sessions(server).tickets[0]
    client = Client(server.address, session_ticket=ticket)
    streams = [client.start("/index.html", method=method) for method in ("POST", "GET", "DELETE")]
    statuses = [client.response(stream).status for stream in streams]
    assert statuses == ["405", "200", "405"], statuses
    assert client.event(events.HandshakeCompleted).early_data_accepted


def session_is_resumed_once(server):
    ticket = client_with_sessions(server).tickets[0]
    for is_first in (True, False):
        client = Client(server.address, session_ticket=ticket)
        stream = client.start("/index.html")
        handshake = client.event(events.HandshakeCompleted)
        assert handshake.session_resumed == is_first, handshake
        assert handshake.early_data_accepted == is_first, handshake
        assert client.response(stream).status == "200"


CASES = [requests_are_early_data, other_methods_are_answered_after_the_handshake, session_is_resumed_once]
