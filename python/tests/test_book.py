"""Every command of the README and the book runs as it is printed.

A page's commands run in order in a folder that holds the repository's examples.
"""

import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/src").glob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: Ways to say ``millstream``.
OURS = (["millstream"], ["cargo", "run", "--release", "-p", "millstream-cli", "--"])
#: Beginnings of commands that are checked otherwise, or need what a test must not have.
ELSEWHERE = {
    "make run": "the test of the whole repository",
    "python3 -m venv": "scripts/python.sh, which installs the wheel these tests run with",
    "target/venv/bin/python": "test_examples.py, which runs Python blocks",
    "tcpdump": "a network interface",
}


def commands(block: str) -> list[str]:
    """The commands of a block, continued lines joined."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def ours(command: str) -> list[str] | None:
    """The arguments, if it is our command."""
    words = shlex.split(command, comments=True)
    for name in OURS:
        if words[: len(name)] == name:
            return words[len(name) :]
    return None


def describe(url: str) -> str:
    """The status line of a server's answer to a player's first question, once it listens."""
    place = urlsplit(url)
    for _ in range(200):
        try:
            connection = socket.create_connection((place.hostname, place.port), timeout=10)
        except ConnectionRefusedError:
            time.sleep(0.05)
            continue
        with connection:
            request = f"DESCRIBE {url} RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n\r\n"
            connection.sendall(request.encode())
            return connection.makefile("r").readline()
    return "nobody listens"


@pytest.fixture
def folder(tmp_path: Path, root: Path) -> Path:
    """A folder with the repository's examples, and ``out``."""
    (tmp_path / "examples").symlink_to(root / "examples")
    (tmp_path / "out").mkdir()
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run_as_printed(
    page: Path,
    folder: Path,
    command: Callable[..., subprocess.CompletedProcess[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    others = ThreadPoolExecutor()
    ends: list[Future[subprocess.CompletedProcess[str]]] = []
    for block in BLOCK.findall(page.read_text()):
        for line in commands(block):
            if any(line.startswith(known) for known in ELSEWHERE):
                continue
            if line.startswith("ffplay "):
                # Players play in the server's own tests; here the address must be right.
                assert describe(line.split()[1]).split()[1:2] == ["200"], line
                continue
            arguments = ours(line)
            assert arguments is not None, f"{page.name}: how is this tested? {line}"
            if arguments[0] == "serve":
                # It serves until it is told to end, while the next lines are tried.
                ends.append(others.submit(command, *arguments, "--for", "5 s"))
                continue
            ended = command(*arguments)
            assert ended.returncode == 0, f"{page.name}: {line}\n{ended.stderr}"
    for end in ends:
        assert end.result().returncode == 0, end.result().stderr


def test_every_block_says_what_it_is() -> None:
    languages = {"sh", "python", "toml", "text", "json", "rust"}
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            if line.startswith("```") and line != "```":
                assert line[3:] in languages, f"{page.name}:{number}: {line}"


def test_the_page_of_commands_is_what_they_say(root: Path) -> None:
    script = [sys.executable, str(root / "scripts/commands.py"), "--check"]
    ran = subprocess.run(script, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
