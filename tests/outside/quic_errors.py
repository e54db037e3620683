"""The cases of h3spec: violations of RFC 9000, RFC 9001, RFC 9114 and RFC 9204, each with its error code."""

from aioquic import tls
from aioquic.quic import events

from quic_client import Client, frame, request, varint

FLOW_CONTROL_ERROR = 0x3
STREAM_LIMIT_ERROR = 0x4
STREAM_STATE_ERROR = 0x5
FRAME_ENCODING_ERROR = 0x7
TRANSPORT_PARAMETER_ERROR = 0x8
CONNECTION_ID_LIMIT_ERROR = 0x9
PROTOCOL_VIOLATION = 0xA
# Alerts of TLS are codes of QUIC with this offset (RFC 9001 §4.8).
ALERT = 0x100
UNEXPECTED_MESSAGE, MISSING_EXTENSION, NO_APPLICATION_PROTOCOL = ALERT + 10, ALERT + 109, ALERT + 120

H3_STREAM_CREATION_ERROR = 0x103
H3_CLOSED_CRITICAL_STREAM = 0x104
H3_FRAME_UNEXPECTED = 0x105
H3_FRAME_ERROR = 0x106
H3_EXCESSIVE_LOAD = 0x107
H3_ID_ERROR = 0x108
H3_SETTINGS_ERROR = 0x109
H3_MISSING_SETTINGS = 0x10A
H3_MESSAGE_ERROR = 0x10E
QPACK_DECOMPRESSION_FAILED = 0x200
QPACK_ENCODER_STREAM_ERROR = 0x201
QPACK_DECODER_STREAM_ERROR = 0x202

# Streams that neither side has opened.
UNKNOWN_SERVER_STREAM, UNKNOWN_SERVER_UNI_STREAM = 4 * 50 + 1, 4 * 50 + 3


# Transport parameters (RFC 9000 §7.3, §7.4, §18.2).


def parameter(kind, value):
    return varint(kind) + varint(len(value)) + value


def parameters_of(encoded):
    """Splits transport parameters into pairs of ID and value."""
    position, found = 0, []
    def integer():
        nonlocal position
        length = 1 << (encoded[position] >> 6)
        value = int.from_bytes(encoded[position:position + length], "big") & ((1 << (8 * length - 2)) - 1)
        position += length
        return value
    while position < len(encoded):
        kind, length = integer(), integer()
        found.append((kind, encoded[position:position + length]))
        position += length
    return found


def with_parameter(kind, value):
    """Adds a parameter, or replaces that of its kind. `None` removes it."""
    def change(encoded):
        others = [parameter(*known) for known in parameters_of(encoded) if known[0] != kind]
        return b"".join(others) + (b"" if value is None else parameter(kind, value))
    return change


def assert_parameter_error(server, change):
    Client(server.address, hooks={"change_parameters": change}).await_error(TRANSPORT_PARAMETER_ERROR)


def initial_source_connection_id_missing(server):
    assert_parameter_error(server, with_parameter(0x0F, None))


def initial_source_connection_id_differs(server):
    assert_parameter_error(server, with_parameter(0x0F, b"another!"))


def original_destination_connection_id_of_client(server):
    assert_parameter_error(server, with_parameter(0x00, b"12345678"))


def preferred_address_of_client(server):
    assert_parameter_error(server, with_parameter(0x0D, bytes(24) + b"\x04abcd" + bytes(16)))


def retry_source_connection_id_of_client(server):
    assert_parameter_error(server, with_parameter(0x10, b"12345678"))


def stateless_reset_token_of_client(server):
    assert_parameter_error(server, with_parameter(0x02, bytes(16)))


def max_udp_payload_size_below_1200(server):
    assert_parameter_error(server, with_parameter(0x03, varint(1199)))


def ack_delay_exponent_above_20(server):
    assert_parameter_error(server, with_parameter(0x0A, varint(21)))


def max_ack_delay_of_16384(server):
    assert_parameter_error(server, with_parameter(0x0B, varint(1 << 14)))


def active_connection_id_limit_below_2(server):
    assert_parameter_error(server, with_parameter(0x0E, varint(1)))


def max_streams_above_the_limit(server):
    assert_parameter_error(server, with_parameter(0x08, varint((1 << 60) + 1)))


