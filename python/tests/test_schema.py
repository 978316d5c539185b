"""The JSON schemas that editors check scenario files with."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Command = Callable[..., subprocess.CompletedProcess[str]]

#: Folders whose scenario files `millstream schema` describes.
FOLDERS = [
    "examples/uplink",
    "examples/classes",
    "examples/minbw",
    "examples/compare",
    "examples/end-system",
    "papers/sharestreams",
    "conformance/traces/dwcs-drop",
    "conformance/traces/share-table",
]

SCENARIO = """
[link]
rate = "1 Mbps"

[scheduler]
discipline = "dwcs"

[[stream]]
name = "a"
period = "10 ms"
window = "1/2"
queue = 4
source = { kind = "trace", file = "arrivals.csv" }
"""


def validator(command: Command, *arguments: str) -> Draft202012Validator:
    """Returns the validator of the schema that the command prints."""
    schema = json.loads(command("schema", *arguments).stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def errors(schema: Draft202012Validator, text: str) -> list[str]:
    """Returns what the schema finds wrong with a scenario file."""
    value: dict[str, Any] = tomllib.loads(text)
    return [error.message for error in schema.iter_errors(value)]


def scenario_files(root: Path) -> Iterator[Path]:
    """Yields the scenario files of FOLDERS."""
    for folder in FOLDERS:
        files = sorted((root / folder).glob("*.toml"))
        assert files, folder
        yield from files


def test_the_schema_accepts_every_scenario_file(command: Command, root: Path) -> None:
    schema = validator(command)
    for file in scenario_files(root):
        assert errors(schema, file.read_text(encoding="utf-8")) == [], file


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("period =", "perod ="),
        ('"1 Mbps"', '"1 mbps"'),
        ('file = "arrivals.csv"', "bytes = 3"),
    ],
)
def test_the_schema_rejects_mistakes(command: Command, old: str, new: str) -> None:
    schema = validator(command)
    assert errors(schema, SCENARIO) == []
    assert errors(schema, SCENARIO.replace(old, new, 1)) != []


def test_the_schema_of_routers_accepts_the_example(command: Command, root: Path) -> None:
    schema = validator(command, "--router")
    example = (root / "examples/router/router.toml").read_text(encoding="utf-8")
    assert errors(schema, example) == []
    assert errors(schema, example.replace("slice", "slise", 1)) != []
