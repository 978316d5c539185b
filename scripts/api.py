#!/usr/bin/env python3
"""Writes docs/src/api.md: the Python package's public names, from its sources' docstrings.

Usage: scripts/api.py [--check]. Reads python/millstream; runs nothing of it.
"""

import ast
import re
from pathlib import Path

from pages import ROOT, write

PACKAGE = ROOT / "python/millstream"
HEAD = """# Python API

Every public name with its docstring; this page is written by `scripts/api.py`.
[Python](python.md) shows them at work. Units are those of the names: `…_ns` nanoseconds, `…_bps`
bits/s, `bytes` bytes without the link's overhead.
"""
#: Headings of Google-style docstrings.
SECTIONS = ("Args:", "Returns:", "Raises:")
#: Characters a line of a signature may have.
WIDTH = 90
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """A source file: its names and its lines."""

    def __init__(self, path: Path) -> None:
        """Parses it."""
        self.text = path.read_text()
        self.lines = self.text.splitlines()
        self.tree = ast.parse(self.text)
        self.names: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if isinstance(node, Function | ast.ClassDef):
                self.names[node.name] = node
            elif (target := assigned(node)) is not None:
                self.names[target] = node

    def remark(self, node: ast.stmt) -> str:
        """The ``#:`` lines above an attribute."""
        found: list[str] = []
        for line in reversed(self.lines[: node.lineno - 1]):
            if not line.strip().startswith("#:"):
                break
            found.insert(0, line.strip()[2:].strip())
        return " ".join(found)


def assigned(node: ast.stmt) -> str | None:
    """The name that a statement gives a value or a type."""
    if isinstance(node, ast.AnnAssign):
        target: ast.expr = node.target
    elif isinstance(node, ast.Assign):
        target = node.targets[0]
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def prose(text: str) -> str:
    """A docstring as Markdown."""
    made: list[str] = []
    section = code = False
    for line in re.sub(r"\.\. code-block:: \w+\n", "", text).splitlines():
        indented = line.startswith("    ") or line.startswith(">>>")
        example = line.startswith((">>>", "...")) or (code and bool(line.strip()))
        drawing = not section and line.startswith("    ")
        if (example or drawing) and not code:
            made += ["```text"]
            code = True
        elif code and not line.strip() and not drawing:
            made += ["```"]
            code = False
        if code:
            made.append(line.removeprefix("    ") if drawing else line)
        elif line.strip() in SECTIONS:
            section = True
            made += [f"*{line.strip()[:-1]}*", ""]
        elif section and indented:
            made.append(entry(line[4:]))
        else:
            section = section and not line
            made.append(line)
    if code:
        made.append("```")
    joined = "\n".join(made)
    joined = re.sub(r":(?:class|func|meth|mod|attr):`~?([^`]+)`", r"`\1`", joined)
    return re.sub(r"(?<!`)``([^`]+)``(?!`)", r"`\1`", joined).strip()


def entry(line: str) -> str:
    """A line of ``Args:`` and the like as part of a list."""
    if line.startswith("    "):
        return "  " + line.strip()
    name, colon, rest = line.partition(": ")
    if colon and re.fullmatch(r"[\w*.]+", name):
        return f"- `{name}`: {rest}"
    return f"- {line}"


