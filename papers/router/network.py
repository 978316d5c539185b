"""Network namespaces around a router on a core of its own, and their counters."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from overload import ip

SOURCES = 3
SINKS = 2
STATUS = "127.0.0.1:9816"
#: Start-up time limit of a router, s.
START = 30.0
#: Warm-up time of the senders, s.
WARM_UP = 0.5
#: A measurement with more steal time is repeated, fraction of the machine's CPU time.
MOST_STEAL = 0.02
#: Number of attempts of a measurement.
ATTEMPTS = 10
Sender = Any
#: Starts sender processes.
Start = Callable[[], list[Sender]]
#: A namespace and a device in it.
Device = tuple[str, str]


@dataclass
class Rates:
    """Rates during an interval, by source or path, packets per second."""

    offered: list[float]
    #: Offered packets that full devices dropped.
    lost: list[float]
    sent: list[float]
    dropped: list[float]
    #: CPU time of each process, ns, in the router's order: inputs, paths, outputs.
    used: list[float]
    #: Packets moved by these processes.
    moved: list[float]
    #: Cycles per second of the core.
    cycles: int
    #: The router's share of its core, which other processes may use too.
    cpu_share: float
    #: The share of the time that the router waited for its core, which other processes used.
    waiting: float
    #: Duration of the interval, s.
    seconds: float

    @property
    def forwarded(self) -> float:
        """Packets forwarded per second."""
        return sum(self.sent)

    @property
    def per_cpu_second(self) -> float:
        """Packets forwarded per second of the router's CPU time."""
        return self.forwarded / max(1e-9, self.cpu_share)

    def forwarded_share(self, path: int) -> float:
        """Returns the fraction of the offered load that is not lost; each path has a device."""
        return 1 - (self.lost[path] + self.dropped[path]) / max(1.0, self.offered[path])

    @property
    def cpu_per_sent_packet(self) -> float:
        """CPU time of all processes per sent packet, ns."""
        return sum(self.used) / max(1.0, self.forwarded * self.seconds)

    @property
    def busy(self) -> list[float]:
        """CPU time of each path's process, ns."""
        ports = (len(self.used) - len(self.sent)) // 2
        return self.used[ports : ports + len(self.sent)]

    def cpu_per_packet(self, process: int) -> float:
        """Returns the CPU time of a process per moved packet, ns."""
        return self.used[process] / max(1.0, self.moved[process])


@dataclass
class CounterSnapshot:
    """Counters of the router and the kernel's devices, and times of the router's thread, ns."""

    report: dict[str, Any]
    offered: list[tuple[float, int]]
    lost: list[tuple[float, int]]
    cpu_time_ns: tuple[float, int]
    #: Time for which it was runnable and did not run.
    waited_ns: tuple[float, int]


def rate(old: tuple[float, int], new: tuple[float, int]) -> float:
    """Returns the rate of a counter per second."""
    return (new[1] - old[1]) / (new[0] - old[0])


def processor_ticks() -> tuple[int, int]:
    """Returns steal time and all CPU time of the machine since its start, in ticks."""
    # user, nice, system, idle, iowait, irq, softirq, steal; user includes guests.
    first = Path("/proc/stat").read_text().split("\n", 1)[0]
    ticks = [int(cell) for cell in first.split()[1:9]]
    return ticks[7], sum(ticks)


@contextmanager
def preferred() -> Iterator[None]:
    """Raises the priority of this process and its children, as far as the kernel allows."""
    group = Path("/proc/self/autogroup")
    with suppress(OSError):
        os.nice(-20)
    previous = group.read_text().split()[-1] if group.exists() else ""
    with suppress(OSError):
        group.write_text("-20" if previous else "")
    try:
        yield
    finally:
        with suppress(OSError):
            group.write_text(previous)


