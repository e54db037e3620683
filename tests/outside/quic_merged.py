"""Two connections of one socket, of which the kernel merges the datagrams: it passes them to the thread of the first."""

import socket
import struct
import time

from quic_client import Client

UDP_SEGMENT = 103


def worker(client):
    """The number of the thread in the server's connection ID."""
    return client.quic._peer_cid.cid[1]


def merged_datagrams_reach_their_connections(server):
    first = Client(server.address).connected()
    second = Client(server.address).connected()
    while worker(second) == worker(first):
        second.quic.close()
        second.send()
        second = Client(server.address).connected()
    # Everything that the clients have to say otherwise.
    for client in (first, second):
        assert client.get("/").status == "200"
        settle(client)

    # The kernel merges only datagrams of one source.
    second.socket = first.socket
    streams = [client.start("/") for client in (first, second)]
    datagrams = [client.quic.datagrams_to_send(now=time.monotonic()) for client in (first, second)]
    assert all(len(sent) == 1 for sent in datagrams)
    (longer, _), (shorter, _) = sorted((sent[0] for sent in datagrams), key=lambda sent: -len(sent[0]))
    control = [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", len(longer)))]
    first.socket.sendmsg([longer, shorter], control, 0, server.address)

    # Each client gets the datagrams of both, and drops those that are not its own.
    clients = (first, second)
    deadline = time.monotonic() + 10
    while not all(is_complete(client, stream) for client, stream in zip(clients, streams)):
        assert time.monotonic() < deadline, "no response"
        first.socket.settimeout(deadline - time.monotonic())
        datagram, source = first.socket.recvfrom(65536)
        for client in clients:
            client.quic.receive_datagram(datagram, source, time.monotonic())
            while (event := client.quic.next_event()) is not None:
                for received in client.http3.handle_event(event):
                    client.collect(received)
            # The second client has another address now, and must prove that it has it.
            client.send()


def is_complete(client, stream):
    return stream in client.responses and client.responses[stream].is_complete


def settle(client):
    """Waits until the client has acknowledged everything, and the server has sent everything."""
    quiet = time.monotonic() + 0.3
    while time.monotonic() < quiet:
        received = len(client.received)
        client.step(min(quiet, client.quic.get_timer() or quiet))
        if len(client.received) > received:
            quiet = time.monotonic() + 0.3


CASES = [merged_datagrams_reach_their_connections]
