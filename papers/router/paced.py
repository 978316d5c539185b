#!/usr/bin/env python3
"""Sends flows of 60-byte packets in turn, each at its rate, from one process.

Usage: paced.py PROCESSOR {DEVICE MAC NETWORK RATE}. Packets go to 10.NETWORK.0.1; RATE is packets a
second. Packets that could not be sent in time are skipped: a flow has no bursts, which short device
queues would drop. Byte `VARIED_BYTE` of a flow's packets has every value equally often, in
pseudo-random order.
"""

import os
import random
import socket
import sys
import time
from dataclasses import dataclass

import overload

#: Sends packets directly to the device, without the kernel's queues; a full device drops them.
SOL_PACKET, QDISC_BYPASS = 263, 20
#: Offset and number of values of the byte in which packets differ.
VARIED_BYTE = 59
VALUES = 256
#: Maximum backlog of a flow, packets; further packets are skipped.
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
    """Creates a flow of `rate` packets per second through `device`."""
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.setsockopt(SOL_PACKET, QDISC_BYPASS, 1)
    out.bind((device, 0))
    values = list(range(VALUES))
    random.Random(1).shuffle(values)
    packet = overload.frame(mac, network)[:VARIED_BYTE]
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
        for one in all_flows:
            time_now = now()
            if one.due > time_now:
                continue
            one.due = max(one.due + one.every, time_now - BEHIND * one.every)
            one.at = (one.at + 1) % VALUES
            try:
                one.out.send(one.packets[one.at])
            except OSError:
                # The device is full, so the packet is lost.
                continue


if __name__ == "__main__":
    main()
