"""A path that loses and delays packets: the device tun0 with the address 10.9.0.1, for which 10.9.0.2 is this machine as well.

Each packet comes back with source and destination exchanged, which leaves its checksums as they are, unless it is lost.

Usage: lossy_path.py LOSS_PERCENT DELAY_MS. Prints a line once the path exists, and ends with its parent."""

import collections
import ctypes
import fcntl
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI, PR_SET_PDEATHSIG = 0x400454CA, 0x0001, 0x1000, 1

loss, delay = float(sys.argv[1]) / 100, float(sys.argv[2]) / 1000
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", b"tun0", IFF_TUN | IFF_NO_PI))
for words in [
    "address add 10.9.0.1/32 dev tun0",
    "link set tun0 mtu 1500 up",
    # The default differs between systems.
    "route add 10.9.0.2 dev tun0 congctl cubic",
]:
    subprocess.run(["ip", *words.split()], check=True)
print("ready", flush=True)

chance = random.Random(1)
in_transit = collections.deque()
while True:
    timeout = max(in_transit[0][0] - time.monotonic(), 0) if in_transit else None
    if select.select([tun], [], [], timeout)[0]:
        packet = os.read(tun, 65536)
        # The device itself sends IPv6 packets.
        if packet[0] >> 4 == 4 and chance.random() >= loss:
            returned = packet[:12] + packet[16:20] + packet[12:16] + packet[20:]
            in_transit.append((time.monotonic() + delay, returned))
    while in_transit and in_transit[0][0] <= time.monotonic():
        os.write(tun, in_transit.popleft()[1])
