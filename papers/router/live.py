#!/usr/bin/env python3
"""The Router paper's experiments on the live router: `make paper-router`.

Usage: papers/router/live.py FILE.md [SECONDS]. As root; needs iproute2, curl and
target/release/millstream, or MILLSTREAM. Three sources send packets of 60 bytes from network namespaces
of their own by veth pairs; the router has the last processor to itself, senders share the others. Where
packets are to cost so much that senders can overload the router, each path has an extension that counts
down. Tables go to FILE.md.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import overload
from overload import ip

SOURCES = 3
#: Turns of the loop for each packet: what makes the router's processor the bottleneck.
TURNS = 1_000
#: What is offered at most, in parts of what the router can forward.
MOST = 3.0
WARM_UP = 1.0
Row = list[str]


def burn(turns: int) -> bytes:
    """A WebAssembly module that counts down from `turns` and leaves the packet as it is."""

    def number(value: int) -> bytes:
        """Signed LEB128."""
        out = bytearray()
        while True:
            low, value = value & 0x7F, value >> 7
            done = (value == 0 and not low & 0x40) or (value == -1 and low & 0x40)
            out.append(low if done else low | 0x80)
            if done:
                return bytes(out)

    def section(kind: int, body: bytes) -> bytes:
        return bytes([kind, len(body)]) + body

    def name(text: str) -> bytes:
        return bytes([len(text)]) + text.encode()

    i32 = 0x7F
    # local 1 = turns; loop { local 1 -= 1; again if it is not 0 }; local 0
    code = bytes([1, 1, i32, 0x41]) + number(turns) + bytes([0x21, 1, 0x03, 0x40, 0x20, 1, 0x41, 1])
    code += bytes([0x6B, 0x22, 1, 0x0D, 0, 0x0B, 0x20, 0, 0x0B])
    kinds = {"memory": 2, "packet": 3, "process": 0}
    exports = b"".join(name(what) + bytes([kind, 0]) for what, kind in kinds.items())
    return (
        b"\0asm\1\0\0\0"
        + section(1, bytes([1, 0x60, 1, i32, 1, i32]))
        + section(3, bytes([1, 0]))
        + section(5, bytes([1, 0, 1]))
        + section(6, bytes([1, i32, 0, 0x41, 0, 0x0B]))
        + section(7, bytes([3]) + exports)
        + section(10, bytes([1, len(code)]) + code)
    )


@dataclass
class Seen:
    """What happened in a stretch of time, by source or path: packets a second."""

    offered: list[float]
    sent: list[float]
    dropped: list[float]
    #: Of each path's process, ns.
    busy: list[float]
    #: Of all processes, for a packet that was sent, ns.
    cost: float
    #: The processor's, a second.
    cycles: int
    #: What the router had of its processor: others may have used it, too.
    worked: float

    @property
    def all(self) -> float:
        """Packets forwarded a second."""
        return sum(self.sent)

    @property
    def each(self) -> float:
        """Packets forwarded in a second of the router's processor time."""
        return self.all / max(1e-9, self.worked)

    @property
    def overloaded(self) -> bool:
        """Whether it could not forward what was offered."""
        return self.all < 0.9 * sum(self.offered)


