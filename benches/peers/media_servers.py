"""Media servers beside a loaded web server: what the comparisons of media servers share.

`benches/peers/media.py` and `papers/coprocessor/live.py` import it. Clients play one H.264 film
over loopback while nginx compresses pages for wrk, a closed loop of clients with a think time. The
think time is calibrated first, so that the web server and its clients use the wanted part of all
processors; without think time they use all. Needs root: nginx's workers, scheduling classes.
"""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Run = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
#: Unloaded time after the clients have started, and time in which the load settles, s.
UNLOADED, SETTLING = 1.0, 1.5
#: Closed-loop clients of the web server, and its processes (the paper's Apache has up to ten).
CONNECTIONS, WEB_PROCESSES = 40, 10
#: Bytes of the page that the web server compresses for each request.
PAGE_BYTES = 60_000
#: What the clients request of each system, by RTSP and by WHEP; other systems are ours.
PATHS = {"gstreamer": "clip/stream=0", "live555": "clip/track1", "mediamtx": "clip/trackID=0"}
WHEP_PATHS = {"mediamtx-whep": "/clip/whep", "whep": "/whep/clip", "whep-live": "/whep/clip"}
#: Systems that pass a published stream on.
RELAYS = ("mediamtx", "mediamtx-whep", "ni-live", "whep-live")
#: The columns of the clients' results.
RESULTS = (
    "frames,lost,on_time,p50_us,p99_us,max_us,bytes_per_s,used_percent,steal_percent,overflowed"
)

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

SCENARIO = """[scenario]
duration = "1 min"
[media]
listen = "127.0.0.1:0"
placement = "{placement}"
sessions = {sessions}
connections = {connections}
sessions-per-address = {sessions}
connections-per-address = {connections}
{webrtc}
[link]
rate = "{rate}"
overhead = 28
[scheduler]
discipline = "dwcs"
[[stream]]
name = "clip"
period = "40 ms"
window = "2/12"
first-deadline = "200 ms"
late = "drop"
source = {{ {source} }}
"""

MEDIAMTX = """logLevel: error
api: no
rtmp: no
hls: no
srt: no
webrtc: {webrtc}
webrtcAddress: 127.0.0.1:{http}
webrtcLocalUDPAddress: 127.0.0.1:{ice}
webrtcIPsFromInterfaces: no
webrtcAdditionalHosts: [127.0.0.1]
webrtcTrackGatherTimeout: 10s
rtspTransports: [udp, tcp]
rtspAddress: 127.0.0.1:{port}
rtpAddress: 127.0.0.1:{rtp}
rtcpAddress: 127.0.0.1:{rtcp}
multicastIPRange: 224.1.0.0/16
paths:
  clip:
"""

#: MediaMTX starts this publisher itself, unless it gets another one.
ON_DEMAND = """    runOnDemand: >-
      ffmpeg -v error -re -i {film} -c copy -f rtsp
      rtsp://127.0.0.1:{port}/clip
"""


def free_port() -> int:
    """Returns an even port that is free, as is the next one, for TCP and UDP."""
    while True:
        with contextlib.ExitStack() as probes:
            port = random.randrange(20_000, 32_000, 2)
            try:
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                    for number in (port, port + 1):
                        probe = probes.enter_context(socket.socket(type=kind))
                        probe.bind(("127.0.0.1", number))
                return port
            except OSError:
                continue


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


