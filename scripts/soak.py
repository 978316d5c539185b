#!/usr/bin/env python3
"""Soaks a router for hours: steady traffic, reloads, interfaces that fail, failing extensions.

Usage: scripts/soak.py [SECONDS [SEED]]. Needs root, iproute2 and target/release/millstream, or
MILLSTREAM. SECONDS is 3600 by default; SEED is random by default and printed. SOAK_IO is the `io`
of the router's ports, by default packet; SOAK_CORES is the number of its cores, 1 or 2.

Two namespaces send through a router in a third to a fourth, more than its link carries. At random
times the file is reloaded, with valid and invalid contents, and interfaces go down or are deleted.
Senders stop periodically and the queues drain. Then every packet must be accounted for: by the
router's counters, and between the kernels' and the router's counters where no interface failed. At
the end the link's shares, memory and open files must be as after the warm-up. Any violation ends
the run with an error.
"""

import ctypes
import http
import http.client
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from frames import MACS, frame, odd_frames

STATUS = ("127.0.0.1", 9815)
#: Ports with their peers.
LINKS = {"a1": ("source", "a0"), "f1": ("stranger", "f0"), "b1": ("sink", "b0")}
#: The sink's hardware address.
SINK = "02:00:00:00:00:b0"
#: Interfaces that fail; the third never fails and must lose nothing.
FLAPPING = ("a1", "b1")
#: Packets a second: two streams that overload the link, and invalid frames.
HEAVY, LIGHT, ODD = 2800, 1200, 800
BYTES = 1000
#: The heavy stream's share of the link, in thousandths, and its tolerance.
SHARE, SHARE_ERROR = 750, 10
#: Seconds between counts; at most a quarter of the whole time.
ROUND = 15.0
#: Rounds between progress reports.
REPORT = 20
WARM_UP = 0.05
#: Allowed growth of resident memory after the warm-up, KiB: under 0.5 for each event of an hour.
GROWTH = 2048
PATIENCE = 30.0
#: An extension with an endless loop, and one that marks packets.
LOOPS = bytes.fromhex(
    "0061736d0100000001060160017f017f0302010005030100010607017f004180080b071d03066d"
    "656d6f72790200067061636b657403000770726f6365737300000a0b01090003400c000b41000b"
)
MARKS = Path(__file__).parent.parent / "examples/router/mark.wasm"
DISCIPLINES = ("wf2q+", "wfq", "scfq", "sfq", "drr")


class Wrong(Exception):
    """An invariant is violated."""


def run(*arguments: str) -> str:
    """Returns the output of `ip`."""
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def enter(namespace: str) -> None:
    """Moves this thread to a network namespace."""
    with Path(f"/run/netns/{namespace}").open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


class Sender:
    """A process that sends from a namespace at given rates between ``go`` and ``stop``."""

    def __init__(self, namespace: str, device: str, streams: list[tuple[int, list[bytes]]]) -> None:
        """Starts the process; it sends once ``go`` is set."""
        context = multiprocessing.get_context("fork")
        self.go, self.idle = context.Event(), context.Event()
        arguments = (namespace, device, streams, self.go, self.idle)
        self.process = context.Process(target=send, args=arguments, daemon=True)
        self.process.start()

    def stop(self) -> None:
        """Returns once no more packets are sent."""
        self.go.clear()
        if not self.idle.wait(PATIENCE):
            raise Wrong("a sender does not stop")


