#!/usr/bin/env python3
"""Checks the HTML pages in Chromium: reports of a link, a fabric and sweeps, and the dashboards.

Usage: scripts/accessibility.py [--all | --update] [DIRECTORY]. Needs target/release/millstream, or
MILLSTREAM. Keeps pages and screenshots in DIRECTORY if given. Makes its Python environment, and as
root installs Chromium by apt.

The dashboards are those of a media server, of a router and of a qdisc. The router forwards between
two veth pairs in a network namespace in which this script then runs; that needs root, so without
root the router's dashboard is not checked. The qdisc's counters are made up here, as few kernels
have BPF qdiscs.

Each page is opened in the width of a telephone, light, and of a desktop, dark; with --all in both
widths, light and dark. It fails on findings of axe-core that are serious or critical, on text that
is shown smaller than 11 px, on a page that is wider than the window, on control characters, on a
dashboard that shows no status, and on errors on the console, such as violations of the page's
policy. It also fails if it does not find the defects of a page that has one of each kind.

Screenshots of the reports are compared with scripts/screenshots.json, which --update writes: the
mean brightness of squares, an eighth of the page's width each. With another version of Chromium or
another font they cannot be compared, and it says so.
"""

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "accessibility"
PACKAGES = ROOT / "scripts/accessibility.txt"
PROGRAM = os.environ.get("MILLSTREAM", str(ROOT / "target/release/millstream"))
#: Widths, px, and colour schemes. A finding depends on one of the two, so two views show each.
VIEWS = ((390, "light"), (1240, "dark"))
ALL_VIEWS = (*VIEWS, (390, "dark"), (1240, "light"))
SCREENSHOTS = ROOT / "scripts/screenshots.json"
#: The squares of a screenshot's width.
SQUARES = 8
#: The most by which the height of a page, as a share, and the brightness of a square may differ.
MOST_TALLER, MOST_BRIGHTER = 0.02, 24
#: The least size of text, px.
LEAST = 11
#: Set in the network namespace of the router.
ISOLATED = "MILLSTREAM_ISOLATED"
#: The router of the dashboard. Its paths show bounds, overload, an extension and a name with
#: control characters.
ROUTER = """
[router]
name = "edge"
status = "127.0.0.1:9817"
[[port]]
name = "lan"
kind = "interface"
interface = "lan1"
io = "packet"
mac = "02:00:00:00:01:01"
rate = "1 Gbit/s"
address = "10.1.0.1/24"
[[port]]
name = "wan"
kind = "interface"
interface = "wan1"
io = "packet"
mac = "02:00:00:00:02:02"
rate = "4 Mbit/s"
overhead = 24
address = "10.2.0.1/24"
nat = {}
[[path]]
name = "voice"
match = { protocol = "udp", destination-port = 5004 }
to = "wan"
reservation = "1 kpps"
cost = "5 us"
max-rate = "1 Mbit/s"
burst = "2 kB"
weight = 8
[[path]]
name = "video"
match = { protocol = "udp", destination-port = 5006 }
to = "wan"
reservation = "1 kpps"
cost = "5 us"
weight = 4
extension = { module = "MODULE" }
[[path]]
name = "best\\u001b\\u202eeffort"
queue = 64
[[route]]
prefix = "0.0.0.0/0"
port = "wan"
neighbour = "02:00:00:00:02:01"
"""
#: The traffic of the router: UDP port, bytes of an IP packet, packets a second. It exceeds `wan`.
FLOWS = ((5004, 200, 50), (5006, 1200, 100), (9, 1000, 500))
#: Seconds of traffic before the dashboard is shown.
WARM_UP = 4
#: A page with a defect of each kind, and what finds it.
CANARY = """<!DOCTYPE html><html lang="en"><title>canary</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<script>1</script><p>\u202eturned</p>
<p style="font-size: 10px">small</p><p style="width: 1500px">wide</p>
<svg viewBox="0 0 80 20" width="40"><text y="15" font-size="16">svg</text></svg><p><a href="/"></a>
"""
DEFECTS = (
    "10.0 px: small",
    "8.0 px: svg",
    "px wide",
    "control characters: '\\u202e'",
    "Content Security Policy",
    "link-name",
)
#: Returns the text elements that are shown smaller than the argument.
SMALL = """least => {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.nodeValue.trim();
        const of = walker.currentNode.parentElement;
        if (!text || !of.getClientRects().length || of.closest("title, desc, script, style"))
            continue;
        const matrix = of instanceof SVGGraphicsElement ? of.getScreenCTM() : null;
        const scale = matrix ? Math.hypot(matrix.a, matrix.b) : 1;
        const size = parseFloat(getComputedStyle(of).fontSize) * scale;
        if (size < least - 0.05) found.push(`${size.toFixed(1)} px: ${text.slice(0, 40)}`);
    }
    return found;
}"""