def parameter_twice(server):
    assert_parameter_error(server, lambda encoded: encoded + parameter(0x01, varint(1000)))


def parameters_truncated(server):
    assert_parameter_error(server, lambda encoded: encoded + b"\x01\x04\x00")


# Messages of TLS (RFC 9001 §6, §8).


def transport_parameters_missing(server):
    def change(hello):
        hello.other_extensions = []
    Client(server.address, hooks={"change_hello": change}).await_error(MISSING_EXTENSION)


def no_protocol_offered(server):
    def change(hello):
        hello.alpn_protocols = None
    Client(server.address, hooks={"change_hello": change}).await_error(NO_APPLICATION_PROTOCOL)


def unknown_protocol_offered(server):
    Client(server.address, alpn_protocols=["hq-interop"]).await_error(NO_APPLICATION_PROTOCOL)


def crypto(message):
    """A CRYPTO frame at the offset 0 of its epoch."""
    return 0x06, varint(0) + varint(len(message)) + message


def key_update_in_the_handshake(server):
    message = crypto(b"\x18\x00\x00\x01\x00")
    Client(server.address, hooks={"frames": {tls.Epoch.HANDSHAKE: [message]}}).await_error(UNEXPECTED_MESSAGE)


def key_update_after_the_handshake(server):
    client = Client(server.address).connected()
    client.send_frames(crypto(b"\x18\x00\x00\x01\x00"))
    client.await_error(UNEXPECTED_MESSAGE)


def end_of_early_data(server):
    message = crypto(b"\x05\x00\x00\x00")
    Client(server.address, hooks={"frames": {tls.Epoch.HANDSHAKE: [message]}}).await_error(UNEXPECTED_MESSAGE)


# Packets and frames (RFC 9000 §12, §17, §19).


def assert_frame_error(server, kind, payload, *codes):
    client = Client(server.address).connected()
    client.get("/")
    client.send_frames((kind, payload))
    client.await_error(*codes)


def unknown_frame(server):
    assert_frame_error(server, 0x20, b"", FRAME_ENCODING_ERROR)


def packet_without_frames(server):
    client = Client(server.address).connected()
    client.get("/")
    quic = client.quic
    # A packet number of four bytes, so that there are enough bytes for the sample of header protection.
    number = quic._packet_number
    crypto = quic._cryptos[tls.Epoch.ONE_RTT]
    header = bytes([0x43 | crypto.key_phase << 2]) + quic._peer_cid.cid + number.to_bytes(4, "big")
    client.socket.sendto(crypto.encrypt_packet(header, b"", number), server.address)
    quic._packet_number += 1
    client.await_error(PROTOCOL_VIOLATION)


def with_reserved_bits(client, epoch):
    """Sets the reserved bits of the packets of an epoch, before they are protected."""
    send = client.quic._cryptos[epoch].send
    original = send.encrypt_packet

    def encrypt(header, payload, packet_number):
        mask = 0x0C if epoch == tls.Epoch.HANDSHAKE else 0x18
        return original(bytes([header[0] | mask]) + header[1:], payload, packet_number)

    send.encrypt_packet = encrypt


def reserved_bits_of_a_handshake_packet(server):
    client = Client(server.address)
    quic = client.quic
    original = quic._write_handshake

    def write(builder, epoch, now):
        if epoch == tls.Epoch.HANDSHAKE and quic._cryptos[epoch].send.is_valid():
            with_reserved_bits(client, epoch)
        original(builder, epoch, now)

    quic._write_handshake = write
    client.await_error(PROTOCOL_VIOLATION)


def reserved_bits_of_a_short_header(server):
    client = Client(server.address).connected()
    client.get("/")
    with_reserved_bits(client, tls.Epoch.ONE_RTT)
    client.quic.send_ping(1)
    client.await_error(PROTOCOL_VIOLATION)


def path_challenge_in_the_handshake(server):
    challenge = (0x1A, bytes(8))
    Client(server.address, hooks={"frames": {tls.Epoch.HANDSHAKE: [challenge]}}).await_error(PROTOCOL_VIOLATION)


def stream_in_the_handshake(server):
    stream = (0x0A, varint(0) + varint(1) + b"x")
    Client(server.address, hooks={"frames": {tls.Epoch.HANDSHAKE: [stream]}}).await_error(PROTOCOL_VIOLATION)