def send(
    namespace: str, device: str, streams: list[tuple[int, list[bytes]]], go: Event, idle: Event
) -> None:
    """The main function of a sender's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    enter(namespace)
    out = None
    sent = [0] * len(streams)
    while True:
        if not go.is_set():
            idle.set()
            go.wait()
            idle.clear()
        began, first = time.monotonic(), list(sent)
        while go.is_set():
            for at, (rate, frames) in enumerate(streams):
                due = first[at] + int((time.monotonic() - began) * rate)
                while sent[at] < due:
                    try:
                        if out is None:
                            out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
                            out.bind((device, 0))
                        out.send(frames[sent[at] % len(frames)])
                    except OSError:
                        # The interface is gone.
                        out = None
                    sent[at] += 1
            time.sleep(0.004)


class Router:
    """The router's process, its file and its log."""

    def __init__(self, program: str, namespace: str, folder: Path, io: str, cores: int) -> None:
        """Starts the router; returns once it forwards."""
        self.io, self.cores = io, cores
        self.file = folder / "router.toml"
        (folder / "loops.wasm").write_bytes(LOOPS)
        (folder / "marks.wasm").write_bytes(MARKS.read_bytes())
        #: Rejected files; requests that timed out.
        self.wrong_files = self.late = 0
        self.file.write_text(self.valid(random.Random(0)))
        command = ["ip", "netns", "exec", namespace, program, "route", str(self.file), "--json"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.opened = threading.Event()
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        if not self.opened.wait(PATIENCE):
            raise Wrong("the router does not start")
        self.reloads = 0

    def read_log(self) -> None:
        """Follows the log; prints panics."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "ports are open" in line:
                self.opened.set()
            elif "the reload was rejected" in line:
                self.wrong_files += 1
            elif "panicked" in line:
                print(line, end="")

    def valid(self, chance: random.Random) -> str:
        """Returns a random valid file. Settings that determine the shares are constant."""
        queue = chance.choice((768, 1024))
        sleep = chance.choice(("200 us", "500 us", "1 ms"))
        route = f'[[route]]\nprefix = "10.{{}}.0.0/16"\nport = "b1"\nneighbour = "{SINK}"\n'
        text = (
            f'[router]\nname = "soak"\ncores = {self.cores}\nbuffers = 8192\n'
            f"batch = {chance.choice((8, 32, 64))}\n"
            f'status = "{STATUS[0]}:{STATUS[1]}"\n'
        )
        rates = {"a1": "1 Gbps", "f1": "1 Gbps", "b1": f"{chance.choice((14, 17, 20))} Mbps"}
        for name, rate in rates.items():
            text += f'[[port]]\nname = "{name}"\nkind = "interface"\nio = "{self.io}"\n'
            text += self.core(int(name == "b1"))
            text += f'rate = "{rate}"\nmac = "{MACS[name]}"\nlongest-sleep = "{sleep}"\n'
            text += 'address = "10.3.0.1/24"\n' if name == "f1" else ""
            text += f'discipline = "{chance.choice(DISCIPLINES)}"\n' if name == "b1" else ""
        for number in chance.sample(range(6), chance.randrange(4)):
            text += f'[[path]]\nname = "extra-{number}"\nmatch = {{ dscp = {20 + number} }}\n'
            text += self.core(number % 2)
        text += '[[path]]\nname = "elsewhere"\nmatch = { dscp = 10 }\nto = "a1"\n'
        text += '[[path]]\nname = "odd"\nmatch = { source = "10.3.0.0/24" }\nqueue = 64\n'
        text += self.core(1)
        module = chance.choice(("loops", "marks", None))
        text += f'extension = {{ module = "{module}.wasm" }}\n' if module else ""
        text += f'[[path]]\nname = "heavy"\nmatch = {{ dscp = 46 }}\nqueue = {queue}\nweight = 3\n'
        text += f'[[path]]\nname = "light"\nqueue = {queue}\n{self.core(1)}'
        for number in range(chance.randrange(5)):
            text += route.format(10 + number)
        return text + route.format(2)

    def core(self, core: int) -> str:
        """Returns the `core` key, if there are several cores."""
        return f"core = {core}\n" if self.cores > 1 else ""

    def wrong(self, chance: random.Random) -> str:
        """Returns a random invalid file."""
        text = self.valid(chance)
        changes = [
            ('kind = "interface"', 'kind = "tunnel"'),
            ('port = "b1"', 'port = "b2"'),
            ("buffers = 8192", "buffers = 4096"),
            ("weight = 3", "weight = 0"),
            ("queue = 64", 'queue = 64\nreservation = "90000 Mcps"'),
            (
                'name = "odd"',
                'name = "odd-2"\nextension = { module = "router.toml" }\n[[path]]\nname = "odd"',
            ),
            ('name = "f1"', 'name = "f2"\ninterface = "f1"'),
            ("10.2.0.0/16", "10.2.0.0/46"),
        ]
        at = chance.randrange(len(changes) + 2)
        if at < len(changes):
            return text.replace(*changes[at])
        cut = chance.randrange(len(text))
        return text[:cut] + chance.choice(("\n= =\n", "\0", "\n[[[\n")) + text[cut:]

    def reload(self, text: str, right: bool) -> None:
        """Replaces the file; returns once the router has applied or rejected it."""
        self.file.write_text(text)
        wrong_before = self.wrong_files
        os.kill(self.pid(), signal.SIGHUP)
        self.reloads += right
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            taken = self.status()["reloads"]
            if taken > self.reloads:
                raise Wrong(f"an invalid file was applied:\n{text}")
            if (taken == self.reloads) if right else (self.wrong_files > wrong_before):
                return
            time.sleep(0.01)
        raise Wrong(f"a file was not {'applied' if right else 'rejected'}:\n{text}")

    def pid(self) -> int:
        """The router's process id; `ip netns exec` becomes the program."""
        return self.process.pid

    def status(self) -> Any:
        """Returns the counters; on a busy machine the router may answer 503 after 5 s."""
        until = time.monotonic() + PATIENCE
        while (counters := self.ask(until)) is None:
            self.late += 1
        return counters

    def ask(self, until: float) -> Any:
        """Asks once; returns None if the router answered 503 and there is time until ``until``."""
        connection = http.client.HTTPConnection(*STATUS, timeout=PATIENCE)
        try:
            connection.request("GET", "/status")
            answer = connection.getresponse()
            body = answer.read()
            late = answer.status == http.HTTPStatus.SERVICE_UNAVAILABLE
            if late and time.monotonic() < until:
                return None
            if answer.status != http.HTTPStatus.OK:
                raise Wrong(f"/status: {answer.status} {body.decode()}; threads: {self.threads()}")
            return json.loads(body)
        finally:
            connection.close()

    def threads(self) -> list[str]:
        """Describes the threads: state, CPU time, and the kernel function in which they wait."""
        tasks = Path(f"/proc/{self.pid()}/task").iterdir()
        files = ("comm", "stat", "schedstat", "wchan")
        texts = ({name: (task / name).read_text().strip() for name in files} for task in tasks)
        state = ((of, of["stat"].rsplit(")", 1)[1].split()[0]) for of in texts)
        return [f"{of['comm']} {now} {of['schedstat']} {of['wchan']}" for of, now in state]

    def memory(self) -> int:
        """Resident memory, KiB."""
        text = Path(f"/proc/{self.pid()}/status").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS"))

    def files(self) -> int:
        """Open files."""
        return len(list(Path(f"/proc/{self.pid()}/fd").iterdir()))

    def worked(self) -> float:
        """CPU time used, seconds."""
        fields = Path(f"/proc/{self.pid()}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> Any:
        """Stops the router; returns its last counters."""
        self.process.send_signal(signal.SIGINT)
        output, _ = self.process.communicate(timeout=PATIENCE)
        if self.process.returncode != 0:
            raise Wrong(f"the router ended with {self.process.returncode}")
        return json.loads(output)


def find(rows: list[Any], name: str) -> Any:
    """Returns the row called ``name``."""
    return next(row for row in rows if row["name"] == name)


class Shares:
    """Shares of the link of two paths while both are backlogged."""

    def __init__(self) -> None:
        """Starts at 0."""
        self.heavy = self.light = 0

    def add(self, before: Any, after: Any) -> None:
        """Adds the bytes sent between two samples, if both were backlogged throughout."""
        sent = {}
        waits = True
        for name in ("heavy", "light"):
            first = find(before["paths"], name)
            sent[name] = find(after["paths"], name)["sent_bytes"] - first["sent_bytes"]
            waits &= first["at_links"] > 0
        link = sum(sent.values())
        for name in sent:
            waits &= find(before["paths"], name)["at_links"] * BYTES > 2 * link
        # A reload restarts the discipline's round: the interval is not counted.
        if waits and before["reloads"] == after["reloads"]:
            self.heavy += sent["heavy"]
            self.light += sent["light"]

    def thousandths(self) -> float:
        """The heavy path's share, in thousandths."""
        return 1000 * self.heavy / max(1, self.heavy + self.light)

    def check(self, when: str) -> None:
        """Checks the share against the weights."""
        if abs(self.thousandths() - SHARE) > SHARE_ERROR:
            raise Wrong(
                f"{when}: the heavy path got {self.thousandths():.1f} thousandths, not {SHARE}"
            )


class Soak:
    """The soak test."""

    def __init__(self, prefix: str, seed: int) -> None:
        """Initialises the counters."""
        self.prefix = prefix
        self.chance = random.Random(seed)
        self.right = self.wrong = self.rounds = 0
        self.away = dict.fromkeys(FLAPPING, 0)
        self.deleted = 0
        #: Packets that the kernels sent and that were lost with an interface.
        self.lost_with_port = 0
        #: Ports that failed in this round, and those of them that were deleted with their counters.
        self.flapped: set[str] = set()
        self.renewed: set[str] = set()

    def name(self, of: str) -> str:
        """Returns the name of a namespace."""
        return f"{self.prefix}-{of}"

    def join(self, port: str) -> None:
        """Creates the pair of interfaces of a port."""
        far, device = LINKS[port]
        ends = ("type", "veth", "peer", "name", port, "netns", self.name("router"))
        run("-n", self.name(far), "link", "add", device, *ends)
        if device == "b0":
            run("-n", self.name(far), "link", "set", device, "address", SINK)
        run("-n", self.name("router"), "link", "set", port, "address", MACS[port])
        run("-n", self.name(far), "link", "set", device, "up")
        run("-n", self.name("router"), "link", "set", port, "up")

    def build(self) -> None:
        """Creates the network."""
        for name in ("router", *(far for far, _ in LINKS.values())):
            run("netns", "add", self.name(name))
            for which in ("all", "default"):
                quiet = f"echo 1 >/proc/sys/net/ipv6/conf/{which}/disable_ipv6"
                run("netns", "exec", self.name(name), "sh", "-c", quiet)
        run("-n", self.name("router"), "link", "set", "lo", "up")
        for port in LINKS:
            self.join(port)

    def remove(self) -> None:
        """Removes the network."""
        for name in ("router", *(far for far, _ in LINKS.values())):
            subprocess.run(
                ["ip", "netns", "del", self.name(name)], check=False, capture_output=True
            )

    def far(self, port: str) -> tuple[int, int]:
        """Packets received and sent at the peer of a port, by the kernel's counters."""
        namespace, device = LINKS[port]
        shown = json.loads(run("-n", self.name(namespace), "-j", "-s", "link", "show", device))
        stats = shown[0]["stats64"]
        return stats["rx"]["packets"], stats["tx"]["packets"]

    @staticmethod
    def near(status: Any, port: str) -> tuple[int, int]:
        """Packets sent, and received or lost, at a port, by the router's counters."""
        of = find(status["ports"], port)
        return of["transmitted"] + of["originated"], of["received"] + of["lost_by_device"]

    def differences(self, status: Any) -> dict[str, tuple[int, int]]:
        """The peers' counters minus the router's."""
        result = {}
        for port in LINKS:
            far, near = self.far(port), self.near(status, port)
            result[port] = (far[0] - near[0], far[1] - near[1])
        return result

    def event(self, router: Router) -> None:
        """Triggers a random event."""
        kind = self.chance.random()
        if kind < 0.55:
            router.reload(router.valid(self.chance), right=True)
            self.right += 1
        elif kind < 0.85:
            router.reload(router.wrong(self.chance), right=False)
            self.wrong += 1
        else:
            port = self.chance.choice(FLAPPING)
            self.flapped.add(port)
            self.away[port] += 1
            pause = self.chance.uniform(0.05, 1.0)
            of = self.name("router")
            if kind < 0.96:
                run("-n", of, "link", "set", port, "down")
                time.sleep(pause)
                run("-n", of, "link", "set", port, "up")
            else:
                self.deleted += 1
                self.renewed.add(port)
                run("-n", of, "link", "del", port)
                time.sleep(pause)
                self.join(port)

    def settle(self, router: Router) -> Any:
        """Returns the counters once all queues have drained."""
        until, last = time.monotonic() + PATIENCE, None
        while time.monotonic() < until:
            status = router.status()
            now = (self.differences(status), [row["received"] for row in status["ports"]])
            back = not any(row["away"] for row in status["ports"])
            if now == last and back and all(row["queued"] == 0 for row in status["paths"]):
                return status
            last = now
            time.sleep(0.3)
        raise Wrong(f"the queues do not drain: {json.dumps(status)}")

    def compare(
        self, before: dict[str, tuple[int, int]], status: Any
    ) -> dict[str, tuple[int, int]]:
        """Checks that every packet is accounted for; returns the base of the next comparison."""
        if status["unaccounted"] != 0:
            raise Wrong(
                f"{status['unaccounted']} packets are unaccounted for: {json.dumps(status)}"
            )
        for path in status["paths"]:
            gone = sum(value for key, value in path.items() if key.startswith("dropped"))
            if path["received"] != gone + path["sent"] + path["queued"]:
                raise Wrong(f"a path's packets do not add up: {path}")
        now = self.differences(status)
        for port, difference in now.items():
            if port not in self.flapped and difference != before[port]:
                raise Wrong(
                    f"port {port}: {difference} packets from kernel to router, not {before[port]}"
                )
            if port in self.flapped - self.renewed:
                lost = difference[1] - before[port][1], before[port][0] - difference[0]
                if min(lost) < 0:
                    raise Wrong(f"port {port}: more came out than went in: {lost}")
                self.lost_with_port += sum(lost)
        self.flapped.clear()
        self.renewed.clear()
        self.rounds += 1
        return now

    def soak(self, router: Router, seconds: float) -> None:
        """Runs the test and prints its results."""
        streams = [
            ("a1", [(HEAVY, [frame("a1", "10.2.0.1", 46, BYTES)])]),
            ("f1", [(LIGHT, [frame("f1", "10.2.0.1", 0, BYTES)]), (ODD, odd_frames())]),
        ]
        senders = [Sender(self.name(LINKS[port][0]), LINKS[port][1], of) for port, of in streams]
        began, warm = time.monotonic(), None
        halves = [Shares(), Shares()]
        counts = self.differences(self.settle(router))
        while (now := time.monotonic() - began) < seconds:
            for sender in senders:
                sender.go.set()
            shares = halves[now > seconds / 2]
            until = time.monotonic() + min(ROUND, seconds / 4)
            next_event = time.monotonic() + 1.0
            status = router.status()
            while time.monotonic() < until:
                time.sleep(0.1)
                after = router.status()
                shares.add(status, after)
                if time.monotonic() > next_event:
                    self.event(router)
                    next_event = time.monotonic() + self.chance.uniform(0.0, 1.0)
                    after = router.status()
                status = after
            for sender in senders:
                sender.stop()
            status = self.settle(router)
            counts = self.compare(counts, status)
            if warm is None and now > WARM_UP * seconds:
                warm = (router.memory(), router.files())
            if self.rounds % REPORT == 0:
                sent = sum(port["transmitted"] for port in status["ports"])
                print(
                    f"  after {now:.0f} s: {sent} packets sent, {router.memory()} KiB", flush=True
                )
        memory, files = router.memory(), router.files()
        warm = warm or (memory, files)
        elapsed, worked = time.monotonic() - began, router.worked()
        report = router.stop()
        self.compare(counts, report)
        received = sum(port["received"] for port in report["ports"])
        sent = sum(port["transmitted"] for port in report["ports"])
        dropped = {
            key: sum(path[key] for path in report["paths"])
            for key in report["paths"][0]
            if key.startswith("dropped")
        }
        others = ("unclassified", "unfit", "strays", "for_router")
        aside = {key: sum(port[key] for port in report["ports"]) for key in others}
        away = ", ".join(f"{port} {times} times" for port, times in self.away.items())
        used = 100 * worked / elapsed
        where = [f"+ {count} {why}" for why, count in (dropped | aside).items()]
        print(f"{elapsed:.0f} s; {used:.1f} % of a core; {self.rounds} counts of all packets")
        print(f"files: {self.right} applied, {self.wrong} rejected")
        print(f"status requests that timed out after 5 s: {router.late}")
        print(f"interface failures: {away}; deleted interfaces: {self.deleted}")
        print(f"packets: {received} received = {sent} sent", *where)
        print(f"unaccounted: {report['unaccounted']}")
        print(f"lost with failed interfaces: {self.lost_with_port}")
        print(f"memory: {warm[0]} KiB after the warm-up, {memory} KiB at the end")
        print(f"open files: {warm[1]} after the warm-up, {files} at the end")
        for half, when in zip(halves, ("first", "second"), strict=True):
            of, share = (half.heavy + half.light) / 1e6, half.thousandths()
            print(f"the heavy path's share, {when} half: {share:.2f} thousandths of {of:.0f} MB")
        if memory - warm[0] > GROWTH:
            raise Wrong(f"memory grew by {memory - warm[0]} KiB, more than {GROWTH}")
        if files != warm[1]:
            raise Wrong(f"{files} files are open, {warm[1]} were")
        if report["reloads"] != self.right:
            raise Wrong(f"{report['reloads']} files were applied, {self.right} were valid")
        for half, when in zip(halves, ("first half", "second half"), strict=True):
            half.check(when)


def main() -> None:
    """Runs the test."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3600.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    program = os.environ.get("MILLSTREAM", "target/release/millstream")
    if os.geteuid() != 0:
        sys.exit("the soak test creates network namespaces: run it as root")
    io = os.environ.get("SOAK_IO", "packet")
    cores = int(os.environ.get("SOAK_CORES", "1"))
    print(f"router soak: {seconds:.0f} s, seed {seed}, by {io}, on {cores} cores", flush=True)
    soak = Soak(f"soak{os.getpid()}", seed)
    router = None
    try:
        soak.build()
        with tempfile.TemporaryDirectory() as folder:
            name, program = soak.name("router"), str(Path(program).resolve())
            router = Router(program, name, Path(folder), io, cores)
            enter(soak.name("router"))
            soak.soak(router, seconds)
    except Wrong as wrong:
        sys.exit(f"soak failed (seed {seed}): {wrong}")
    finally:
        if router is not None and router.process.poll() is None:
            router.process.kill()
            router.process.wait()
        soak.remove()
    print("soak passed")


if __name__ == "__main__":
    main()