#: Returns the control characters, and those that change the writing direction, in texts and titles.
CONTROLS = r"""() => {
    const titles = [...document.querySelectorAll("[title]")].map((of) => of.title);
    const all = [document.title, document.body.textContent, ...titles].join("");
    const controls = /(?![\n\t])\p{Cc}|[\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
    return (all.match(controls) ?? []).join("");
}"""


def prepare() -> None:
    """Creates the Python environment, and continues this script in it."""
    stamp = ENVIRONMENT / "stamp"
    wanted = f"{sys.version}\n{PACKAGES.read_text()}"
    if not stamp.exists() or stamp.read_text() != wanted:
        print("creating the Python environment of the page checks (once)", flush=True)
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        venv.create(ENVIRONMENT, with_pip=True)
        install = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
        ]
        subprocess.run([ENVIRONMENT / "bin/python", *install, PACKAGES], check=True)
        stamp.write_text(wanted)
    if Path(sys.prefix) != ENVIRONMENT:
        python = str(ENVIRONMENT / "bin/python")
        os.execv(python, [python, *sys.argv])


def browser() -> str:
    """Returns the path of Chromium. As root, installs it if it is missing."""
    if not shutil.which("chromium") and os.geteuid() == 0:
        subprocess.run([ROOT / "scripts/test-tools.sh", "browser"], check=True)
    return shutil.which("chromium") or sys.exit("error: install Chromium")


def isolate() -> None:
    """Continues this script in a network namespace of its own, if it runs as root."""
    if os.geteuid() == 0 and ISOLATED not in os.environ:
        # Each network namespace has ports of its own, so a fixed one is free.
        command = ["unshare", "--net", sys.executable, *sys.argv]
        os.execvpe("unshare", command, {**os.environ, ISOLATED: "1"})


def make(directory: Path) -> dict[str, str]:
    """Writes the pages; returns their addresses by name."""
    link, compare, fabric = (
        str(ROOT / f"examples/{name}/scenario.toml") for name in ("uplink", "compare", "fabric")
    )
    disciplines = "scheduler.discipline=fifo,wfq,drr,dwcs"
    commands = {
        "link": ["run", link, "--bounds"],
        "fabric": ["run", fabric, "--set", "scenario.duration=5 ms"],
        "sweep": ["sweep", compare, "--seeds", "3", "--set", disciplines],
        "sweep-rates": [
            *(
                "sweep",
                compare,
                "--seeds",
                "3",
                "--set",
                "link.rate=8 Mbit/s,9 Mbit/s,12 Mbit/s",
            ),
            *("--set", "scheduler.discipline=fifo,drr"),
        ],
    }
    pages = {}
    for name, command in commands.items():
        page = directory / f"{name}.html"
        subprocess.run([PROGRAM, *command, "--report", page], check=True, capture_output=True)
        pages[name] = page.as_uri()
    return pages


