#!/usr/bin/env python3
"""The decisive live experiment of the Co-processor paper: placement by scheduling class.

Usage: papers/coprocessor/live.py FILE.csv [--runs N] [--loads L,...] [--systems S/CLASS,...]
[--seconds S] [--seed N] [--resume]. Called by scripts/paper-coprocessor.sh, which installs and
builds what it needs. Needs root, for real-time priority.

Ten clients play one H.264 file over loopback while nginx compresses pages for wrk, a closed loop of
clients with a think time. The think time is calibrated first, so that the web server and its
clients use the wanted part of all processors; without think time they use all. Systems:

    host, ni         Millstream's data plane: a thread of the server, or a process of its own
    host-unpinned    the former as `millstream serve` starts it
    gstreamer, live555, mediamtx

Placement (host, ni) and class (ordinary: SCHED_OTHER, real-time: SCHED_FIFO) vary apart. In all
four cells the data plane is pinned to the last processor, as the paper's scheduler on the host is.

Each round has one run of every cell, in random order. The load starts a second after the clients,
so that lateness is relative to the unloaded machine. A run in which the machine's host took more
than 2 % of its CPU time (steal) is repeated. FILE.csv has a row a run; rows are written as runs
end, and --resume makes only those runs that FILE.csv lacks.
"""

import argparse
import contextlib
import csv
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Clients of the media server.
CLIENTS = 10
#: Unloaded time after the clients have started, and time in which the load settles, s.
UNLOADED, SETTLING = 1.0, 1.5
#: The largest part of the CPU time that the machine's host may take, %, and the runs tried.
MAX_STEAL, MAX_TRIES = 2.0, 6
#: Closed-loop clients of the web server, and its processes (the paper's Apache has up to ten).
CONNECTIONS, WEB_PROCESSES = 40, 10
#: Bytes of the page that the web server compresses for each request.
PAGE_BYTES = 60_000
#: Loads in % of all processors.
LOADS = (0, 45, 60, 90, 100)
#: Loads of the systems that the paper does not have.
PEER_LOADS = (0, 60, 100)
CLASSES = ("ordinary", "real-time")
PLACEMENTS = ("host", "ni")
PEERS = ("host-unpinned", "gstreamer", "live555", "mediamtx")
#: RTSP track of each peer.
TRACKS = {"gstreamer": "/stream=0", "live555": "/track1", "mediamtx": "/trackID=0"}
COLUMNS = (
    "system,class,load_percent,run,used_percent,steal_percent,tries,frames,lost,on_time,"
    "p50_us,p99_us,max_us,bytes_per_s,requests_per_s"
)
Cell = tuple[str, str, int]

THINK = """local mean = tonumber(os.getenv("THINK_MS"))
math.randomseed(7)
function delay()
  return math.floor(-mean * math.log(1 - math.random()) + 0.5)
end
"""

NGINX = """daemon off;
worker_processes {processes};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  gzip on;
  gzip_comp_level 6;
  keepalive_requests 1000000;
  server {{ listen 127.0.0.1:{port}; root {folder}/www; }}
}}
"""

SCENARIO = """[media]
listen = "127.0.0.1:0"
placement = "{placement}"
sessions-per-address = 256
connections-per-address = 512
[link]
rate = "1 Gbps"
overhead = 28
[scheduler]
discipline = "dwcs"
[[stream]]
name = "clip"
period = "40 ms"
window = "2/12"
first-deadline = "200 ms"
late = "drop"
source = {{ kind = "mpeg", file = "{film}" }}
"""

MEDIAMTX = """logLevel: error
api: no
rtmp: no
hls: no
webrtc: no
srt: no
rtspTransports: [udp, tcp]
rtspAddress: 127.0.0.1:{port}
rtpAddress: 127.0.0.1:{rtp}
rtcpAddress: 127.0.0.1:{rtcp}
multicastIPRange: 224.1.0.0/16
paths:
  clip:
    runOnDemand: >-
      ffmpeg -v error -re -i {film} -c copy -f rtsp
      rtsp://127.0.0.1:{port}/clip
"""


