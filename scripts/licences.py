#!/usr/bin/env python3
"""Checks every dependency against deny.toml: its licence, source and version.

cargo-deny checks more, including advisories, but takes minutes to build: `make soak` runs it.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from license_expression import ExpressionError, get_spdx_licensing

ROOT = Path(__file__).parent.parent
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
SPDX = get_spdx_licensing()


def packages(target: str) -> list[dict]:
    """Returns the packages built for `target`, without dependencies of tests."""
    command = [
        *("cargo", "metadata", "--format-version", "1", "--locked"),
        *("--filter-platform", target),
    ]
    metadata = json.loads(subprocess.check_output(command, cwd=ROOT))
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    reached, left = set(), list(metadata["workspace_members"])
    while left:
        package = left.pop()
        if package not in reached:
            reached.add(package)
            for to in nodes[package]["deps"]:
                if any(kind["kind"] != "dev" for kind in to["dep_kinds"]):
                    left.append(to["pkg"])
    return [package for package in metadata["packages"] if package["id"] in reached]


def permits(expression: str, allowed: set[str]) -> bool:
    """Whether `expression` offers a choice of licences that are all in `allowed`."""
    # Older crates separate choices by a slash.
    parsed = SPDX.parse(expression.replace("/", " OR "), validate=True)
    values = {symbol: symbol.render() in allowed for symbol in parsed.symbols}
    algebra = {symbol: SPDX.TRUE if value else SPDX.FALSE for symbol, value in values.items()}
    return parsed.subs(algebra, simplify=True) == SPDX.TRUE


def faults(package: dict, policy: dict) -> list[str]:
    """Returns the violations of `policy` by a package."""
    found = []
    expression = package["license"]
    try:
        if expression is None or not permits(expression, set(policy["licenses"]["allow"])):
            found.append(f"licence {expression!r} is none of deny.toml's [licenses] allow")
    except ExpressionError as error:
        found.append(f"licence {expression!r} is no SPDX expression: {error}")
    if package["source"] not in (None, CRATES_IO):
        found.append(f"source {package['source']} is not crates.io")
    if package["source"] is None:
        for dependency in package["dependencies"]:
            if dependency["req"] == "*" and dependency["path"] is None:
                found.append(f"dependency {dependency['name']} has no version")
    return found


def main() -> int:
    policy = tomllib.loads((ROOT / "deny.toml").read_text())
    checked = {}
    for target in policy["graph"]["targets"]:
        checked |= {package["id"]: package for package in packages(target)}
    wrong = [
        f"{package['name']} {package['version']}: {fault}"
        for package in checked.values()
        for fault in faults(package, policy)
    ]
    print("\n".join(wrong) or f"{len(checked)} packages, as deny.toml allows")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
