#!/usr/bin/env python3
"""Forwarding rate of a core between veth pairs: router, bare AF_XDP forwarder, kernel.

Usage: benches/peers/veth.py [SECONDS [ROUNDS]]. Needs root, iproute2, ethtool, curl, a C compiler,
two cores and target/release/millstream, or MILLSTREAM. The router forwards over AF_XDP and over
AF_PACKET. One core sends 60-byte packets at a rate above the forwarders' capacity and does all
receiving; the other forwards. Rounds alternate. For the best round of each it prints packets that
arrived at its port and at the far end, and the forwarding core's CPU time per packet. The router's
processes and the bare forwarder report the time of rounds that moved packets, including system
calls to send. For the kernel it is the time that /proc/stat counts neither as idle nor as a
program's. The inverse is the rate of a core.

Receiving at the far end on the other core means interrupting it whenever it is idle, and in a
virtual machine an interrupt costs more than a packet. AF_XDP is therefore also measured without
("alone"); the far end's cost of dropping a packet is then included.
"""

import contextlib
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
rate = "100 Gbit/s"
[[port]]
name = "b1"
kind = "interface"
io = "{io}"
rate = "100 Gbit/s"
[[path]]
name = "all"
[[route]]
prefix = "10.2.0.0/16"
port = "b1"
neighbour = "{mac}"
"""
#: The forwarders; "alone": the far end does not receive on the other core.
WAYS = ("xdp", "bare", "packet", "kernel", "xdp alone", "bare alone")
#: Destination: an unused hardware address, so that packets end on arrival.
FAR = "02:00:00:00:00:99"


def ip(*arguments: str) -> str:
    """Returns the output of `ip`."""
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


class Network:
    """Three namespaces in a row."""

    def __init__(self) -> None:
        """Creates the namespaces."""
        self.source, self.router, self.sink = (
            f"vt{os.getpid()}-{name}" for name in ("a", "r", "b")
        )
        for name in (self.source, self.router, self.sink):
            ip("netns", "add", name)
        for far, device, near in ((self.source, "a0", "a1"), (self.sink, "b0", "b1")):
            ip(
                "-n",
                far,
                "link",
                "add",
                device,
                "type",
                "veth",
                "peer",
                "name",
                near,
                "netns",
                self.router,
            )
            ip("-n", far, "link", "set", device, "up")
            ip("-n", self.router, "link", "set", near, "up")
        ip("-n", self.router, "link", "set", "lo", "up")
        # Without an XDP program at the receiver the kernel takes no frames from the sender's
        # program.
        self.run(self.router, "ethtool", "-K", "a1", "gro", "on")

    def remove(self) -> None:
        """Removes the namespaces."""
        for name in (self.source, self.router, self.sink):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def run(self, namespace: str, *command: str) -> str:
        """Returns the output of a command in a namespace."""
        return ip("netns", "exec", namespace, *command)

    def mac(self, namespace: str, device: str) -> str:
        """Returns a device's hardware address."""
        address: str = json.loads(ip("-n", namespace, "-j", "link", "show", device))[0]["address"]
        return address

    def received(self, namespace: str, device: str) -> int:
        """Returns the kernel's count of packets received by a device, without backlog drops."""
        of = json.loads(ip("-n", namespace, "-j", "-s", "link", "show", device))[0]["stats64"]["rx"]
        count: int = of["packets"]
        return count

    def set_receive_cpu(self, namespace: str, device: str, processor: int | None) -> None:
        """Assigns a device's receive processing to this core, or to the sender's."""
        mask = "0" if processor is None else f"{1 << processor:x}"
        self.run(
            namespace, "sh", "-c", f"echo {mask} > /sys/class/net/{device}/queues/rx-0/rps_cpus"
        )