def free_port() -> int:
    """Returns an even port of which the next one is free, too, probably."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1]) & ~1


def processor_ticks() -> tuple[int, int]:
    """Returns used and all CPU time of the machine in ticks, without steal time."""
    fields = [int(n) for n in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    used = sum(fields) - fields[3] - fields[4] - fields[7]
    return used, sum(fields)


class Child:
    """A process of its own group, which ends with its children."""

    def __init__(
        self,
        command: list[str],
        stdout: int | None = None,
        stderr: int | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        """Starts the process."""
        self.process = subprocess.Popen(
            command, start_new_session=True, text=True, stdout=stdout, stderr=stderr, env=env
        )

    def results(self) -> str:
        """Interrupts the process; returns its output."""
        self.process.send_signal(signal.SIGINT)
        return str(self.process.communicate(timeout=10)[0])

    def end(self) -> None:
        """Ends the process and its children, and waits for it."""
        for end in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, end)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5)
                break


def tasks(process: int) -> dict[int, str]:
    """Returns the threads of a process with their names."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return {int(task.name): (task / "comm").read_text().strip() for task in threads}


def schedule(task: int, real_time: bool, core: int | None) -> None:
    """Gives a thread its class, and its processor if there is one."""
    policy = os.SCHED_FIFO if real_time else os.SCHED_OTHER
    os.sched_setscheduler(task, policy, os.sched_param(1 if real_time else 0))
    if core is not None:
        os.sched_setaffinity(task, {core})