class Network:
    """Sources, a router and a sink, joined."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = os.environ.get("MILLSTREAM", "target/release/millstream")
        *self.others, self.last = sorted(os.sched_getaffinity(0))
        if not self.others:
            sys.exit("two processors are needed: one for the router, one for senders")
        self.names = [f"pr{os.getpid()}-{name}" for name in ("router", "sink", *range(SOURCES))]
        self.router, self.sink, *self.sources = self.names
        (folder / "burn.wasm").write_bytes(burn(TURNS))

    def make(self) -> None:
        """Makes the namespaces and the wires."""
        for name in self.names:
            ip("netns", "add", name)
        far = [(source, "a0", f"in{at}") for at, source in enumerate(self.sources)]
        for namespace, device, near in [*far, (self.sink, "b0", "out")]:
            wire = ["link", "add", device, "type", "veth", "peer", "name", near, "netns", self.router]
            ip("-n", namespace, *wire)
            ip("-n", namespace, "link", "set", device, "up")
            ip("-n", self.router, "link", "set", near, "up")
        ip("-n", self.router, "link", "set", "lo", "up")
        shown = json.loads(ip("-n", self.router, "-j", "link", "show"))
        self.macs = {of["ifname"]: of["address"] for of in shown}

    def remove(self) -> None:
        """Takes everything away."""
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def file(
        self, paths: list[str], batch: int, extension: bool, output: str = "", reading: str = "polled"
    ) -> str:
        """A router's file whose path number n takes what source n sends.

        `paths` are their further keys, `output` the output's; `reading` is how ports are read.
        """
        text = f'[router]\nname = "paper"\nbatch = {batch}\nstatus = "127.0.0.1:9816"\ninput = "{reading}"\n'
        for at in range(SOURCES):
            text += f'[[port]]\nname = "in{at}"\nkind = "interface"\nrate = "100 Gbps"\n'
            text += 'input-reservation = "150 Mcps"\n' if extension and reading == "polled" else ""
        text += f'[[port]]\nname = "out"\nkind = "interface"\nrate = "100 Gbps"\n{output}\n'
        for at, keys in enumerate(paths):
            text += f'[[path]]\nname = "{"ABC"[at]}"\nmatch = {{ port = "in{at}" }}\nto = "out"\n{keys}\n'
            text += 'extension = { module = "burn.wasm" }\n' if extension else ""
        route = 'prefix = "10.2.0.0/16"\nport = "out"\nneighbour = "02:00:00:00:00:09"\n'
        return f"{text}[[route]]\n{route}"

    def report(self) -> tuple[float, dict[str, Any], list[int], int]:
        """The time, the router's counters, what the kernel sent for sources, and how long it worked, ns."""
        ask = ["curl", "-s", "http://127.0.0.1:9816/status"]
        within = ["ip", "netns", "exec", self.router]
        answer = subprocess.run([*within, *ask], check=True, capture_output=True)
        sent = []
        for source in self.sources:
            shown = json.loads(ip("-n", source, "-j", "-s", "link", "show", "a0"))
            sent.append(int(shown[0]["stats64"]["tx"]["packets"]))
        report: dict[str, Any] = json.loads(answer.stdout)
        worked = int(Path(f"/proc/{self.process}/schedstat").read_text().split()[0])
        return time.perf_counter(), report, sent, worked

    @contextmanager
    def running(self, file: str) -> Iterator[None]:
        """The router by this file, on its processor."""
        path = self.folder / "router.toml"
        path.write_text(file)
        command = ["taskset", "-c", str(self.last), self.program, "route", str(path)]
        within = ["ip", "netns", "exec", self.router]
        router = subprocess.Popen([*within, *command], stdout=-3, stderr=-3)
        # `ip` and `taskset` become the router.
        self.process = router.pid
        try:
            time.sleep(1)
            if router.poll() is not None:
                sys.exit(f"the router did not start by {path}")
            yield
        finally:
            router.send_signal(signal.SIGINT)
            router.wait()

    def measure(self, rates: list[float], seconds: float) -> Seen:
        """Sends at these rates a second, 0 being as fast as it goes and less nothing."""
        senders = []
        for at, rate in enumerate(rates):
            if rate >= 0:
                place = self.others[at % len(self.others)]
                senders.append(overload.sender(self.sources[at], place, self.macs[f"in{at}"], rate))
        try:
            time.sleep(WARM_UP)
            began, before, sent_before, worked_before = self.report()
            time.sleep(seconds)
            ended, after, sent_after, worked_after = self.report()
        finally:
            for sender in senders:
                sender.kill()
                sender.wait()
        took = ended - began

        def paths(*fields: str) -> list[float]:
            both = zip(before["paths"], after["paths"], strict=True)
            return [sum(new[field] - old[field] for field in fields) / took for old, new in both]

        used = [
            new["busy_ns"] - old["busy_ns"]
            for old, new in zip(before["processes"], after["processes"], strict=True)
        ]
        sent = paths("sent")
        ports = len(after["ports"])
        return Seen(
            offered=[(b - a) / took for a, b in zip(sent_before, sent_after, strict=True)],
            sent=sent,
            dropped=paths("dropped_full", "dropped_late"),
            busy=used[ports : ports + len(sent)],
            cost=sum(used) / max(1.0, sum(sent) * took),
            cycles=sum(process["reserved_cycles"] for process in after["processes"]),
            worked=(worked_after - worked_before) / 1e9 / took,
        )


def table(heads: Row, rows: list[Row]) -> str:
    """A table of the book's pages."""
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def kpps(rate: float) -> str:
    """A rate in thousands a second."""
    return f"{rate / 1e3:.1f}"


def overloaded(network: Network, seconds: float, full: Seen | None = None) -> tuple[str, Row, Seen]:
    """Figure 5: what is forwarded, up to three times what can be; the table, its gist, and what can be.

    Polled; or by interrupts if what polling can forward is given.
    """
    reading = "interrupt" if full else "polled"
    with network.running(network.file([""] * SOURCES, 16, True, reading=reading)):
        # As fast as the senders can: what the router can.
        network.measure([0.0] * SOURCES, WARM_UP)
        full = full or network.measure([0.0] * SOURCES, seconds)
        parts = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, MOST]
        seen = [network.measure([part * full.all / SOURCES] * SOURCES, seconds) for part in parts]
    peak = max(of.each for of in seen if of.overloaded) if any(of.overloaded for of in seen) else full.each
    rows = [
        [
            kpps(sum(of.offered)),
            kpps(of.all),
            f"{100 * of.worked:.0f} %",
            kpps(of.each) if of.overloaded else "it kept up",
            f"{of.each / peak:.2f}" if of.overloaded else "",
        ]
        for of in seen
    ]
    beyond = [of for of in seen if of.overloaded]
    live = "the senders could not overload it"
    if beyond:
        least = min(of.each for of in beyond) / peak
        most = max(sum(of.offered) / of.all for of in beyond)
        live = f"{100 * least:.0f} % of the peak at least, up to {most:.1f} times what it forwards"
    gist = ["Fig 5: the rate under overload", "remains flat", "flat", live]
    if reading == "interrupt":
        gist = ["Fig 5: the same by interrupts", "livelock", "livelock", live]
    heads = [
        "offered (Kpps)",
        "forwarded (Kpps)",
        "of its processor the router had",
        "forwarded in a second of that (Kpps)",
        "of the peak",
    ]
    return table(heads, rows), gist, full