@contextmanager
def dashboard(directory: Path) -> Iterator[str]:
    """Runs a media server; yields the address of its dashboard."""
    folder = ROOT / "examples/media"
    text = (folder / "scenario.toml").read_text()
    text = re.sub(r'127\.0\.0\.1:\d+"', '127.0.0.1:0"', text)
    text = text.replace("../data", f"{ROOT}/examples/data")
    file = directory / "media.toml"
    file.write_text(text)
    server = subprocess.Popen(
        [PROGRAM, "serve", file],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stderr
        for line in server.stderr:
            if found := re.match(r"(http://\S+/),", line):
                yield found[1]
                return
        sys.exit("error: the media server did not start")
    finally:
        server.terminate()
        server.wait()


def frame(port: int, length: int) -> bytes:
    """Returns a frame to the router with a UDP packet of `length` bytes."""
    addresses = socket.inet_aton("10.1.0.2") + socket.inet_aton("203.0.113.9")
    head = struct.pack("!BBHIBBH", 0x45, 0, length, 0, 64, socket.IPPROTO_UDP, 0) + addresses
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    # A checksum of 0 says that there is none.
    udp = struct.pack("!HHHH", 40_000 + port, port, length - 20, 0)
    return bytes.fromhex("020000000101 020000000102 0800") + head + udp + bytes(length - 28)


def send(stop: threading.Event) -> None:
    """Sends the flows to the router until `stop` is set."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind(("lan0", 0))
        began, sent = time.monotonic(), [0] * len(FLOWS)
        while not stop.wait(0.005):
            for at, (port, length, rate) in enumerate(FLOWS):
                due = int((time.monotonic() - began) * rate)
                for _ in range(due - sent[at]):
                    out.send(frame(port, length))
                sent[at] = due


@contextmanager
def router_dashboard(directory: Path) -> Iterator[str]:
    """Runs a router under overload; yields the address of its dashboard."""

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True)

    ip("link", "set", "lo", "up")
    for name, address in (("lan", "02:00:00:00:01:01"), ("wan", "02:00:00:00:02:02")):
        peer = ("peer", "name", f"{name}1", "address", address)
        ip("link", "add", f"{name}0", "type", "veth", *peer)
        for end in ("0", "1"):
            # Without IPv6 the kernel sends nothing of its own.
            Path(f"/proc/sys/net/ipv6/conf/{name}{end}/disable_ipv6").write_text("1")
            ip("link", "set", name + end, "up")
    file = directory / "router.toml"
    module = ROOT / "examples/router/mark.wasm"
    file.write_text(ROUTER.replace("MODULE", str(module)))
    log = (directory / "router.log").open("w+")
    router = subprocess.Popen([PROGRAM, "route", file], stdout=subprocess.DEVNULL, stderr=log)
    stop = threading.Event()
    sender = threading.Thread(target=send, args=(stop,), daemon=True)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", 9817)) == 0:
                    break
            if router.poll() is not None:
                break
            time.sleep(0.1)
        if router.poll() is not None:
            sys.exit(f"error: the router did not start: {Path(log.name).read_text()}")
        sender.start()
        time.sleep(WARM_UP)
        yield "http://127.0.0.1:9817/"
    finally:
        stop.set()
        router.terminate()
        router.wait()
        log.close()


def qdisc_status(elapsed: float) -> dict[str, Any]:
    """Returns the status of a qdisc, `elapsed` seconds after it was attached."""
    streams, sojourn = [], []
    for number, (name, rate) in enumerate((("voice", 50), ("best\u001b\u202eeffort", 500))):
        sent = int(rate * elapsed)
        counts = [0] * 40
        counts[18 + number], counts[20 + number] = sent - sent // 10, sent // 10
        sojourn.append(counts)
        stream = {
            "name": name,
            "waiting": number,
            "flows": number,
            "arrivals": 2 * sent,
            "sent": sent,
            "sent_bytes": 1000 * sent,
            "missed": sent,
            "violations": number,
            "sojourn_sum_ns": 10**6 * sent,
            "sojourn_longest_ns": 2 * 10**6,
            "delay_bound_ns": None if number else 3 * 10**6,
            "sojourn_p50_bound_ns": 2**19,
            "sojourn_p99_bound_ns": 2**21,
        }
        reasons = ("late", "full", "by_aqm", "from_longest")
        streams.append(stream | {f"dropped_{reason}": sent // 4 for reason in reasons})
    return {
        "interface": "eth0",
        "discipline": "dwcs",
        "rate_bps": 20 * 10**6,
        "streams": streams,
        "elapsed_ns": int(elapsed * 1e9),
        "sojourn": sojourn,
    }


@contextmanager
def qdisc_dashboard(other: str) -> Iterator[str]:
    """Serves the dashboard of the program at `other` with the counters of a qdisc."""
    with urllib.request.urlopen(other) as answer:
        page, policy = answer.read(), answer.headers["Content-Security-Policy"]
    began = time.monotonic()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            bodies = {"/": ("text/html", page)}
            status = json.dumps(qdisc_status(time.monotonic() - began + 60))
            bodies["/status"] = ("application/json", status.encode())
            kind, body = bodies.get(self.path, ("text/plain", b""))
            self.send_response(200 if self.path in bodies else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def brightness(picture: Path) -> list[list[int]]:
    """Returns the mean brightness of the squares of a screenshot, 0 to 255, by rows."""
    from PIL import Image

    with Image.open(picture) as image:
        rows = max(1, round(image.height * SQUARES / image.width))
        small = image.convert("L").resize((SQUARES, rows), Image.Resampling.BOX)
        cells = list(small.getdata())
    return [cells[at : at + SQUARES] for at in range(0, len(cells), SQUARES)]


def environment(chromium: str) -> str:
    """Returns the versions that decide on the pixels of a page."""
    version = subprocess.run([chromium, "--version"], capture_output=True, text=True, check=True)
    font = subprocess.run(["fc-match", "system-ui"], capture_output=True, text=True, check=False)
    return f"{version.stdout.split(' built')[0].strip()}; {font.stdout.strip()}"


def compare(directory: Path, chromium: str, views: list[str], update: bool) -> list[str]:
    """Compares screenshots with the known ones, by name; returns their problems."""
    shown = {view: brightness(directory / f"{view}.png") for view in views}
    here = environment(chromium)
    if update:
        rows = {view: [bytes(row).hex() for row in of] for view, of in shown.items()}
        written = {"environment": here, "views": rows}
        SCREENSHOTS.write_text(json.dumps(written, indent=1) + "\n")
        return []
    known = json.loads(SCREENSHOTS.read_text())
    if known["environment"] != here:
        print(f"screenshots: cannot tell; known for {known['environment']}, here {here}")
        return []
    problems = []
    for view, squares in shown.items():
        before = [list(bytes.fromhex(row)) for row in known["views"].get(view, [])]
        if abs(len(squares) - len(before)) > max(1, MOST_TALLER * len(before)):
            problems.append(f"{view}: {len(squares)} rows of squares instead of {len(before)}")
            continue
        pairs = (zip(one, other, strict=True) for one, other in zip(squares, before, strict=False))
        most = max(abs(one - other) for row in pairs for one, other in row)
        if most > MOST_BRIGHTER:
            problems.append(f"{view}: a square differs by {most} of 255 levels")
    return [f"{problem}; --update accepts it" for problem in problems]


def view(page: Any, place: str, address: str, picture: Path) -> list[str]:
    """Opens a page in the browser's window `page`; returns its problems."""
    from axe_playwright_python.sync_playwright import Axe

    problems: list[str] = []

    def report(message: Any) -> None:
        # The dashboard asks a server for a history, which not all have.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            problems.append(message.text)

    page.on("console", report)
    page.goto(address)
    # The dashboard draws after its first answer.
    page.wait_for_timeout(1500 if address.startswith("http") else 50)
    page.screenshot(path=picture, full_page=True)
    if address.startswith("http"):
        state = page.text_content("#state")
        if state != "live":
            problems.append(f"the dashboard's state is {state!r}")
    problems += page.evaluate(SMALL, LEAST)
    controls = page.evaluate(CONTROLS)
    if controls:
        problems.append(f"control characters: {controls!r}")
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > page.viewport_size["width"]:
        problems.append(f"the page is {wide} px wide")
    for found in Axe().run(page).response["violations"]:
        if found["impact"] in ("serious", "critical"):
            nodes = ", ".join(str(node["target"]) for node in found["nodes"][:3])
            problems.append(f"{found['id']}: {found['help']}: {nodes}")
    return [f"{place}: {problem}" for problem in problems]


def check(
    pages: dict[str, str], directory: Path, chromium: str, views: tuple[tuple[int, str], ...]
) -> list[str]:
    """Returns the problems of all pages."""
    from playwright.sync_api import sync_playwright

    problems = []
    with sync_playwright() as playwright:
        # The sandbox of Chromium does not start as root; the pages are ours.
        options = ["--no-sandbox", "--disable-gpu"]
        running = playwright.chromium.launch(executable_path=chromium, args=options)
        for name, address in pages.items():
            for width, scheme in views:
                page = running.new_page(
                    viewport={"width": width, "height": 900}, color_scheme=scheme
                )
                picture = directory / f"{name}-{width}-{scheme}.png"
                problems += view(page, f"{name}, {width} px, {scheme}", address, picture)
                page.close()
        running.close()
    return problems


def main() -> None:
    """Makes the pages and checks them."""
    prepare()
    chromium = browser()
    isolate()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
        update = "--update" in sys.argv
        views = ALL_VIEWS if update or "--all" in sys.argv else VIEWS
        directory = Path(arguments[0]) if arguments else Path(made)
        directory.mkdir(parents=True, exist_ok=True)
        canary = Path(made) / "canary.html"
        canary.write_text(CANARY)
        found = "\n".join(check({"canary": canary.as_uri()}, Path(made), chromium, VIEWS[:1]))
        if missing := [defect for defect in DEFECTS if defect not in found]:
            sys.exit(f"error: defects of the canary not found: {missing}; found:\n{found}")
        pages = make(directory)
        with ExitStack() as running:
            addresses = {}
            if ISOLATED in os.environ:
                addresses["router"] = running.enter_context(router_dashboard(Path(made)))
            else:
                print("the router's dashboard is NOT checked: that needs root")
            addresses["dashboard"] = running.enter_context(dashboard(Path(made)))
            addresses["qdisc"] = running.enter_context(qdisc_dashboard(addresses["dashboard"]))
            problems = check({**pages, **addresses}, directory, chromium, views)
        shown = [f"{name}-{width}-{scheme}" for name in pages for width, scheme in views]
        problems += compare(directory, chromium, shown, update)
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"error: problems of pages: {len(problems)}")
    count, took = len(pages) + len(addresses), time.monotonic() - started
    print(f"pages: {count} of {len(views)} views each, {took:.0f} s")


if __name__ == "__main__":
    main()