def kernel_seconds(processor: int) -> float:
    """Returns the time that a core has spent in the kernel."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith(f"cpu{processor} "):
            _, _, _, system, _, _, irq, softirq, *_ = line.split()
            return (int(system) + int(irq) + int(softirq)) / os.sysconf("SC_CLK_TCK")
    return 0.0


class Forwarder:
    """A forwarder from a1 to b1 on its core."""

    def __init__(self, network: Network, way: str, bare: str, processor: int, file: str) -> None:
        """Starts the forwarder; `file` is the router's."""
        self.network, self.way, self.processor = network, way, processor
        self.running: Any = None
        self.file = tempfile.NamedTemporaryFile("w", suffix=".toml")
        inside = ["ip", "netns", "exec", network.router, "taskset", "-c", str(processor)]
        quiet = subprocess.DEVNULL
        if way == "kernel":
            ip("-n", network.router, "address", "replace", "10.1.0.1/24", "dev", "a1")
            ip("-n", network.router, "address", "replace", "10.2.0.1/24", "dev", "b1")
            ip("-n", network.router, "neigh", "replace", "10.2.0.2", "lladdr", FAR, "dev", "b1")
            network.run(network.router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        elif way == "bare":
            command = [*inside, bare, "a1", "b1", FAR]
            self.running = subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
        else:
            program = os.environ.get("MILLSTREAM", "target/release/millstream")
            self.file.write(file.format(io=way, mac=FAR))
            self.file.flush()
            command = [*inside, program, "route", self.file.name]
            self.running = subprocess.Popen(
                command, stdout=quiet, stderr=quiet, start_new_session=True
            )
        if self.running:
            # As in the systemd unit: otherwise other processes hold the core for milliseconds.
            with contextlib.suppress(OSError):
                Path(f"/proc/{self.running.pid}/autogroup").write_text("-20")
        time.sleep(1)

    def busy_seconds(self) -> float:
        """Returns the CPU time used."""
        if self.way == "kernel":
            return kernel_seconds(self.processor)
        if self.way == "bare":
            self.running.send_signal(signal.SIGUSR1)
            line: str = self.running.stdout.readline()
            return int(line.split()[1]) / 1e9
        status = self.network.run(self.network.router, "curl", "-s", "http://127.0.0.1:9814/status")
        ran = (of for of in json.loads(status)["processes"] if of["packets"])
        return float(sum(of["busy_ns"] for of in ran)) / 1e9

    def stop(self) -> None:
        """Stops the forwarder."""
        if self.running:
            self.running.send_signal(signal.SIGINT)
            self.running.wait()
        if self.way == "kernel":
            self.network.run(self.network.router, "sysctl", "-qw", "net.ipv4.ip_forward=0")
            for device in ("a1", "b1"):
                ip("-n", self.network.router, "address", "flush", "dev", device)


def measure(
    network: Network,
    way: str,
    folder: str,
    seconds: float,
    first: int,
    last: int,
    file: str = FILE,
    streams: int = 1,
) -> list[float]:
    """Returns Mpps offered, Mpps forwarded, ns per packet."""
    way, _, alone = way.partition(" ")
    network.set_receive_cpu(network.sink, "b0", None if alone else first)
    network.set_receive_cpu(network.router, "a1", last if way == "kernel" else first)
    forwarder = Forwarder(network, way, f"{folder}/xdp_forward", last, file)
    try:
        send = [
            "taskset",
            "-c",
            str(first),
            f"{folder}/flood",
            "a0",
            network.mac(network.router, "a1"),
        ]
        send += ["02:00:00:00:00:04", str(seconds + 1.5), str(streams)]
        sending = subprocess.Popen(["ip", "netns", "exec", network.source, *send])
        time.sleep(0.5)

        def now() -> tuple[float, int, int, float]:
            counts = network.received(network.router, "a1"), network.received(network.sink, "b0")
            return time.perf_counter(), *counts, forwarder.busy_seconds()

        before = now()
        time.sleep(seconds)
        after = now()
        if sending.wait():
            sys.exit("the sender failed")
        took, offered, packets, used = (b - a for a, b in zip(before, after, strict=True))
        return [offered / took / 1e6, packets / took / 1e6, used / max(packets, 1) * 1e9]
    finally:
        forwarder.stop()


def build(folder: str) -> None:
    """Compiles the sender and the bare forwarder."""
    compiler = os.environ.get("CC", "cc")
    for program in ("flood", "xdp_forward"):
        source = HERE / f"{program}.c"
        subprocess.run([compiler, "-O2", "-o", f"{folder}/{program}", source], check=True)


def show(rows: dict[str, list[list[float]]]) -> None:
    """Prints the best round of each forwarder."""
    print("by             offered  forwarded (Mpps)    ns/packet    Mpps/core")
    for way, of in rows.items():
        offered, forwarded, took = max(of, key=lambda row: row[1])
        print(f"{way:15}{offered:7.2f}{forwarded:11.2f}{took:20.0f}{1e3 / took:13.2f}")


def two_cpus() -> tuple[int, int]:
    """Returns a core for sender and receivers, and one for the forwarder."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        sys.exit("two cores are needed: one for the forwarder, one for the sender")
    return processors[0], processors[-1]


def main() -> None:
    """Measures all forwarders and prints a table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    first, last = two_cpus()
    with tempfile.TemporaryDirectory() as folder:
        build(folder)
        network = Network()
        try:
            rows: dict[str, list[list[float]]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way in WAYS:
                    rows[way].append(measure(network, way, folder, seconds, first, last))
        finally:
            network.remove()
    show(rows)


if __name__ == "__main__":
    main()