def shares(network: Network, full: Seen, seconds: float) -> tuple[str, Row]:
    """Three functions that reserve 1, 2 and 3 parts, all overloaded."""
    part = full.cycles // 18 // 1_000_000
    # Senders take turns on their processor, a few ms each: queues must last for as long. And an output
    # that cannot follow shares by its own discipline.
    keys = [f'reservation = "{part * weight} Mcps"\nqueue = 4096' for weight in (1, 2, 3)]
    output = f'output-reservation = "{6 * part} Mcps"'
    with network.running(network.file(keys, 16, True, output)):
        seen = network.measure([0.0] * SOURCES, seconds)
    busy, worst = sum(seen.busy), 0.0
    rows = []
    for at, weight in enumerate((1, 2, 3)):
        share = seen.busy[at] / busy
        error = 100 * (share * 6 / weight - 1)
        worst = max(worst, abs(error))
        rates = [kpps(seen.offered[at]), kpps(seen.sent[at])]
        rows.append(["ABC"[at], *rates, f"{weight / 6:.3f}", f"{share:.3f}", f"{error:+.1f} %"])
    heads = ["function", "offered (Kpps)", "forwarded (Kpps)", "reserved", "got", "error"]
    gist = ["the processor's time by reservation", "proportional", "proportional", f"within {worst:.1f} %"]
    return table(heads, rows), gist


def promised(network: Network, full: Seen, seconds: float) -> tuple[str, Row]:
    """Figure 6: B and C are promised a rate each, and A offers more and more."""
    rate = full.all / 5
    cost = f'cost = "{int(1.1 * full.cost)} ns"\nreservation = "{int(rate)} pps"'
    rows, kept = [], []
    with network.running(network.file(["", cost, cost], 16, True)):
        for part in (0.2, 0.4, 0.6, 1.0, MOST):
            seen = network.measure([part * full.all, rate * 0.98, rate * 0.98], seconds)
            kept += [seen.sent[at] / max(1.0, seen.offered[at]) for at in (1, 2)]
            dropped = [f"{seen.dropped[at]:.0f}" for at in range(SOURCES)]
            pairs = zip(seen.offered, seen.sent, strict=True)
            rows.append([*(kpps(of) for pair in pairs for of in pair), " / ".join(dropped)])
    heads = [f"{name} {what}" for name in "ABC" for what in ("offered", "got")]
    live = f"{100 * min(kept):.1f} % at least"
    gist = ["Fig 6: B and C get, whatever A offers", "all of theirs", "all", live]
    return table([*heads, "dropped, A / B / C (packets/s)"], rows), gist


def batches(network: Network, seconds: float) -> tuple[str, Row]:
    """Table 2's question: what batching saves."""
    costs = {}
    for batch in (1, 4, 16, 32):
        with network.running(network.file([""] * SOURCES, batch, False)):
            costs[batch] = network.measure([0.0] * SOURCES, seconds)
    base = costs[16].cost
    rows = [
        [str(batch), kpps(seen.all), f"{seen.cost:.0f}", f"{base / seen.cost:.2f}"]
        for batch, seen in costs.items()
    ]
    heads = ["batch", "forwarded (Kpps)", "processor a packet (ns)", "rate it allows / that of 16"]
    gist = ["Table 2: rate of batches of 1 against 16", "0.83", "0.83", f"{base / costs[1].cost:.2f}"]
    return table(heads, rows), gist


def main() -> None:
    """Measures and writes."""
    out = Path(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 4.0
    with tempfile.TemporaryDirectory() as folder:
        network = Network(Path(folder))
        try:
            network.make()
            flat, first, full = overloaded(network, seconds)
            parts = {
                "Overload (Figure 5)": (flat, first),
                "Overload, read by interrupts": overloaded(network, seconds, full)[:2],
                "Functions that reserve 1, 2 and 3 parts": shares(network, full, seconds),
                "Best effort beside two promises (Figure 6; Kpps)": promised(network, full, seconds),
                "Batches (Table 2)": batches(network, seconds),
            }
        finally:
            network.remove()
    text = table(["shape", "the paper", "the model", "live"], [gist for _, gist in parts.values()])
    out.write_text(text + "".join(f"\n### {title}\n\n{rows}" for title, (rows, _) in parts.items()))


if __name__ == "__main__":
    main()
