"""Runs every command and program of the README and the book as printed; checks generated pages.

A page's blocks run in order in a folder that holds the repository's examples.
"""

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

from tests_support import PAGES, blocks

#: Ways to call ``millstream``.
OURS = (["millstream"], ["cargo", "run", "--release", "-p", "millstream-cli", "--"])
#: Other programs of the environment; with ``&`` they serve until the page's end.
PROGRAMS = ("dask", "python")
#: Prefixes of commands that are tested elsewhere or need unavailable resources.
ELSEWHERE = {
    "make run": "the test of the whole repository",
    "python3 -m venv": "scripts/python.sh, which installs the wheel these tests run with",
    "target/venv/bin/python": "the test of Python blocks below",
    "tcpdump": "a network interface",
    "millstream plan": "the tests of the command, which measure nothing",
    "scripts/c-library.sh": "scripts/test-c-library.sh",
    "cc -std=c11": "scripts/test-c-library.sh",
    "scripts/bufferbloat.sh": "a virtual machine",
    "sudo millstream attach": "scripts/kernel.sh",
    "sudo millstream detach": "scripts/kernel.sh",
    "sudo millstream top": "scripts/kernel.sh",
    "millstream attach": "scripts/kernel.sh",
    "nft add": "scripts/kernel.sh",
    **dict.fromkeys(
        (
            "source scripts/rtl-tools.sh",
            "rtl_tools",
            "rtl_reference",
            "export PYTHONPATH=$PWD/rtl/tests",
            "cd target ",
            "fusesoc library add millstream",
            "fusesoc run --target lint",
        ),
        "scripts/rtl.sh, which lints by FuseSoC",
    ),
    "export GPI_USERS": "no test: cocotb's tests run without FuseSoC",
    "fusesoc run --target sim": "no test: cocotb's tests run without FuseSoC",
}


def commands(block: str) -> list[str]:
    """The commands of a block, with continued lines joined."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def ours(command: str) -> list[str] | None:
    """The arguments of a ``millstream`` command, else None."""
    words = shlex.split(command, comments=True)
    for name in OURS:
        if words[: len(name)] == name:
            return words[len(name) :]
    return None


def describe(url: str) -> str:
    """The status line of a server's answer to OPTIONS, once it listens."""
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
    return "no server listens"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run_as_printed(
    page: Path,
    folder: Path,
    command: Callable[..., subprocess.CompletedProcess[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    others = ThreadPoolExecutor()
    servers: list[subprocess.Popen[bytes]] = []
    ends: list[Future[subprocess.CompletedProcess[str]]] = []
    for block in blocks(page, "sh"):
        for line in commands(block):
            if any(line.startswith(known) for known in ELSEWHERE):
                continue
            if line.startswith("ffplay "):
                # The server's own tests run players; here the address must be right.
                assert describe(line.split()[1]).split()[1:2] == ["200"], line
                continue
            if line.split()[0] in PROGRAMS:
                name, *words = shlex.split(line)
                program = [str(Path(sys.executable).with_name(name)), *words]
                if program[-1] == "&":
                    servers.append(subprocess.Popen(program[:-1], stderr=subprocess.DEVNULL))
                    continue
                ran = subprocess.run(program, capture_output=True, text=True)
                assert ran.returncode == 0, f"{page.name}: {line}\n{ran.stderr}"
                continue
            arguments = ours(line)
            assert arguments is not None, f"{page.name}: how is this tested? {line}"
            if arguments[0] == "serve":
                # It serves in the background while the next lines run.
                ends.append(others.submit(command, *arguments, "--for", "5 s"))
                continue
            ended = command(*arguments)
            assert ended.returncode == 0, f"{page.name}: {line}\n{ended.stderr}"
    for server in servers:
        assert server.poll() is None, server.args
        server.terminate()
        server.wait()
    for end in ends:
        assert end.result().returncode == 0, end.result().stderr


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name
)
def test_python_runs_word_by_word(page: Path, folder: Path) -> None:
    # Sequentially, as a reader would run them.
    lines = "\n".join(blocks(page, "python")).splitlines()
    script = folder / "page.py"
    guard = 'if __name__ == "__main__":\n'
    script.write_text(guard + "".join(f"    {line}\n" for line in lines))
    ran = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_every_block_has_a_language() -> None:
    languages = {"c", "html", "sh", "python", "toml", "text", "json", "rust"}
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            if line.startswith("```") and line != "```":
                assert line[3:] in languages, f"{page.name}:{number}: {line}"


@pytest.mark.parametrize("script", ["api", "commands", "concepts", "keys"])
def test_generated_pages_are_up_to_date(script: str, root: Path) -> None:
    check = [sys.executable, str(root / f"scripts/{script}.py"), "--check"]
    ran = subprocess.run(check, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
