#!/usr/bin/env python3
"""Writes docs/src/keys.md: every key of scenario and router files, from `millstream schema`.

Usage: scripts/keys.py [--check]. Needs target/release/millstream, or MILLSTREAM.
"""

import json
from collections.abc import Iterator
from typing import Any

from pages import asked, write

HEAD = """# All keys

Every key of the files, as `millstream schema` (editors use it to complete and check) describes
them; this page is written by `scripts/keys.py`. [The scenario file](scenario.md) explains how they
go together. A key in **bold** must be given.
"""
ROUTER = """## A router's file

For `millstream route`; [the programmable router](router/reference.md) explains it.
"""
#: Order of the tables; all others follow.
FIRST = ("scenario", "link", "scheduler", "class", "stream", "fabric", "media", "router", "port")
Schema = dict[str, Any]


class Format:
    """The schema of a file format."""

    def __init__(self, *options: str) -> None:
        """Reads the schema from the command."""
        self.schema: Schema = json.loads(asked("schema", *options))

    def behind(self, schema: Schema) -> Schema:
        """Resolves a reference, an optional value or a list."""
        for option in schema.get("anyOf", ()):
            if option.get("type") != "null":
                return self.behind(option)
        if "$ref" in schema:
            found: Schema = self.schema["$defs"][schema["$ref"].rsplit("/", 1)[1]]
            return found
        return self.behind(schema["items"]) if "items" in schema else schema

    def alternatives(self, schema: Schema) -> list[Schema]:
        """Returns the schemas of a value that is a name or a table; none of another value."""
        options = [self.behind(option) for option in self.behind(schema).get("anyOf", ())]
        return options if any("properties" in option for option in options) else []

    def tables(self) -> Iterator[tuple[str, Schema]]:
        """Yields every table of the file with its heading, nested tables after their parent."""
        keys = self.schema["properties"]
        for key in [
            *(key for key in FIRST if key in keys),
            *(key for key in keys if key not in FIRST),
        ]:
            many = keys[key].get("type") == "array"
            yield from self.within(key, f"[[{key}]]" if many else f"[{key}]", keys[key])

    def within(self, path: str, heading: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
        """Yields a table and its nested tables."""
        table = self.behind(schema)
        yield heading, table
        for key, value in table.get("properties", {}).items():
            inner = self.behind(value)
            if "properties" in inner or is_choice_of_tables(inner):
                yield from self.within(f"{path}.{key}", f"{path}.{key}", value)
            for option in self.alternatives(value):
                if "properties" in option:
                    yield from self.within(f"{path}.{key}", f"{path}.{key}", option)

    def table(self, heading: str, table: Schema) -> str:
        """Returns a table's section of the page."""
        parts = [f"### `{heading}`\n", str(table.get("description", "")) + "\n"]
        if is_choice_of_tables(table):
            for option in table["oneOf"]:
                kind = option["properties"]["kind"]["const"]
                parts.append(f'`kind = "{kind}"`: {sentence(option["description"])}\n')
                parts.append(self.rows(option))
        else:
            parts.append(self.rows(table))
        kinds = [case["then"] | {"kind": case["if"]} for case in table.get("allOf", ())]
        if kinds:
            parts.append("| kind | is | may have, **must have** |\n|---|---|---|")
            parts += [kind_row(kind) for kind in kinds]
            parts.append("")
        return "\n".join(parts)

    def rows(self, table: Schema) -> str:
        """Returns the rows of a table's keys."""
        needed = table.get("required", ())
        made = ["| key | value | meaning |", "|---|---|---|"]
        for key, value in table["properties"].items():
            if "const" in value:
                continue
            name = f"**`{key}`**" if key in needed else f"`{key}`"
            said = sentence(value.get("description", self.behind(value).get("description", "")))
            said = " ".join([said, *self.choices(value)]).strip()
            made.append(f"| {name} | {self.kind(value)} | {cell(said)} |")
        return "\n".join(made) + "\n"

    def choices(self, value: Schema) -> list[str]:
        """Describes each name that the value may have."""
        options = [*self.behind(value).get("oneOf", ())]
        for other in self.alternatives(value):
            options += other.get("oneOf", ())
        return [
            f"`{option['const']}`: {sentence(option['description'])}"
            for option in options
            if "const" in option
        ]

    def kind(self, value: Schema) -> str:
        """Returns the type of a value."""
        inner = self.behind(value)
        if value.get("type") == "array" or "array" in value.get("type", ()):
            if parts := value.get("prefixItems", ()):
                return f"[{', '.join(self.kind(part) for part in parts)}]"
            items = value.get("items", {})
            return f"list of {self.kind(items)}" if items else "list"
        names = inner.get("enum") or [option.get("const") for option in inner.get("oneOf", ())]
        names = [name for name in names if name is not None]
        if names:
            return ", ".join(f"`{name}`" for name in names)
        if "properties" in inner or is_choice_of_tables(inner):
            return "table, below"
        if options := self.alternatives(value):
            return " or ".join(self.kind(option) for option in options)
        if "additionalProperties" in inner:
            # The keys are the user's.
            return f"table of {self.kind(inner['additionalProperties'])}"
        reference = next((r for r in (value, *value.get("anyOf", ())) if "$ref" in r), None)
        if reference is not None:
            return str(reference["$ref"].rsplit("/", 1)[1])
        return plain(inner)


def is_choice_of_tables(schema: Schema) -> bool:
    """Whether a schema is a choice of tables by ``kind``."""
    return any("properties" in option for option in schema.get("oneOf", ()))


def plain(schema: Schema) -> str:
    """Returns a number, text or boolean type with its range."""
    kinds = schema.get("type", "string")
    kind = next(k for k in ([kinds] if isinstance(kinds, str) else kinds) if k != "null")
    named = {"integer": "whole number", "number": "number", "string": "text"}
    text = named.get(kind, "`true` or `false`")
    least, most = schema.get("minimum"), schema.get("maximum")
    if most is not None and least is not None:
        return f"{text}, {least:,} to {most:,}"
    return f"{text} from {least:,} on" if least else text


def kind_row(kind: Schema) -> str:
    """Returns the row of a kind of source with its keys."""
    name = kind["kind"]["properties"]["kind"]["const"]
    needed = set(kind.get("required", ()))
    keys = [key for key in kind["propertyNames"]["enum"] if key != "kind"]
    shown = ", ".join(f"**`{key}`**" if key in needed else f"`{key}`" for key in keys)
    for either in kind.get("allOf", ()):
        names = " or ".join(f"`{option['required'][0]}`" for option in either["oneOf"])
        shown += f"; either {names}"
    return f"| `{name}` | {cell(kind['description'])} | {shown} |"


def sentence(text: str) -> str:
    """Returns the text with a full stop."""
    text = " ".join(text.split())
    return text if not text or text.endswith(".") else f"{text}."


def cell(text: str) -> str:
    """Escapes text for a table cell."""
    return text.replace("|", "\\|")


def units(*formats: Format) -> str:
    """Returns the table of value types."""
    known: dict[str, str] = {}
    for each in formats:
        for name, schema in each.schema["$defs"].items():
            # A quantity, or a value of several types that are no tables.
            several = schema.get("anyOf", ())
            is_quantity = schema.get("type") == "string" and "pattern" in schema
            if is_quantity or (several and all("$ref" not in option for option in several)):
                known[name] = schema["description"]
    rows = [f"| {name} | {cell(said)} |" for name, said in sorted(known.items())]
    return "\n".join(["| value | is |", "|---|---|", *rows]) + "\n"


def page() -> str:
    """Returns the page."""
    scenario, router = Format(), Format("--router")
    parts = [HEAD, units(scenario, router), "## A scenario file\n"]
    parts += [scenario.table(*table) for table in scenario.tables()]
    parts.append(ROUTER)
    parts += [router.table(*table) for table in router.tables()]
    return "\n".join(parts).rstrip() + "\n"


write({"keys.md": page()})
