#!/usr/bin/env python3
"""What a core forwards between veth pairs: the router by AF_XDP and by AF_PACKET, a bare AF_XDP forwarder, the kernel.

Usage: benches/peers/veth.py [SECONDS [ROUNDS]]. As root; needs iproute2, ethtool, curl, a C compiler, two processors and
target/release/millstream, or MILLSTREAM. More 60-byte packets are sent than any way forwards, by one processor that does
all receiving, too; the other has what forwards. Rounds go by turns. Printed are, for each way and the best of its rounds,
what came to its port and what came out at the other end, and what a packet took of the forwarding processor: of the
router's processes and of the bare forwarder by their own count of the rounds that moved packets (calls to send are in it), of
the kernel's forwarding the time that /proc/stat does not call idle or a program's. Its inverse is what a core forwards.

To have the far end's receiving done by the other processor that is interrupted, as often as it has nothing left to do, and
in a virtual machine an interrupt costs more than a packet. So AF_XDP is measured without that, too ("alone"): what the
far end takes to drop a packet is in it then.
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
#: What forwards; alone, if the far end's receiving is not done by the other processor.
WAYS = ("xdp", "bare", "packet", "kernel", "xdp alone", "bare alone")
#: Where packets are sent: a hardware address that nobody has, so that they end as soon as they have arrived.
FAR = "02:00:00:00:00:99"


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
        # Or the kernel takes no frames from the sender's program where no program for XDP receives them.
        self.run(self.router, "ethtool", "-K", "a1", "gro", "on")

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

    def received_by(self, namespace: str, device: str, processor: int | None) -> None:
        """Packets that come to a device are looked at on this processor, or on the sender's."""
        mask = "0" if processor is None else f"{1 << processor:x}"
        self.run(namespace, "sh", "-c", f"echo {mask} > /sys/class/net/{device}/queues/rx-0/rps_cpus")


def kernel_seconds(processor: int) -> float:
    """Time that a processor has spent in the kernel."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith(f"cpu{processor} "):
            _, _, _, system, _, _, irq, softirq, *_ = line.split()
            return (int(system) + int(irq) + int(softirq)) / os.sysconf("SC_CLK_TCK")
    return 0.0


class Forwarder:
    """What forwards from a1 to b1, on its processor."""

    def __init__(self, network: Network, way: str, bare: str, processor: int, file: str) -> None:
        """Starts it; `file` is the router's."""
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
            self.running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        else:
            program = os.environ.get("MILLSTREAM", "target/release/millstream")
            self.file.write(file.format(io=way, mac=FAR))
            self.file.flush()
            command = [*inside, program, "route", self.file.name]
            self.running = subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
        if self.running:
            # As the unit for systemd has it: before others, which would have the processor for milliseconds.
            with contextlib.suppress(OSError):
                Path(f"/proc/{self.running.pid}/autogroup").write_text("-20")
        time.sleep(1)

    def busy_seconds(self) -> float:
        """Time that it has used."""
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
        """Stops it."""
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
    """Mpps offered, Mpps forwarded, ns a packet."""
    way, _, alone = way.partition(" ")
    network.received_by(network.sink, "b0", None if alone else first)
    network.received_by(network.router, "a1", last if way == "kernel" else first)
    forwarder = Forwarder(network, way, f"{folder}/xdp_forward", last, file)
    try:
        send = ["taskset", "-c", str(first), f"{folder}/flood", "a0", network.mac(network.router, "a1")]
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
    """Prints the best of each way's rounds."""
    print("by             offered  forwarded (Mpps)  ns a packet  Mpps a core")
    for way, of in rows.items():
        offered, forwarded, took = max(of, key=lambda row: row[1])
        print(f"{way:15}{offered:7.2f}{forwarded:11.2f}{took:20.0f}{1e3 / took:13.2f}")


def two_processors() -> tuple[int, int]:
    """One for the sender and who receives, one for what forwards."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        sys.exit("two processors are needed: one for what forwards, one for the sender")
    return processors[0], processors[-1]


def main() -> None:
    """Measures and prints."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    first, last = two_processors()
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