def processor_seconds(session: int) -> float:
    """Returns the CPU time of the processes of a session so far, s."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) == session:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def wait_for_port(address: str) -> None:
    """Waits until a TCP port accepts connections, 10 s at most."""
    host, port = address.split(":")
    end = time.monotonic() + 10
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return
        except OSError:
            assert time.monotonic() < end, f"no server at {address}"
            time.sleep(0.05)


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
        wait_for_port(f"127.0.0.1:{self.port}")
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
        """Measures the part of all processors that nginx and its clients use with a think time."""
        clients = self.load(think_ms, seconds + 30)
        sessions = (self.nginx.process.pid, clients.process.pid)
        time.sleep(1.0)
        spans = []
        for wait in (seconds, 0.0):
            spans.append((sum(map(processor_seconds, sessions)), time.monotonic()))
            time.sleep(wait)
        clients.end()
        used, span = (after - before for before, after in zip(*spans, strict=True))
        return float(100 * used / span / (os.cpu_count() or 1))

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

    def __init__(
        self, folder: Path, millstream: str, peers: Path, rate: str, publisher: Path | None
    ) -> None:
        """Makes the films: three minutes of 1 Mbit/s, without B-frames, in two containers.

        Relays get the stream of a server of their own from `publisher`, or one from ffmpeg.
        """
        self.publisher = publisher
        self.folder, self.millstream, self.peers, self.rate = folder, millstream, peers, rate
        self.film, self.elementary = folder / "film.mp4", folder / "film.264"
        #: The address of a server that does not print it.
        self.address = ""
        #: The address at which a relay takes its stream.
        self.relay = ""
        encoded = "-an -c:v libx264 -preset fast -bf 0 -g 12 -b:v 1M -maxrate 1M -bufsize 500k"
        ffmpeg = ["ffmpeg", "-v", "error", "-y"]
        clip = str(ROOT / "examples/data/clip.mpg")
        encode = [*ffmpeg, "-stream_loop", "-1", "-i", clip, *encoded.split(), "-frames:v", "4500"]
        split = [*ffmpeg, "-i", str(self.film), "-c", "copy", "-bsf:v", "h264_mp4toannexb"]
        for command in ([*encode, str(self.film)], [*split, str(self.elementary)]):
            subprocess.run(command, check=True)

    def command(self, system: str, clients: int) -> list[str]:
        """Returns the command that serves the film to that many clients."""
        if system == "gstreamer":
            script = str(ROOT / "benches/peers/gst_rtsp.py")
            return ["/usr/bin/python3", script, str(self.film)]
        if system == "live555":
            return [str(self.peers / "live555_rtsp"), str(self.elementary)]
        webrtc = system in WHEP_PATHS
        if system.startswith("mediamtx"):
            program = os.environ.get("MEDIAMTX", str(self.peers / "mediamtx"))
            port, rtp, http = free_port(), free_port(), free_port()
            ports = {"port": port, "rtp": rtp, "rtcp": rtp + 1, "http": http, "ice": free_port()}
            text = MEDIAMTX if self.publisher else MEDIAMTX + ON_DEMAND
            text = text.format(**ports, film=self.film, webrtc="yes" if webrtc else "no")
            (self.folder / "mediamtx.yml").write_text(text)
            self.relay = f"127.0.0.1:{port}"
            self.address = f"127.0.0.1:{http if webrtc else port}"
            return [program, str(self.folder / "mediamtx.yml")]
        file = self.folder / f"{system}.toml"
        # A real session for each client, and some for the connections that are closing.
        values: Run = {"sessions": max(256, clients), "connections": max(512, 2 * clients)}
        if webrtc:
            self.address = f"127.0.0.1:{free_port()}"
        values["webrtc"] = f'webrtc = "{self.address}"' if webrtc else ""
        values["placement"] = "host" if system.startswith("host") else "ni"
        values["source"] = f'kind = "mpeg", file = "{self.film}"'
        if system in RELAYS:
            values["source"] = 'kind = "live", rate = "2 Mbit/s"'
        file.write_text(SCENARIO.format(**values, rate=self.rate))
        return [self.millstream, "serve", "--json", str(file)]

    @contextlib.contextmanager
    def serve(
        self, system: str, clients: int, real_time: bool | None = None
    ) -> Iterator[tuple[str, list[int]]]:
        """Serves the film; yields the address and the sessions of the server's processes.

        `real_time` pins our data plane and selects its class; None leaves it as it starts.
        """
        command = self.command(system, clients)
        out, errors = subprocess.PIPE, subprocess.DEVNULL
        ours = command[0] == self.millstream
        child = Child(command, errors, out) if ours else Child(command, out, errors)
        children = [child]
        source = contextlib.ExitStack()
        try:
            if system.startswith("mediamtx"):
                wait_for_port(self.address)
                address = self.address
            else:
                output = child.process.stderr if ours else child.process.stdout
                assert output is not None
                line = next((line for line in output if "rtsp://" in line), "")
                assert line, f"{system} did not start"
                port = line.split("rtsp://")[1].split("/")[0].rsplit(":", 1)[1]
                address = self.address if system in WHEP_PATHS else f"127.0.0.1:{port}"
                if ours and real_time is not None:
                    self.place(system, child.process.pid, output, real_time)
                if system in RELAYS:
                    self.relay = f"127.0.0.1:{port}"
            if self.publisher and system in RELAYS:
                paced, _ = source.enter_context(self.serve("ni", 1))
                # A source on another machine would not wait for this load: real-time priority.
                publisher = [str(self.publisher), paced, self.relay]
                children.append(Child(["chrt", "-f", "1", *publisher]))
                # A client needs the first frame.
                time.sleep(2.0)
            yield address, [child.process.pid]
        finally:
            for child in reversed(children):
                child.end()
            source.close()

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
    media: Media,
    web: Web,
    program: str,
    system: str,
    clients: int,
    load: int,
    seconds: float,
    real_time: bool | None = None,
) -> Run:
    """Makes one run; returns the clients' results, the web server's rate and the server's use.

    `cores` is the CPU time of the media server over the measured time: with the program that reads
    the film for it, if there is one.
    """
    with media.serve(system, clients, real_time) as (address, sessions):
        settled = (UNLOADED + SETTLING) * 1e3
        protocol = "whep" if system in WHEP_PATHS else "rtsp"
        path = WHEP_PATHS.get(system) or PATHS.get(system, "clip/video")
        times = [f"{settled:.0f}", f"{seconds * 1e3:.0f}"]
        # The clients share the processors with the load. Their times are the kernel's.
        command = ["nice", "-n", "-20", program, protocol, address, path, str(clients), *times]
        players = Child(command, stdout=subprocess.PIPE)
        requests = None
        try:
            output = players.process.stdout
            assert output is not None
            assert output.readline() == "playing\n", "the clients do not play"
            time.sleep(UNLOADED)
            if load:
                requests = web.load(web.think_ms[load], seconds + 30)
            spans = []
            for expected in ("measuring\n", "measured\n"):
                assert output.readline() == expected, "the clients ended"
                spans.append((sum(map(processor_seconds, sessions)), time.monotonic()))
            row = output.readline().split(",")
            text = requests.results() if requests else ""
        finally:
            players.end()
            if requests:
                requests.end()
    rate = float(text.split("Requests/sec:")[1].split()[0]) if load else 0.0
    used, span = (after - before for before, after in zip(*spans, strict=True))
    results = dict(zip(RESULTS.split(","), map(float, row), strict=True))
    assert results.pop("overflowed") == 0, "the clients read too late"
    return {**results, "requests_per_s": rate, "cores": used / span}


def undisturbed(run: Callable[[], Run], name: str, max_steal: float, max_tries: int) -> Run:
    """Repeats a run until it has little steal time; returns the one with least, and the tries.

    Returns nothing if no try succeeds.
    """
    best: Run = {}
    tries = 0
    while tries < max_tries:
        tries += 1
        try:
            found = run()
        except (AssertionError, StopIteration, ValueError) as error:
            print(f"{name}: repeated: {error!r}", file=sys.stderr, flush=True)
            continue
        if not best or found["steal_percent"] < best["steal_percent"]:
            best = found
        if found["steal_percent"] <= max_steal:
            break
    return {**best, "tries": tries} if best else {}
