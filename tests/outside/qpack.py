"""QPACK of ls-qpack, as a process: each line of the standard input is a command with strings in hexadecimal, and gets a line.

new CAPACITY                begins a connection; instructions of the encoder
encode STREAM (NAME VALUE)* instructions, field section
acknowledge BYTES           the encoder reads acknowledgments; "-"
instruct BYTES              the decoder reads instructions; "-"
decode STREAM SECTION       acknowledgment, then names and values
"""

import sys

import pylsqpack


def text(strings):
    return " ".join(string.hex() or "-" for string in strings)


def strings(words):
    return [b"" if word == "-" else bytes.fromhex(word) for word in words]


for line in sys.stdin:
    command, *words = line.split()
    answer = [b""]
    if command == "new":
        encoder = pylsqpack.Encoder()
        decoder = pylsqpack.Decoder(int(words[0]), 0)
        answer = [encoder.apply_settings(int(words[0]), 0)]
    elif command == "encode":
        fields = strings(words[1:])
        answer = encoder.encode(int(words[0]), list(zip(fields[::2], fields[1::2])))
    elif command == "acknowledge":
        encoder.feed_decoder(*strings(words))
    elif command == "instruct":
        decoder.feed_encoder(*strings(words))
    elif command == "decode":
        acknowledgment, fields = decoder.feed_header(int(words[0]), *strings(words[1:]))
        answer = [acknowledgment, *(string for field in fields for string in field)]
    print(text(answer), flush=True)