def stream_data_beyond_the_window(server):
    payload = varint(8) + varint(1 << 40) + varint(1) + b"x"
    assert_frame_error(server, 0x0E, payload, FLOW_CONTROL_ERROR)


def stream_offset_above_the_limit(server):
    payload = varint(8) + varint((1 << 62) - 1) + varint(1) + b"x"
    assert_frame_error(server, 0x0E, payload, FRAME_ENCODING_ERROR, FLOW_CONTROL_ERROR)


def stream_beyond_the_limit(server):
    assert_frame_error(server, 0x0A, varint(4 * 100_000) + varint(1) + b"x", STREAM_LIMIT_ERROR)


def stream_of_the_server(server):
    assert_frame_error(server, 0x0A, varint(UNKNOWN_SERVER_STREAM) + varint(1) + b"x", STREAM_STATE_ERROR)


def reset_of_a_stream_of_the_server(server):
    assert_frame_error(server, 0x04, varint(3) + varint(0) + varint(0), STREAM_STATE_ERROR)


def stop_sending_of_an_unknown_stream(server):
    assert_frame_error(server, 0x05, varint(UNKNOWN_SERVER_STREAM) + varint(0), STREAM_STATE_ERROR)


def stop_sending_of_a_receive_only_stream(server):
    assert_frame_error(server, 0x05, varint(2) + varint(0), STREAM_STATE_ERROR)


def new_token_of_client(server):
    assert_frame_error(server, 0x07, varint(4) + b"abcd", PROTOCOL_VIOLATION)


def max_stream_data_of_an_unknown_stream(server):
    assert_frame_error(server, 0x11, varint(UNKNOWN_SERVER_STREAM) + varint(1), STREAM_STATE_ERROR)


def max_stream_data_of_a_receive_only_stream(server):
    assert_frame_error(server, 0x11, varint(2) + varint(1 << 20), STREAM_STATE_ERROR)


def max_streams_frame_above_the_limit(server):
    assert_frame_error(server, 0x12, varint((1 << 60) + 1), FRAME_ENCODING_ERROR)


def streams_blocked_above_the_limit(server):
    assert_frame_error(server, 0x16, varint((1 << 60) + 1), FRAME_ENCODING_ERROR, STREAM_LIMIT_ERROR)


def new_connection_id_retires_itself(server):
    payload = varint(20) + varint(21) + b"\x08abcdefgh" + bytes(16)
    assert_frame_error(server, 0x18, payload, FRAME_ENCODING_ERROR)


def new_connection_id_is_empty(server):
    assert_frame_error(server, 0x18, varint(20) + varint(0) + b"\x00" + bytes(16), FRAME_ENCODING_ERROR)


def retirement_of_an_unknown_connection_id(server):
    assert_frame_error(server, 0x19, varint(1000), PROTOCOL_VIOLATION)


def handshake_done_of_client(server):
    assert_frame_error(server, 0x1E, b"", PROTOCOL_VIOLATION)


def acknowledgment_of_an_unsent_packet(server):
    payload = varint(1 << 30) + varint(0) + varint(0) + varint(0)
    assert_frame_error(server, 0x02, payload, PROTOCOL_VIOLATION)


def truncated_frame(server):
    assert_frame_error(server, 0x06, varint(0) + varint(1000) + b"x", FRAME_ENCODING_ERROR)


# Streams and frames of HTTP/3 (RFC 9114 §6, §7).


def field(name, value):
    """A literal field line with a literal name (RFC 9204 §4.5.6), both shorter than the prefixes allow."""
    assert len(name) < 7 + 128 and len(value) < 127
    length = bytes([0x20 | len(name)]) if len(name) < 7 else bytes([0x27, len(name) - 7])
    return length + name + bytes([len(value)]) + value


def section(fields):
    return b"\x00\x00" + b"".join(field(*pair) for pair in fields)


def headers(fields):
    return frame(0x01, section(fields))


def assert_request_error(server, data, *codes):
    client = Client(server.address).connected()
    client.raw_stream(data, end=True)
    client.await_error(*codes)


