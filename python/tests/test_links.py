"""Every link of the pages and of the built book leads somewhere."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests_support import ROOT

#: Folders with Markdown that people read.
READ = ("", "docs/src", "papers/*", "examples/*", "rtl", "conformance", "benches/*/*")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def pages() -> list[Path]:
    folders = (*READ, "docs/src/*")
    return sorted({page for folder in folders for page in ROOT.glob(f"{folder}/*.md".lstrip("/"))})


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_pages_links_lead_to_files(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        address = urlsplit(link)
        if address.scheme or not address.path:
            continue
        assert (page.parent / unquote(address.path)).exists(), f"{page.name}: {link}"


class Html(HTMLParser):
    """A built page: where it points to, and where one can point to in it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            if value and (name == "src" or (name == "href" and tag == "a")):
                self.links.append(value)


def test_the_book_is_built_and_its_links_lead_somewhere(root: Path) -> None:
    built = subprocess.run(["mdbook", "build", root / "docs"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert "WARN" not in built.stderr and "ERROR" not in built.stderr, built.stderr
    book = root / "target/book"
    # The page for printing has all others' places under other names.
    read: dict[Path, Html] = {}
    for file in book.rglob("*.html"):
        if file.name not in ("print.html", "toc.html", "404.html"):
            read[file.resolve()] = Html(file)
    assert len(read) > 25
    for file, page in read.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme:
                continue
            target = (file.parent / unquote(address.path)).resolve() if address.path else file
            assert target.exists(), f"{file.name}: {link}"
            if address.fragment and target in read:
                places = read[target].places
                assert unquote(address.fragment) in places, f"{file.name}: {link}"