class Network:
    """Network namespaces of sources, a router and a sink, joined by veth pairs."""

    def __init__(self, folder: Path) -> None:
        """Stores the folder for files; creates nothing."""
        self.folder = folder
        self.program = os.environ.get("MILLSTREAM", "target/release/millstream")
        *self.sender_cores, self.last = sorted(os.sched_getaffinity(0))
        if not self.sender_cores:
            sys.exit("two cores are required: one for the router, one for senders")
        os.sched_setaffinity(0, self.sender_cores)
        self.names = [f"pr{os.getpid()}-{name}" for name in ("router", "sink", *range(SOURCES))]
        self.router, self.sink, *self.sources = self.names
        #: Steal time of each measurement that counts, fraction of the machine's CPU time.
        self.steal: list[float] = []
        #: The share of each of them for which the router waited for its core.
        self.waiting: list[float] = []
        #: Devices of the sources.
        self.source_devices: list[Device] = [(source, "a0") for source in self.sources]

    def make(self) -> None:
        """Creates the namespaces and links."""
        for name in self.names:
            ip("netns", "add", name)
        wires = [(source, "a0", f"in{at}") for at, source in enumerate(self.sources)]
        wires += [(self.sink, f"b{at}", f"out{at}") for at in range(SINKS)]
        for namespace, device, near in wires:
            wire = [
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
            ]
            ip("-n", namespace, *wire)
            ip("-n", namespace, "link", "set", device, "up")
            ip("-n", self.router, "link", "set", near, "up")
        ip("-n", self.router, "link", "set", "lo", "up")

    def remove(self) -> None:
        """Removes all namespaces."""
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def mac(self, device: str) -> str:
        """Returns the address of a device of the router."""
        address: str = json.loads(ip("-n", self.router, "-j", "link", "show", device))[0]["address"]
        return address

    def status(self) -> dict[str, Any] | None:
        """Returns the router's counters, or None without a response."""
        command = [
            "ip",
            "netns",
            "exec",
            self.router,
            "curl",
            "-s",
            f"http://{STATUS}/status",
        ]
        result = subprocess.run(command, check=False, capture_output=True)
        report: dict[str, Any] | None = None if result.returncode else json.loads(result.stdout)
        return report

    def read_counters(self, devices: list[Device]) -> CounterSnapshot:
        """Returns the current counters, each with its read time."""
        report = self.status()
        if report is None:
            sys.exit("the router does not respond")
        offered, lost = [], []
        for namespace, device in devices:
            shown = json.loads(ip("-n", namespace, "-j", "-s", "link", "show", device))
            now, counted = time.perf_counter(), shown[0]["stats64"]["tx"]
            offered.append((now, int(counted["packets"]) + int(counted["dropped"])))
            lost.append((now, int(counted["dropped"])))
        ran_ns, waited_ns, _ = Path(f"/proc/{self.process}/schedstat").read_text().split()
        now = time.perf_counter()
        return CounterSnapshot(report, offered, lost, (now, int(ran_ns)), (now, int(waited_ns)))

    @contextmanager
    def running(self, file: str) -> Iterator[None]:
        """Runs the router with this file on its core."""
        path = self.folder / "router.toml"
        path.write_text(file)
        command = ["taskset", "-c", str(self.last), self.program, "route", str(path)]
        in_namespace = ["ip", "netns", "exec", self.router]
        with (self.folder / "router.log").open("w") as log:
            router = subprocess.Popen([*in_namespace, *command], stdout=log, stderr=log)
        # `ip` and `taskset` exec the router, so it has this process id.
        self.process = router.pid
        try:
            until = time.perf_counter() + START
            while self.status() is None:
                if router.poll() is not None or time.perf_counter() > until:
                    sys.exit(
                        "the router did not start:\n"
                        f"{(self.folder / 'router.log').read_text()}\n{file}"
                    )
            yield
        finally:
            router.send_signal(signal.SIGINT)
            router.wait()

    def measure(self, start: Start, devices: list[Device], seconds: float) -> Rates:
        """Measures while `start`'s senders send through these devices.

        Repeats a measurement with too much steal time.
        """
        for _ in range(ATTEMPTS):
            before = processor_ticks()
            rates = self.measure_once(start, devices, seconds)
            stolen, elapsed = (
                new - old for old, new in zip(before, processor_ticks(), strict=True)
            )
            if stolen <= MOST_STEAL * elapsed:
                self.steal.append(stolen / max(1, elapsed))
                self.waiting.append(rates.waiting)
                return rates
        sys.exit(f"{ATTEMPTS} measurements in turn had more steal time than {MOST_STEAL:.0%}")

    def measure_once(self, start: Start, devices: list[Device], seconds: float) -> Rates:
        """Measures once, whatever the steal time."""
        senders = start()
        try:
            time.sleep(WARM_UP)
            first = self.read_counters(devices)
            time.sleep(seconds)
            last = self.read_counters(devices)
        finally:
            for sender in senders:
                sender.kill()
                sender.wait()
        before, after = first.report, last.report
        took = (after["elapsed_ns"] - before["elapsed_ns"]) / 1e9

        def grown(what: str, *fields: str) -> list[float]:
            both = zip(before[what], after[what], strict=True)
            return [float(sum(new[field] - old[field] for field in fields)) for old, new in both]

        return Rates(
            offered=[rate(old, new) for old, new in zip(first.offered, last.offered, strict=True)],
            lost=[rate(old, new) for old, new in zip(first.lost, last.lost, strict=True)],
            sent=[packets / took for packets in grown("paths", "sent")],
            dropped=[packets / took for packets in grown("paths", "dropped_full", "dropped_late")],
            used=grown("processes", "busy_ns"),
            moved=grown("processes", "packets"),
            cycles=sum(process["reserved_cycles"] for process in after["processes"]),
            cpu_share=rate(first.cpu_time_ns, last.cpu_time_ns) / 1e9,
            waiting=rate(first.waited_ns, last.waited_ns) / 1e9,
            seconds=took,
        )


def median_cells(rows: list[list[float]]) -> list[float]:
    """Returns the median of each column."""
    return [median(column) for column in zip(*rows, strict=True)]


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Formats a Markdown table."""
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def kpps(rate: float) -> str:
    """Formats a rate in thousands per second."""
    return f"{rate / 1e3:.1f}"