def assert_control_error(server, data, *codes, settings=True):
    """Sends the bytes on the control stream, after SETTINGS unless there are none."""
    client = Client(server.address, http3=False).connected()
    client.raw_stream(b"\x00" + (frame(0x04, b"") if settings else b"") + data, unidirectional=True)
    client.await_error(*codes)


def data_before_headers(server):
    assert_request_error(server, frame(0x00, b"x"), H3_FRAME_UNEXPECTED)


def settings_on_a_request_stream(server):
    assert_request_error(server, frame(0x04, b""), H3_FRAME_UNEXPECTED)


def cancel_push_on_a_request_stream(server):
    assert_request_error(server, frame(0x03, b"\x00"), H3_FRAME_UNEXPECTED)


def goaway_on_a_request_stream(server):
    assert_request_error(server, headers(request()) + frame(0x07, b"\x00"), H3_FRAME_UNEXPECTED)


def push_promise_of_client(server):
    assert_request_error(server, frame(0x05, b"\x00\x00\x00"), H3_FRAME_UNEXPECTED)


def frame_of_http2_on_a_request_stream(server):
    for kind in (0x02, 0x06, 0x08, 0x09):
        assert_request_error(server, frame(kind, b""), H3_FRAME_UNEXPECTED)


def truncated_frame_on_a_request_stream(server):
    assert_request_error(server, headers(request())[:-1], H3_FRAME_ERROR)


def first_frame_is_not_settings(server):
    assert_control_error(server, frame(0x07, b"\x00"), H3_MISSING_SETTINGS, settings=False)
    assert_control_error(server, frame(0x21, b""), H3_MISSING_SETTINGS, settings=False)


def data_on_the_control_stream(server):
    assert_control_error(server, frame(0x00, b"x"), H3_FRAME_UNEXPECTED)


def headers_on_the_control_stream(server):
    assert_control_error(server, headers(request()), H3_FRAME_UNEXPECTED)


def second_settings(server):
    assert_control_error(server, frame(0x04, b""), H3_FRAME_UNEXPECTED)


def settings_of_http2(server):
    for kind in (0x02, 0x03, 0x04, 0x05):
        settings = frame(0x04, varint(kind) + varint(1))
        assert_control_error(server, settings, H3_SETTINGS_ERROR, settings=False)


def setting_twice(server):
    settings = frame(0x04, varint(6) + varint(1000) + varint(6) + varint(1000))
    assert_control_error(server, settings, H3_SETTINGS_ERROR, settings=False)


def truncated_setting(server):
    assert_control_error(server, frame(0x04, varint(6)), H3_FRAME_ERROR, H3_SETTINGS_ERROR, settings=False)


def frame_of_http2_on_the_control_stream(server):
    for kind in (0x02, 0x06, 0x08, 0x09):
        assert_control_error(server, frame(kind, b""), H3_FRAME_UNEXPECTED)


def push_id_decreases(server):
    data = frame(0x0D, varint(9)) + frame(0x0D, varint(8))
    assert_control_error(server, data, H3_ID_ERROR)


def cancel_push_of_an_unknown_push(server):
    assert_control_error(server, frame(0x03, varint(0)), H3_ID_ERROR)


def goaway_frame_is_too_long(server):
    assert_control_error(server, frame(0x07, b"\x00\x00"), H3_FRAME_ERROR)


def second_control_stream(server):
    client = Client(server.address).connected()
    client.raw_stream(b"\x00" + frame(0x04, b""), unidirectional=True)
    client.await_error(H3_STREAM_CREATION_ERROR)


def push_stream_of_client(server):
    client = Client(server.address).connected()
    client.raw_stream(b"\x01\x00", unidirectional=True)
    client.await_error(H3_STREAM_CREATION_ERROR)


def control_stream_is_closed(server):
    client = Client(server.address, http3=False).connected()
    client.raw_stream(b"\x00" + frame(0x04, b""), unidirectional=True, end=True)
    client.await_error(H3_CLOSED_CRITICAL_STREAM)


def control_stream_is_reset(server):
    client = Client(server.address).connected()
    client.get("/")
    client.quic.reset_stream(client.http3._local_control_stream_id, 0x100)
    client.await_error(H3_CLOSED_CRITICAL_STREAM)


