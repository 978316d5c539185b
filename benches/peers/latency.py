#!/usr/bin/env python3
"""Packet latency through the router, a bare AF_XDP forwarder and the kernel, at a given load.

Usage: benches/peers/latency.py [PACKETS-PER-SECOND [SECONDS [ROUNDS]]]; default 300000, 3 and 3.
Needs root and the tools of veth.py, whose network it uses. One core sends evenly spaced 60-byte
packets; the other forwards. Rounds alternate. For each forwarder it prints medians over the rounds:
packets sent per second, lost probes, CPU use of the forwarder (process or kernel), and percentiles
of the time from the call that sent a probe to its arrival in the last namespace, us.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import veth

WAYS = ("bare", "xdp", "packet", "kernel")


def build(folder: str) -> None:
    """Compiles the sender and receiver."""
    veth.build(folder)
    source = veth.HERE / "latency.c"
    subprocess.run(["cc", "-O2", "-o", f"{folder}/latency", source], check=True)


def used_seconds(forwarder: veth.Forwarder) -> float:
    """Returns the CPU time of a forwarder."""
    if forwarder.way == "kernel":
        return veth.kernel_seconds(forwarder.processor)
    _, _, rest = Path(f"/proc/{forwarder.running.pid}/stat").read_text().rpartition(")")
    user, system = rest.split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def measure(
    network: veth.Network, way: str, folder: str, rate: int, seconds: float, first: int, last: int
) -> list[float]:
    """Returns packets per second, loss, CPU use, and percentiles in us."""
    network.set_receive_cpu(network.sink, "b0", first)
    network.set_receive_cpu(network.router, "a1", last if way == "kernel" else first)
    forwarder = veth.Forwarder(network, way, f"{folder}/xdp_forward", last, veth.FILE)
    try:
        mac = network.mac(network.router, "a1")
        command = [
            "taskset",
            "-c",
            str(first),
            f"{folder}/latency",
            "a0",
            mac,
            "02:00:00:00:00:04",
            network.sink,
        ]
        # Warm-up: the forwarder learns neighbours and loads its programs before the measurement.
        network.run(network.source, *command, "b0", str(rate), "0.3")
        time.sleep(0.2)
        used, began = used_seconds(forwarder), time.monotonic()
        output = network.run(network.source, *command, "b0", str(rate), str(seconds))
        used = (used_seconds(forwarder) - used) / (time.monotonic() - began)
    finally:
        forwarder.stop()
    sent, probes, received, *ns = (int(word) for word in output.split())
    return [sent / seconds, 1 - received / probes, used, *(of / 1e3 for of in ns)]


def main() -> None:
    """Measures all forwarders and prints a table."""
    rate = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 3.0
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    first, last = veth.two_cpus()
    with tempfile.TemporaryDirectory() as folder:
        build(folder)
        network = veth.Network()
        try:
            rows: dict[str, list[list[float]]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way in WAYS:
                    rows[way].append(measure(network, way, folder, rate, seconds, first, last))
        finally:
            network.remove()
    print("by         sent/s    lost        CPU     50 %     90 %     99 %   99.9 %      max (us)")
    for way, of in rows.items():
        sent, lost, used, *times = (statistics.median(column) for column in zip(*of, strict=True))
        print(
            f"{way:8}{sent:9.0f}{100 * lost:7.2f}%{100 * used:10.0f}%"
            + "".join(f"{time:9.1f}" for time in times)
        )


if __name__ == "__main__":
    main()
