#!/usr/bin/env python3
"""What a core forwards between veth pairs: the router by AF_XDP and by AF_PACKET, and the kernel.

Usage: benches/peers/veth.py [SECONDS [ROUNDS]]. As root; needs iproute2, curl, a C compiler, two processors and
target/release/millstream, or MILLSTREAM. A sender of 60-byte packets and all receiving have one processor, what
forwards has the other; rounds go by turns. Printed are, for each way and the best of its rounds, what was offered and what
arrived, and what a packet took of the forwarding processor: of the router's processes by its own count (calls to
send are in it), of the kernel's forwarding the time that /proc/stat calls softirq. Its inverse is what a core
forwards where senders do not run out first.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FILE = """
[router]
status = "127.0.0.1:9814"
[[port]]
name = "a1"
kind = "interface"
io = "{io}"
rate = "100 Gbps"
[[port]]
name = "b1"
kind = "interface"
io = "{io}"
rate = "100 Gbps"
[[path]]
name = "all"
[[route]]
prefix = "10.2.0.0/16"
port = "b1"
neighbour = "{mac}"
"""
#: What forwards.
WAYS = ("xdp", "packet", "kernel")


def ip(*arguments: str) -> str:
    """What `ip` prints."""
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


class Network:
    """Three namespaces in a row."""

    def __init__(self) -> None:
        """Makes them."""
        self.source, self.router, self.sink = (f"vt{os.getpid()}-{name}" for name in ("a", "r", "b"))
        for name in (self.source, self.router, self.sink):
            ip("netns", "add", name)
        for far, device, near in ((self.source, "a0", "a1"), (self.sink, "b0", "b1")):
            ip("-n", far, "link", "add", device, "type", "veth", "peer", "name", near, "netns", self.router)
            ip("-n", far, "link", "set", device, "up")
            ip("-n", self.router, "link", "set", near, "up")
        ip("-n", self.router, "link", "set", "lo", "up")

    def remove(self) -> None:
        """Removes them."""
        for name in (self.source, self.router, self.sink):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def run(self, namespace: str, *command: str) -> str:
        """What a command of a namespace prints."""
        return ip("netns", "exec", namespace, *command)

    def mac(self, namespace: str, device: str) -> str:
        """A device's hardware address."""
        address: str = json.loads(ip("-n", namespace, "-j", "link", "show", device))[0]["address"]
        return address

    def received(self, namespace: str, device: str) -> int:
        """Packets that have come to a device, by the kernel's count, those its backlog had no room for left out."""
        of = json.loads(ip("-n", namespace, "-j", "-s", "link", "show", device))[0]["stats64"]["rx"]
        count: int = of["packets"]
        return count

    def received_by(self, namespace: str, device: str, processor: int) -> None:
        """Packets that come to a device are looked at on this processor."""
        mask = f"{1 << processor:x}"
        self.run(namespace, "sh", "-c", f"echo {mask} > /sys/class/net/{device}/queues/rx-0/rps_cpus")


def softirq_seconds(processor: int) -> float:
    """Time that a processor has spent on the kernel's deferred work."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith(f"cpu{processor} "):
            return int(line.split()[7]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def busy_seconds(network: Network) -> float:
    """Time that the router's processes have used."""
    status = network.run(network.router, "curl", "-s", "http://127.0.0.1:9814/status")
    return sum(of["busy_ns"] for of in json.loads(status)["processes"] if of["packets"]) / 1e9


def measure(network: Network, way: str, flood: str, seconds: float, first: int, last: int) -> list[float]:
    """Mpps offered, Mpps forwarded, ns a packet."""
    program = os.environ.get("MILLSTREAM", "target/release/millstream")
    near, far = network.mac(network.router, "a1"), network.mac(network.sink, "b0")
    file = tempfile.NamedTemporaryFile("w", suffix=".toml")
    running: Any = None
    try:
        network.received_by(network.sink, "b0", first)
        network.received_by(network.router, "a1", last if way == "kernel" else first)
        if way == "kernel":
            ip("-n", network.router, "address", "replace", "10.1.0.1/24", "dev", "a1")
            ip("-n", network.router, "address", "replace", "10.2.0.1/24", "dev", "b1")
            ip("-n", network.router, "neigh", "replace", "10.2.0.2", "lladdr", far, "dev", "b1")
            network.run(network.router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        else:
            file.write(FILE.format(io=way, mac=far))
            file.flush()
            command = ["taskset", "-c", str(last), program, "route", file.name]
            quiet = subprocess.DEVNULL
            running = subprocess.Popen(
                ["ip", "netns", "exec", network.router, *command], stdout=quiet, stderr=quiet
            )
            time.sleep(1)
        send = ["taskset", "-c", str(first), flood, "a0", near, "02:00:00:00:00:04", str(seconds + 1)]
        sending = subprocess.Popen(
            ["ip", "netns", "exec", network.source, *send], stdout=subprocess.PIPE, text=True
        )
        time.sleep(0.5)

        def now() -> tuple[float, int, float]:
            used = busy_seconds(network) if running else softirq_seconds(last)
            return time.perf_counter(), network.received(network.sink, "b0"), used

        before = now()
        time.sleep(seconds)
        after = now()
        offered = int(sending.communicate()[0]) / (seconds + 1)
        took, packets, used = (b - a for a, b in zip(before, after, strict=True))
        return [offered / 1e6, packets / took / 1e6, used / max(packets, 1) * 1e9]
    finally:
        if running:
            running.send_signal(signal.SIGINT)
            running.wait()
        if way == "kernel":
            network.run(network.router, "sysctl", "-qw", "net.ipv4.ip_forward=0")
            for device in ("a1", "b1"):
                ip("-n", network.router, "address", "flush", "dev", device)


def main() -> None:
    """Measures and prints."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        sys.exit("two processors are needed: one for what forwards, one for the sender")
    with tempfile.TemporaryDirectory() as folder:
        flood = f"{folder}/flood"
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-O2", "-o", flood, HERE / "flood.c"], check=True)
        network = Network()
        try:
            rows: dict[str, list[list[float]]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way in WAYS:
                    rows[way].append(measure(network, way, flood, seconds, processors[0], processors[-1]))
        finally:
            network.remove()
    print("by      offered  forwarded (Mpps)  ns a packet  Mpps a core")
    for way, of in rows.items():
        offered, forwarded, _ = max(of, key=lambda row: row[1])
        least = min(row[2] for row in of)
        print(f"{way:8}{offered:7.2f}{forwarded:11.2f}{least:20.0f}{1e3 / least:13.2f}")


if __name__ == "__main__":
    main()