def control_stream_of_the_server_is_stopped(server):
    client = Client(server.address).connected()
    client.get("/")
    client.send_frames((0x05, varint(3) + varint(0x100)))
    client.await_error(H3_CLOSED_CRITICAL_STREAM)


# Messages (RFC 9114 §4.1.2, §4.2, §4.3).


def assert_message_error(server, fields):
    """A malformed request is an error of its stream. The server may respond with 400 before."""
    client = Client(server.address).connected()
    stream = client.raw_stream(headers(fields), end=True)

    def has_ended():
        response = client.responses.get(stream)
        return response and response.is_complete or any(
            getattr(event, "error_code", None) == H3_MESSAGE_ERROR for event in client.events
        )

    client.run_until(has_ended, timeout=10)
    if stream in client.responses:
        assert client.responses[stream].status == "400", client.responses[stream].fields
    # Other requests are not affected, unless the whole connection was closed.
    assert client.get("/").status == "200"


METHOD, SCHEME, AUTHORITY, PATH = request()


def pseudo_header_field_twice(server):
    for pair in (METHOD, SCHEME, AUTHORITY, PATH):
        assert_message_error(server, request() + [pair])


def pseudo_header_field_missing(server):
    for missing in (METHOD, SCHEME, PATH):
        assert_message_error(server, [pair for pair in request() if pair != missing])


def pseudo_header_field_of_responses(server):
    assert_message_error(server, request() + [(b":status", b"200")])


def unknown_pseudo_header_field(server):
    assert_message_error(server, request() + [(b":unknown", b"x")])


def pseudo_header_field_after_others(server):
    assert_message_error(server, [METHOD, SCHEME, PATH, (b"accept", b"*/*"), AUTHORITY])


def field_name_in_upper_case(server):
    assert_message_error(server, request() + [(b"Accept", b"*/*")])


