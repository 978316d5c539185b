#!/usr/bin/env python3
"""Measures whether the live router between veth pairs has a receive livelock.

Usage: papers/router/overload.py [SECONDS [BUSY [polled | interrupt]]]. Needs root, iproute2, curl
and target/release/millstream, or MILLSTREAM. The router has one core; senders of 60-byte packets
have the others. The offered load is the kernel's count of sent packets, in fractions of the
senders' capacity; the forwarded load is the router's count. If senders have too few cores to
overload the router, BUSY programs compete for the router's core.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

#: Fractions of the senders' capacity.
FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
BURST = 16
FILE = """
[router]
input = "polled"
status = "127.0.0.1:9816"
[[port]]
name = "a1"
kind = "interface"
rate = "100 Gbps"
[[port]]
name = "b1"
kind = "interface"
rate = "100 Gbps"
[[path]]
name = "all"
[[route]]
prefix = "10.2.0.0/16"
port = "b1"
neighbour = "02:00:00:00:00:09"
"""


def ip(*arguments: str) -> str:
    """Returns the output of `ip`."""
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def frame(mac: str, network: int = 2) -> bytes:
    """Builds a UDP packet of 60 bytes to 10.`network`.0.1."""
    ip_header = (
        bytes.fromhex("4500002e000000004011") + bytes(2) + bytes([10, 1, 0, 1, 10, network, 0, 1])
    )
    total = sum(int.from_bytes(ip_header[k : k + 2]) for k in range(0, 20, 2))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = (~total & 0xFFFF).to_bytes(2)
    ip_header = ip_header[:10] + checksum + ip_header[12:]
    ethernet = bytes.fromhex(mac.replace(":", "")) + bytes.fromhex("020000000004") + b"\x08\x00"
    udp = bytes([0, 9, 0, 9, 0, 26, 0, 0])
    return ethernet + ip_header + udp + bytes(18)


def send(processor: int, packet: bytes, per_second: float) -> None:
    """Sends at a rate in packets per second until terminated; 0 is full speed."""
    os.sched_setaffinity(0, {processor})
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind(("a0", 0))
        began, sent = time.perf_counter(), 0
        while True:
            if per_second and sent > (time.perf_counter() - began) * per_second:
                continue
            for _ in range(BURST):
                try:
                    out.send(packet)
                except OSError:
                    continue
            sent += BURST


def sender(namespace: str, processor: int, mac: str, rate: float) -> Any:
    """Starts a process that sends from a namespace."""
    command = ["ip", "netns", "exec", namespace, sys.executable, __file__, "--send"]
    return subprocess.Popen([*command, str(processor), mac, str(rate)])


def counted(source: str, router: str) -> tuple[int, int, int]:
    """Returns packets sent (kernel's count), and packets read and forwarded (router's counts)."""
    shown = json.loads(ip("-n", source, "-j", "-s", "link", "show", "a0"))
    command = ["ip", "netns", "exec", router, "curl", "-s", "http://127.0.0.1:9816/status"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    sent: int = shown[0]["stats64"]["tx"]["packets"]
    return sent, report["ports"][0]["received"], report["paths"][0]["sent"]


def main() -> None:
    """Measures and prints a table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    program = os.environ.get("MILLSTREAM", "target/release/millstream")
    busy = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    reading = sys.argv[3] if len(sys.argv) > 3 else "polled"
    *others, last = sorted(os.sched_getaffinity(0))
    if not others:
        sys.exit("two cores are required: one for the router, one for senders")
    source, router, sink = (f"ov{os.getpid()}-{name}" for name in ("a", "r", "b"))
    file = tempfile.NamedTemporaryFile("w", suffix=".toml")
    running = None
    counting: list[Any] = []
    try:
        for name in (source, router, sink):
            ip("netns", "add", name)
        for far, device, near in ((source, "a0", "a1"), (sink, "b0", "b1")):
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
                router,
            )
            ip("-n", far, "link", "set", device, "up")
            ip("-n", router, "link", "set", near, "up")
        ip("-n", router, "link", "set", "lo", "up")
        mac = json.loads(ip("-n", router, "-j", "link", "show", "a1"))[0]["address"]
        file.write(FILE.replace("polled", reading))
        file.flush()
        command = ["taskset", "-c", str(last), program, "route", file.name]
        running = subprocess.Popen(["ip", "netns", "exec", router, *command], stdout=-3, stderr=-3)
        time.sleep(1)
        endless = ["taskset", "-c", str(last), sys.executable, "-c", "while True: pass"]
        counting += [subprocess.Popen(endless) for _ in range(busy)]
        fastest = 0.0
        rows = []
        # The first run, at full speed, measures the senders' capacity.
        for fraction in (0.0, *FRACTIONS):
            rate = fraction * fastest / len(others)
            senders = [sender(source, at, mac, rate) for at in others]
            time.sleep(1)
            began, before = time.perf_counter(), counted(source, router)
            time.sleep(seconds)
            took, after = time.perf_counter() - began, counted(source, router)
            for process in senders:
                process.kill()
                process.wait()
            row = [(b - a) / took for a, b in zip(before, after, strict=True)]
            fastest = fastest or row[0]
            if fraction:
                rows.append(row)
        peak = max(row[2] for row in rows)
        print("offered (Kpps)  read  forwarded  % of peak   offered / peak")
        for offered, read, forwarded in rows:
            print(
                f"{offered / 1e3:14.0f}{read / 1e3:6.0f}{forwarded / 1e3:11.0f}"
                f"{100 * forwarded / peak:12.1f}%{offered / peak:16.2f}"
            )
    finally:
        for process in counting:
            process.kill()
            process.wait()
        if running is not None:
            running.send_signal(signal.SIGINT)
            running.wait()
        for name in (source, router, sink):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--send"]:
        at, to, packets = sys.argv[2:]
        send(int(at), frame(to), float(packets))
    else:
        main()
