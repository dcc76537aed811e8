"""A cable that is 5 ms long in each direction: carries frames between two taps and holds each for a while.

Kernels often come without the queueing discipline that delays (netem). Started inside the network namespace of a test
host with the name of our end, the name of the host's end, and a process in whose network namespace our end belongs.
The taps go when this program ends.
"""

import collections
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

DELAY_S = 0.005
TUNSETIFF, TAP_WITHOUT_HEADER = 0x400454CA, 0x1002
QUEUE_MAX = 5000


def tap(name):
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), TAP_WITHOUT_HEADER))
    return end


def main(ours_name, theirs_name, process):
    ours, theirs = tap(ours_name), tap(theirs_name)
    subprocess.run(["ip", "link", "set", ours_name, "netns", process], check=True)
    other = {ours: theirs, theirs: ours}
    waiting = collections.deque()
    while True:
        wait_s = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        for end in select.select([ours, theirs], [], [], wait_s)[0]:
            # Whatever goes wrong with a frame means that the frame is lost: an end may be down or full.
            try:
                frame = os.read(end, 65536)
            except OSError:
                continue
            if len(waiting) < QUEUE_MAX:
                waiting.append((time.monotonic() + DELAY_S, other[end], frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, end, frame = waiting.popleft()
            try:
                os.write(end, frame)
            except OSError:
                pass


main(*sys.argv[1:])