def connection_specific_field(server):
    for name in (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"):
        assert_message_error(server, request() + [(name, b"close")])
    assert_message_error(server, request() + [(b"te", b"gzip")])


def path_is_empty(server):
    assert_message_error(server, [METHOD, SCHEME, AUTHORITY, (b":path", b"")])


def host_differs_from_authority(server):
    assert_message_error(server, request() + [(b"host", b"other.example")])


def content_differs_from_its_length(server):
    client = Client(server.address).connected()
    fields = headers(request("/", "POST") + [(b"content-length", b"5")])
    stream = client.raw_stream(fields + frame(0x00, b"four"), end=True)
    client.run_until(lambda: stream in client.responses or any(
        getattr(event, "error_code", None) == H3_MESSAGE_ERROR for event in client.events), timeout=10)
    assert client.get("/").status == "200"


# QPACK (RFC 9204 §2.2, §3.1, §4.3, §4.4, §6).


def assert_section_error(server, data):
    assert_request_error(server, frame(0x01, data), QPACK_DECOMPRESSION_FAILED)


def static_index_out_of_range(server):
    assert_section_error(server, b"\x00\x00\xff\x24")


def reference_to_a_missing_entry(server):
    assert_section_error(server, b"\x00\x00\x80")


def insert_count_out_of_range(server):
    assert_section_error(server, b"\xff\x00\x00\xd1")


def truncated_field_line(server):
    assert_section_error(server, b"\x00\x00\x27\x10abc")


def invalid_huffman_code(server):
    assert_section_error(server, b"\x00\x00\x51\x84\xff\xff\xff\xff")


def assert_qpack_stream_error(server, kind, data, *codes):
    client = Client(server.address, http3=False).connected()
    client.raw_stream(b"\x00" + frame(0x04, b""), unidirectional=True)
    client.raw_stream(bytes([kind]) + data, unidirectional=True)
    client.await_error(*codes)


def table_capacity_above_the_limit(server):
    assert_qpack_stream_error(server, 0x02, b"\x3f\xff\xff\x7f", QPACK_ENCODER_STREAM_ERROR)


def insertion_with_an_invalid_index(server):
    data = b"\x3f\xe1\x01" + b"\xff\x40\x01x"
    assert_qpack_stream_error(server, 0x02, data, QPACK_ENCODER_STREAM_ERROR)


def duplicate_of_a_missing_entry(server):
    assert_qpack_stream_error(server, 0x02, b"\x3f\xe1\x01\x05", QPACK_ENCODER_STREAM_ERROR)


def insert_count_increment_of_zero(server):
    assert_qpack_stream_error(server, 0x03, b"\x00", QPACK_DECODER_STREAM_ERROR)


def insert_count_increment_beyond_the_table(server):
    assert_qpack_stream_error(server, 0x03, b"\x3f\x20", QPACK_DECODER_STREAM_ERROR)


def acknowledgment_of_an_unknown_section(server):
    assert_qpack_stream_error(server, 0x03, b"\x84", QPACK_DECODER_STREAM_ERROR)


def qpack_stream_is_closed(server):
    for kind in (b"\x02", b"\x03"):
        client = Client(server.address, http3=False).connected()
        client.raw_stream(b"\x00" + frame(0x04, b""), unidirectional=True)
        client.raw_stream(kind, unidirectional=True, end=True)
        client.await_error(H3_CLOSED_CRITICAL_STREAM)


def flood_of_pings(server):
    client = Client(server.address).connected()
    count = lambda kind: sum(isinstance(event, kind) for event in client.events)
    for sent in range(1, 100):
        client.send_frames(*[(0x01, b"")] * 1000)
        client.run_until(lambda: count(events.PingAcknowledged) == sent or count(events.ConnectionTerminated))
        if count(events.ConnectionTerminated):
            break
    client.await_error(H3_EXCESSIVE_LOAD)


CASES = [
    initial_source_connection_id_missing, initial_source_connection_id_differs,
    original_destination_connection_id_of_client, preferred_address_of_client, retry_source_connection_id_of_client,
    stateless_reset_token_of_client, max_udp_payload_size_below_1200, ack_delay_exponent_above_20,
    max_ack_delay_of_16384, active_connection_id_limit_below_2, max_streams_above_the_limit, parameter_twice,
    parameters_truncated, transport_parameters_missing, no_protocol_offered, unknown_protocol_offered,
    key_update_in_the_handshake, key_update_after_the_handshake, end_of_early_data, unknown_frame,
    packet_without_frames, reserved_bits_of_a_handshake_packet, reserved_bits_of_a_short_header,
    path_challenge_in_the_handshake, stream_in_the_handshake, stream_data_beyond_the_window,
    stream_offset_above_the_limit, stream_beyond_the_limit, stream_of_the_server, reset_of_a_stream_of_the_server,
    stop_sending_of_an_unknown_stream, stop_sending_of_a_receive_only_stream, new_token_of_client,
    max_stream_data_of_an_unknown_stream, max_stream_data_of_a_receive_only_stream,
    max_streams_frame_above_the_limit, streams_blocked_above_the_limit, new_connection_id_retires_itself,
    new_connection_id_is_empty, retirement_of_an_unknown_connection_id, handshake_done_of_client,
    acknowledgment_of_an_unsent_packet, truncated_frame, data_before_headers, settings_on_a_request_stream,
    cancel_push_on_a_request_stream, goaway_on_a_request_stream, push_promise_of_client,
    frame_of_http2_on_a_request_stream, truncated_frame_on_a_request_stream, first_frame_is_not_settings,
    data_on_the_control_stream, headers_on_the_control_stream, second_settings, settings_of_http2, setting_twice,
    truncated_setting, frame_of_http2_on_the_control_stream, push_id_decreases, cancel_push_of_an_unknown_push,
    goaway_frame_is_too_long, second_control_stream, push_stream_of_client, control_stream_is_closed,
    control_stream_is_reset, control_stream_of_the_server_is_stopped, pseudo_header_field_twice,
    pseudo_header_field_missing, pseudo_header_field_of_responses, unknown_pseudo_header_field,
    pseudo_header_field_after_others, field_name_in_upper_case, connection_specific_field, path_is_empty,
    host_differs_from_authority, content_differs_from_its_length, static_index_out_of_range,
    reference_to_a_missing_entry, insert_count_out_of_range, truncated_field_line, invalid_huffman_code,
    table_capacity_above_the_limit, insertion_with_an_invalid_index, duplicate_of_a_missing_entry,
    insert_count_increment_of_zero, insert_count_increment_beyond_the_table, acknowledgment_of_an_unknown_section,
    qpack_stream_is_closed, flood_of_pings,
]