class Web:
    """nginx, and wrk as its closed-loop clients."""

    def __init__(self, folder: Path) -> None:
        """Starts nginx and waits until it answers."""
        self.folder, self.port = folder, free_port()
        (folder / "www").mkdir()
        words = random.Random(3)
        text = " ".join(str(words.randrange(10_000)) for _ in range(PAGE_BYTES // 4))
        (folder / "www/index.html").write_text(f"<html>{text[:PAGE_BYTES]}</html>")
        (folder / "think.lua").write_text(THINK)
        # The workers must read the page also if nginx drops root.
        for part in (folder, folder / "www"):
            part.chmod(0o755)
        configured = NGINX.format(processes=WEB_PROCESSES, folder=folder, port=self.port)
        (folder / "nginx.conf").write_text(configured)
        self.nginx = Child(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")])
        time.sleep(0.5)
        #: Mean think time of each load, ms; the load of 0 has no clients.
        self.think_ms: dict[int, float] = {100: 0.0}

    def load(self, think_ms: float, seconds: float) -> Child:
        """Starts the clients."""
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:.0f}s", "-H"]
        command += ["Accept-Encoding: gzip", "-s", str(self.folder / "think.lua")]
        return Child(
            [*command, f"http://127.0.0.1:{self.port}/index.html"],
            stdout=subprocess.PIPE,
            env={**os.environ, "THINK_MS": f"{think_ms:.3f}"},
        )

    def used_percent(self, think_ms: float, seconds: float) -> float:
        """Measures the part of all processors used with a think time."""
        clients = self.load(think_ms, seconds + 30)
        time.sleep(1.0)
        before = processor_ticks()
        time.sleep(seconds)
        after = processor_ticks()
        clients.end()
        return 100 * (after[0] - before[0]) / (after[1] - before[1])

    def calibrate(self, loads: list[int]) -> None:
        """Finds the think time of each load by bisection of its logarithm."""
        for load in sorted({load for load in loads if 0 < load < 100}, reverse=True):
            low, high = 1.0, 4_000.0
            for _ in range(9):
                think = (low * high) ** 0.5
                used = self.used_percent(think, 2.0)
                low, high = (think, high) if used > load else (low, think)
                if abs(used - load) < 1.5:
                    break
            self.think_ms[load] = think
            print(f"load {load} %: think time {think:.1f} ms, {used:.1f} % used", flush=True)


class Media:
    """The media servers."""

    def __init__(self, folder: Path, millstream: str, peers: Path) -> None:
        """Makes the films: a minute of 1 Mb/s, without B-frames, in two containers."""
        self.folder, self.millstream, self.peers = folder, millstream, peers
        self.film, self.elementary = folder / "film.mp4", folder / "film.264"
        encoded = "-an -c:v libx264 -preset fast -bf 0 -g 12 -b:v 1M -maxrate 1M -bufsize 500k"
        ffmpeg = ["ffmpeg", "-v", "error", "-y"]
        clip = str(ROOT / "examples/data/clip.mpg")
        encode = [*ffmpeg, "-stream_loop", "-1", "-i", clip, *encoded.split(), "-frames:v", "1500"]
        split = [*ffmpeg, "-i", str(self.film), "-c", "copy", "-bsf:v", "h264_mp4toannexb"]
        for command in ([*encode, str(self.film)], [*split, str(self.elementary)]):
            subprocess.run(command, check=True)

    @contextlib.contextmanager
    def serve(self, system: str, real_time: bool) -> Iterator[tuple[str, str]]:
        """Serves the film; yields address and track."""
        out, errors = subprocess.PIPE, subprocess.DEVNULL
        track = TRACKS.get(system, "/video")
        ours = system not in TRACKS
        if system == "gstreamer":
            script = ROOT / "benches/peers/gst_rtsp.py"
            child = Child(["/usr/bin/python3", str(script), str(self.film)], out, errors)
        elif system == "live555":
            child = Child([str(self.peers / "live555_rtsp"), str(self.elementary)], out, errors)
        elif system == "mediamtx":
            port, rtp = free_port(), free_port()
            file = self.folder / "mediamtx.yml"
            ports = {"port": port, "rtp": rtp, "rtcp": rtp + 1}
            file.write_text(MEDIAMTX.format(**ports, film=self.film))
            child = Child([str(self.peers / "mediamtx"), str(file)], out, errors)
        else:
            placement = "ni" if system == "ni" else "host"
            file = self.folder / f"{system}.toml"
            file.write_text(SCENARIO.format(placement=placement, film=self.film))
            out, errors = errors, out
            child = Child([self.millstream, "serve", "--json", str(file)], out, errors)
        try:
            if system == "mediamtx":
                time.sleep(1.0)
                address = f"127.0.0.1:{port}"
            else:
                output = child.process.stderr if ours else child.process.stdout
                assert output is not None
                line = next(line for line in output if "rtsp://" in line)
                address = line.split("rtsp://")[1].split("/")[0]
                if ours and system != "host-unpinned":
                    self.place(system, child.process.pid, output, real_time)
            yield f"127.0.0.1:{address.rsplit(':', 1)[1]}", track
        finally:
            child.end()

    @staticmethod
    def place(system: str, server: int, output: Iterator[str], real_time: bool) -> None:
        """Gives Millstream's data plane its class, on the last processor."""
        core = max(os.sched_getaffinity(0))
        if system == "ni":
            process = int(next(line for line in output if "process " in line).split("process ")[1])
            # The process takes its own priority first.
            time.sleep(0.5)
            chosen = list(tasks(process))
        else:
            time.sleep(0.5)
            chosen = [task for task, name in tasks(server).items() if name == "dispatch"]
        assert chosen, "the data plane's threads"
        for task in chosen:
            schedule(task, real_time, core)


def measure(
    cell: Cell, media: Media, web: Web, program: list[str], seconds: float
) -> dict[str, float]:
    """Makes one run; returns the columns from used_percent on, without tries."""
    system, of_class, load = cell
    with media.serve(system, of_class == "real-time") as (address, track):
        settled = (UNLOADED + SETTLING) * 1e3
        clients = Child(
            [*program, address, track, str(CLIENTS), f"{settled:.0f}", f"{seconds * 1e3:.0f}"],
            stdout=subprocess.PIPE,
        )
        requests = None
        try:
            output = clients.process.stdout
            assert output is not None
            assert output.readline() == "playing\n", "the clients do not play"
            time.sleep(UNLOADED)
            if load:
                requests = web.load(web.think_ms[load], seconds + 30)
            row = output.readline().split(",")
            text = requests.results() if requests else ""
        finally:
            clients.end()
            if requests:
                requests.end()
    rate = float(text.split("Requests/sec:")[1].split()[0]) if load else 0.0
    names = "frames,lost,on_time,p50_us,p99_us,max_us,bytes_per_s,used_percent,steal_percent"
    values = [float(cell) for cell in row]
    assert values.pop() == 1, "the receiver needs real-time priority: run as root"
    return {**dict(zip(names.split(","), values, strict=True)), "requests_per_s": rate}


def undisturbed(
    cell: Cell, media: Media, web: Web, program: list[str], seconds: float
) -> dict[str, float]:
    """Repeats a run until it has little steal time; returns the one with least, and the tries."""
    best: dict[str, float] = {}
    tries = 0
    while tries < MAX_TRIES:
        tries += 1
        try:
            found = measure(cell, media, web, program, seconds)
        except (AssertionError, StopIteration, ValueError) as error:
            print(f"{cell}: repeated: {error!r}", file=sys.stderr, flush=True)
            continue
        if not best or found["steal_percent"] < best["steal_percent"]:
            best = found
        if found["steal_percent"] <= MAX_STEAL:
            break
    if not best:
        sys.exit(f"{cell}: no run succeeded")
    return {**best, "tries": tries}


def cells(arguments: argparse.Namespace) -> list[Cell]:
    """Returns the cells of a round."""
    loads = arguments.loads or LOADS
    of = [(s, c, load) for s in PLACEMENTS for c in CLASSES for load in loads]
    of += [(s, "ordinary", load) for s in PEERS for load in loads if load in PEER_LOADS]
    if not arguments.systems:
        return of
    return [cell for cell in of if f"{cell[0]}/{cell[1]}" in arguments.systems]


def parsed() -> argparse.Namespace:
    """Returns the command line."""
    parser = argparse.ArgumentParser(description="placement by scheduling class, live")
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--loads", type=lambda text: [int(load) for load in text.split(",")])
    parser.add_argument("--systems", type=lambda text: text.split(","))
    parser.add_argument("--seconds", type=float, default=4.5, help="measured time of a run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Makes all runs."""
    arguments = parsed()
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    millstream = os.environ.get("MILLSTREAM", str(target / "release/millstream"))
    program = os.environ["CLIENTS"].split()
    done: set[tuple[str, str, str, str]] = set()
    if arguments.resume and arguments.file.exists():
        with arguments.file.open() as file:
            done = {(row[0], row[1], row[2], row[3]) for row in list(csv.reader(file))[1:]}
    else:
        arguments.file.write_text(COLUMNS + "\n")
    order = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        media, web = Media(folder, millstream, target / "peers"), Web(folder)
        try:
            web.calibrate(arguments.loads or list(LOADS))
            for run in range(1, arguments.runs + 1):
                of_round = cells(arguments)
                order.shuffle(of_round)
                for cell in of_round:
                    system, of_class, load = cell
                    if (system, of_class, str(load), str(run)) in done:
                        continue
                    found = undisturbed(cell, media, web, program, arguments.seconds)
                    row = {**found, "run": run, "load_percent": load}
                    texts = [f"{row[column]:.10g}" for column in COLUMNS.split(",")[2:]]
                    line = ",".join([system, of_class, *texts])
                    with arguments.file.open("a") as file:
                        file.write(line + "\n")
                    print(line, flush=True)
        finally:
            web.nginx.end()


if __name__ == "__main__":
    main()
