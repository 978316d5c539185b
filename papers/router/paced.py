#!/usr/bin/env python3
"""Sends flows of 60-byte packets in turn, each at its rate, from one process.

Usage: paced.py PROCESSOR {DEVICE MAC NETWORK RATE}. They go to 10.NETWORK.0.1. A rate is packets a second.
What it had no time to send it leaves out, so that a flow never comes in bursts: devices with few places would
lose those. Byte `SPREAD` of a flow's packets has every value equally often, in an order that looks random.
"""

import os
import random
import socket
import sys
import time
from dataclasses import dataclass

import overload

#: A packet goes to the device at once, or is lost: no queue of the kernel's stands between.
SOL_PACKET, QDISC_BYPASS = 263, 20
#: Where packets differ, and how many there are.
SPREAD = 59
VALUES = 256
#: How far a flow may be behind its time before that is left out, packets.
BEHIND = 4


@dataclass
class Flow:
    """A flow: where it goes, what comes next and when."""

    out: socket.socket
    packets: list[bytes]
    every: float
    due: float
    at: int = 0


def flow(device: str, mac: str, network: int, rate: float, began: float) -> Flow:
    """A flow of `rate` packets a second by `device`."""
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.setsockopt(SOL_PACKET, QDISC_BYPASS, 1)
    out.bind((device, 0))
    values = list(range(VALUES))
    random.Random(1).shuffle(values)
    packet = overload.frame(mac, network)[:SPREAD]
    return Flow(out, [packet + bytes([value]) for value in values], 1 / rate, began)


def main() -> None:
    """Sends until it is ended."""
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
                # Nowhere to put it: lost, as on a device.
                continue


if __name__ == "__main__":
    main()