def signature(node: Function, name: str) -> str:
    """How it is called, as one line or one line an argument."""
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(given.defaults))
    shown = [argument(*pair) for pair in zip(plain, [*defaults, *given.defaults], strict=True)]
    if plain and plain[0].arg in ("self", "cls"):
        shown = shown[1:]
    if given.vararg:
        shown.append("*" + argument(given.vararg, None))
    elif given.kwonlyargs:
        shown.append("*")
    shown += [argument(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg:
        shown.append("**" + argument(given.kwarg, None))
    end = ")" if node.returns is None else f") -> {ast.unparse(node.returns)}"
    text = f"{name}({', '.join(shown)}{end}"
    if len(text) > WIDTH:
        text = f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + end
    return text.replace("_millstream.", "")


def argument(given: ast.arg, default: ast.expr | None) -> str:
    """One argument."""
    kind = "" if given.annotation is None else f": {ast.unparse(given.annotation)}"
    if default is None:
        return given.arg + kind
    return f"{given.arg}{kind}{' = ' if kind else '='}{ast.unparse(default)}"


def described(node: ast.AST) -> str:
    """Its docstring."""
    assert isinstance(node, Function | ast.ClassDef | ast.Module)
    return prose(ast.get_docstring(node) or "")


def is_property(node: Function) -> bool:
    """Whether it is read without a call."""
    names = {ast.unparse(decorator) for decorator in node.decorator_list}
    return bool(names & {"property", "cached_property"})


def field(name: str, kind: ast.expr | None, said: str) -> str:
    """An attribute's line."""
    return f"- `{name}: {'Any' if kind is None else ast.unparse(kind)}`: {said}"


def function(node: Function, owner: str = "") -> str:
    """A function's or method's part."""
    if is_property(node):
        returned = "" if node.returns is None else f": {ast.unparse(node.returns)}"
        called = f"{owner}{node.name}{returned}"
    else:
        called = signature(node, f"{owner}{node.name}")
    heading = f"#### {owner}{node.name}\n\n" if owner else ""
    return f"{heading}```text\n{called}\n```\n\n{described(node)}\n"


def class_(node: ast.ClassDef, module: Module, stubs: Module) -> str:
    """A class's part: what it is, how it is made, its attributes and methods."""
    bases = [ast.unparse(base) for base in node.bases]
    parts = [f"### {node.name}\n", described(node) + "\n"]
    fields: list[str] = []
    methods: list[str] = []
    body = [(module, statement) for statement in node.body]
    for base in bases:
        if base.startswith("_millstream."):
            native = stubs.names[base.removeprefix("_millstream.")]
            assert isinstance(native, ast.ClassDef)
            body += [(stubs, statement) for statement in native.body]
    made = False
    for where, statement in body:
        if isinstance(statement, ast.FunctionDef):
            if statement.name in ("__init__", "__new__") and not made and where is module:
                made = True
                statement.returns = None
                parts.append(f"```text\n{signature(statement, node.name)}\n```\n")
                parts.append(described(statement) + "\n")
            elif statement.name.startswith("_"):
                continue
            elif is_property(statement) and "\n" not in described(statement):
                returned = statement.returns
                fields.append(field(statement.name, returned, described(statement)))
            else:
                methods.append(function(statement, f"{node.name}."))
        elif (name := assigned(statement)) is not None and not name.startswith("_"):
            assert isinstance(statement, ast.AnnAssign)
            fields.append(field(name, statement.annotation, prose(where.remark(statement))))
    if fields:
        parts.append("\n".join(fields) + "\n")
    return "\n".join(parts + methods)


def public(module: Module) -> list[str]:
    """The names of ``__all__``, or those without an underscore."""
    listed = module.names.get("__all__")
    if isinstance(listed, ast.Assign):
        names: list[str] = ast.literal_eval(listed.value)
        return names
    own = [name for name, node in module.names.items() if isinstance(node, Function | ast.ClassDef)]
    return [name for name in own if not name.startswith("_")]


def part(title: str, names: list[str], modules: list[Module], stubs: Module) -> str:
    """A module's part: its classes, functions and constants."""
    found = [title]
    for name in names:
        module = next((module for module in modules if name in module.names), None)
        if module is None:
            continue
        node = module.names[name]
        if isinstance(node, ast.ClassDef):
            found.append(class_(node, module, stubs))
        elif isinstance(node, Function):
            found.append(f"### {name}\n\n{function(node)}")
        elif remark := module.remark(node):
            found.append(f"### {name}\n\n{prose(remark)}\n")
    return "\n".join(found)


def page() -> str:
    """The page."""
    stubs = Module(PACKAGE / "_millstream.pyi")
    package = Module(PACKAGE / "__init__.py")
    files = [Module(PACKAGE / f"{name}.py") for name in ("scenario", "result", "scheduler")]
    first = ("Scenario", "Result", "Scheduler")
    listed = public(package)
    names = [*first, *(name for name in listed if name not in first)]
    parts = [HEAD, part("## millstream\n", names, [*files, stubs], stubs)]
    for name in ("sweep", "figures"):
        module = Module(PACKAGE / f"{name}.py")
        title = f"## millstream.{name}\n\n{described(module.tree)}\n"
        parts.append(part(title, public(module), [module], stubs))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


write({"api.md": page()})
