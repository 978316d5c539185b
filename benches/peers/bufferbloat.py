#!/usr/bin/env python3
"""Round-trip times of a ping beside four TCP connections in one path of the router, at 20 Mbit/s.

Usage: benches/peers/bufferbloat.py [SECONDS [ROUNDS]]. Needs root, iproute2, iperf3, ping and
target/release/millstream, or MILLSTREAM. Rounds alternate between a path with one queue, with
CoDel, with flows, which is the default, and with flows and ECN. Prints the medians over the rounds
of the ping's 50th and 99th percentile and longest time, and of the goodput of all connections.
"""

import json
import re
import statistics
import subprocess
import sys
import time

import bulk
from veth import ip

#: The keys of the path, and whether the hosts use ECN.
WAYS = {
    "one queue": ("queue = 256\n", False),
    "one queue, CoDel": ('aqm = "codel"\n', False),
    "flows (default)": ("", False),
    "flows, ECN": ("flows = {}\n", True),
}


class Network(bulk.Network):
    """The network of `bulk`, with a slow line to the right."""

    def __init__(self, keys: str, ecn: bool) -> None:
        """Creates the namespaces; the path has `keys`."""
        super().__init__("packet")
        self.keys = keys
        for side in bulk.SIDES:
            ecn_key = f"net.ipv4.tcp_ecn={int(ecn)}"
            ip("netns", "exec", self.names[side], "sysctl", "-qw", ecn_key)

    def settings(self) -> str:
        """Returns the head of the router's file: its path."""
        return f'[router]\n[[path]]\nname = "all"\n{self.keys}'

    def rate(self, side: str) -> str:
        """Returns the rate of the port of a side."""
        return "20 Mbit/s" if side == "right" else "1 Gbit/s"

    def measure(self, seconds: float) -> list[float]:
        """Returns percentiles of the ping, ms, and the goodput, Mbit/s."""
        inside = {side: ["ip", "netns", "exec", self.names[side]] for side in bulk.SIDES}
        quiet = subprocess.DEVNULL
        server = subprocess.Popen(
            [*inside["right"], "iperf3", "-s", "-1"], stdout=quiet, stderr=quiet
        )
        time.sleep(0.5)
        # The first three seconds are slow start.
        load = ["iperf3", "-c", self.host("right"), "-P", "4", "-J", "-t", str(seconds + 4)]
        client = subprocess.Popen(
            [*inside["left"], *load, "-O", "3"], stdout=subprocess.PIPE, text=True
        )
        time.sleep(3)
        ping = ["ping", "-n", "-i", "0.02", "-w", str(int(seconds)), self.host("right")]
        answers = subprocess.run(
            [*inside["left"], *ping], check=False, capture_output=True, text=True
        ).stdout
        result = json.loads(client.communicate()[0])
        server.wait()
        times = sorted(float(ms) for ms in re.findall(r"time=([\d.]+) ms", answers))
        at = [times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.99, 1)]
        return [*at, result["end"]["sum_received"]["bits_per_second"] / 1e6]


def main() -> None:
    """Measures all ways by turns and prints a table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    results: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, (keys, ecn) in WAYS.items():
            network = Network(keys, ecn)
            try:
                network.join()
                results[way].append(network.measure(seconds))
            finally:
                network.remove()
    print("| path | p50, ms | p99, ms | longest, ms | goodput, Mbit/s |")
    print("|---|---:|---:|---:|---:|")
    for way, rows in results.items():
        medians = [statistics.median(column) for column in zip(*rows, strict=True)]
        print(f"| {way} | " + " | ".join(f"{value:.1f}" for value in medians) + " |")


if __name__ == "__main__":
    main()
