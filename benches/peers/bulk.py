#!/usr/bin/env python3
"""Throughput of one TCP connection between two namespaces, by port type of the router and kernel.

Usage: benches/peers/bulk.py [SECONDS [ROUNDS]]. Needs root, iproute2, iperf3 and
target/release/millstream, or MILLSTREAM. Offloads are as the kernel sets them; the router's batches
fit segments of 64 KiB. Rounds alternate, and all processes run on any core. For each path it
prints the received Gbit/s of the best round.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from veth import ip

#: Paths from one namespace to the other.
WAYS = ("tap", "xdp", "packet", "bridge", "kernel")
#: Devices of the router: each with its end of the network and the addresses of both sides.
SIDES = {"left": ("l1", "l0", "10.1.0"), "right": ("r1", "r0", "10.2.0")}
PORT = """
[[port]]
name = "{name}"
kind = "{kind}"
rate = "{rate}"
{io}mac = "02:00:00:00:00:0{k}"
address = "{network}.1/24"
[[route]]
prefix = "{network}.0/24"
port = "{name}"
"""


class Network:
    """Two namespaces joined by one in the middle."""

    def __init__(self, way: str) -> None:
        """Creates the namespaces."""
        self.way = way
        self.names = {name: f"bk{os.getpid()}-{name}" for name in (*SIDES, "middle")}
        self.router: Any = None
        self.file = tempfile.NamedTemporaryFile("w", suffix=".toml")
        for name in self.names.values():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")

    def remove(self) -> None:
        """Removes the namespaces."""
        if self.router:
            self.router.send_signal(signal.SIGINT)
            self.router.wait()
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def join(self) -> None:
        """Creates the connection in the middle."""
        middle = self.names["middle"]
        if self.way != "tap":
            for side, (near, far, _) in SIDES.items():
                peer = ("type", "veth", "peer", "name", near, "netns", middle)
                ip("-n", self.names[side], "link", "add", far, *peer)
                ip("-n", middle, "link", "set", near, "up")
        if self.way == "bridge":
            ip("-n", middle, "link", "add", "bridge0", "type", "bridge")
            ip("-n", middle, "link", "set", "bridge0", "up")
            for near, _, _ in SIDES.values():
                ip("-n", middle, "link", "set", near, "master", "bridge0")
        elif self.way == "kernel":
            ip("netns", "exec", middle, "sysctl", "-qw", "net.ipv4.ip_forward=1")
            for near, _, network in SIDES.values():
                ip("-n", middle, "address", "add", f"{network}.1/24", "dev", near)
        else:
            self.route()
        for side, (_, far, network) in SIDES.items():
            name = self.names[side]
            ip("-n", name, "link", "set", far, "up")
            host = self.host(side)
            ip("-n", name, "address", "add", f"{host}/24", "dev", far)
            if self.way != "bridge":
                ip("-n", name, "route", "add", "default", "via", f"{network}.1")

    def host(self, side: str) -> str:
        """Returns the address of a side."""
        if self.way == "bridge":
            return "10.1.0.2" if side == "left" else "10.1.0.3"
        return f"{SIDES[side][2]}.2"

    def settings(self) -> str:
        """Returns the head of the router's file: its path."""
        return '[router]\nbatch = 64\n[[path]]\nname = "all"\nqueue = 1024\n'

    def rate(self, side: str) -> str:
        """Returns the rate of the port of a side."""
        return "100 Gbit/s"

    def route(self) -> None:
        """Starts the router with its devices."""
        text = self.settings()
        for k, (side, (near, far, network)) in enumerate(SIDES.items()):
            kind, name = ("tap", far) if self.way == "tap" else ("interface", near)
            io = "" if self.way == "tap" else f'io = "{self.way}"\n'
            text += PORT.format(
                name=name, kind=kind, io=io, network=network, k=k + 1, rate=self.rate(side)
            )
        self.file.write(text)
        self.file.flush()
        program = os.environ.get("MILLSTREAM", "target/release/millstream")
        inside = ["ip", "netns", "exec", self.names["middle"]]
        self.router = subprocess.Popen(
            [*inside, program, "route", self.file.name],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(1)
        if self.way == "tap":
            for side, (_, far, _) in SIDES.items():
                ip("-n", self.names["middle"], "link", "set", far, "netns", self.names[side])

    def gbps(self, seconds: float) -> float:
        """Returns the throughput of a connection, Gbit/s."""
        inside = {side: ["ip", "netns", "exec", self.names[side]] for side in SIDES}
        quiet = subprocess.DEVNULL
        server = subprocess.Popen(
            [*inside["right"], "iperf3", "-s", "-1"], stdout=quiet, stderr=quiet
        )
        time.sleep(0.5)
        command = [*inside["left"], "iperf3", "-c", self.host("right"), "-t", str(seconds), "-J"]
        answer = subprocess.run(command, check=False, capture_output=True, text=True)
        result = json.loads(answer.stdout)
        if "error" in result:
            server.kill()
            sys.exit(f"{self.way}: {result['error']}")
        server.wait()
        received: float = result["end"]["sum_received"]["bits_per_second"]
        return received / 1e9


def main() -> None:
    """Measures all paths and prints a table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    best = dict.fromkeys(WAYS, 0.0)
    for _ in range(rounds):
        for way in WAYS:
            network = Network(way)
            try:
                network.join()
                best[way] = max(best[way], network.gbps(seconds))
            finally:
                network.remove()
    print("path       Gbit/s")
    for way, of in best.items():
        print(f"{way:10}{of:7.2f}")


if __name__ == "__main__":
    main()
