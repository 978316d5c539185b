#!/usr/bin/env python3
"""Sends flows of 60-byte packets in turn, each at its rate, from one process.

Usage: paced.py PROCESSOR {DEVICE MAC NETWORK RATE}. Packets go to 10.NETWORK.0.1; RATE is packets a
second. Packets that could not be sent in time are skipped: a flow has no bursts, which short device
queues would drop. Byte `SPREAD` of a flow's packets has every value equally often, in pseudo-random
order.
"""

import os
import random
import socket
import sys
import time
from dataclasses import dataclass

import overload

#: A packet goes to the device at once or is lost: it bypasses the kernel's queues.
SOL_PACKET, QDISC_BYPASS = 263, 20
#: Offset and number of values of the byte in which packets differ.
SPREAD = 59
VALUES = 256
#: Backlog of a flow beyond which packets are skipped.
BEHIND = 4


@dataclass
class Flow:
    """A flow: its destination, next packet and time."""

    out: socket.socket
    packets: list[bytes]
    every: float
    due: float
    at: int = 0


def flow(device: str, mac: str, network: int, rate: float, began: float) -> Flow:
    """Stores a flow of `rate` packets a second by `device`."""
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.setsockopt(SOL_PACKET, QDISC_BYPASS, 1)
    out.bind((device, 0))
    values = list(range(VALUES))
    random.Random(1).shuffle(values)
    packet = overload.frame(mac, network)[:SPREAD]
    return Flow(out, [packet + bytes([value]) for value in values], 1 / rate, began)


def main() -> None:
    """Sends until terminated."""
    processor, *flows = sys.argv[1:]
    os.sched_setaffinity(0, {int(processor)})
    began = time.perf_counter()
    all_flows = [
        flow(device, mac, int(network), float(rate), began)
        for device, mac, network, rate in zip(*(flows[at::4] for at in range(4)), strict=True)
    ]
    now = time.perf_counter
    while True:
        for of in all_flows:
            time_now = now()
            if of.due > time_now:
                continue
            of.due = max(of.due + of.every, time_now - BEHIND * of.every)
            of.at = (of.at + 1) % VALUES
            try:
                of.out.send(of.packets[of.at])
            except OSError:
                # No space: lost, as on a device.
                continue


if __name__ == "__main__":
    main()
