#!/usr/bin/env python3
"""Checks the HTML pages in Chromium: the reports of a link, a fabric and sweeps, and the dashboard.

Usage: scripts/accessibility.py [--all | --update] [DIRECTORY]. Needs target/release/millstream, or
MILLSTREAM. Keeps pages and screenshots in DIRECTORY if given. Makes its Python environment, and as
root installs Chromium by apt.

Each page is opened in the width of a telephone, light, and of a desktop, dark; with --all in both
widths, light and dark. It fails on findings of
axe-core that are serious or critical, on text that is shown smaller than 11 px, on a page that is
wider than the window, and on errors on the console, such as violations of the page's policy. It
also fails if it does not find the defects of a page that has one of each kind.

Screenshots of the reports are compared with scripts/screenshots.json, which --update writes: the
mean brightness of squares, an eighth of the page's width each. With another version of Chromium or
another font they cannot be compared, and it says so.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
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
#: A page with a defect of each kind, and what finds it.
CANARY = """<!DOCTYPE html><html lang="en"><title>canary</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<script>1</script><p style="font-size: 10px">small</p><p style="width: 1500px">wide</p>
<svg viewBox="0 0 80 20" width="40"><text y="15" font-size="16">svg</text></svg><p><a href="/"></a>
"""
DEFECTS = (
    "10.0 px: small",
    "8.0 px: svg",
    "px wide",
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
    problems += page.evaluate(SMALL, LEAST)
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
    started = time.monotonic()
    chromium = browser()
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
        with dashboard(Path(made)) as address:
            problems = check({**pages, "dashboard": address}, directory, chromium, views)
        shown = [f"{name}-{width}-{scheme}" for name in pages for width, scheme in views]
        problems += compare(directory, chromium, shown, update)
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"error: problems of pages: {len(problems)}")
    print(f"pages: {len(pages) + 1} of {len(views)} views each, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
