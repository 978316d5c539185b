"""Every link in the pages and in the built book has a target."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests_support import ROOT

#: Folders of Markdown pages.
READ = ("", "docs/src", "papers/*", "examples/*", "rtl", "conformance", "benches/*/*")
LINK = re.compile(r"\]\(([^)\s]+)\)")
#: Figures that ``make figures`` draws; they are not part of the repository.
FIGURES = {
    Path("papers", line.split()[1]) for line in (ROOT / "papers/DIGESTS").read_text().splitlines()
}


def exists(target: Path, root: Path) -> bool:
    """Whether a target exists under ``root``, or would after ``make figures``."""
    return target.exists() or target.relative_to(root) in FIGURES


def pages() -> list[Path]:
    folders = (*READ, "docs/src/*")
    return sorted({page for folder in folders for page in ROOT.glob(f"{folder}/*.md".lstrip("/"))})


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_pages_lead_to_files(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        address = urlsplit(link)
        if address.scheme or not address.path:
            continue
        target = (page.parent / unquote(address.path)).resolve()
        assert exists(target, ROOT), f"{page.name}: {link}"


class Html(HTMLParser):
    """The links and anchors of a built page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if value and (name == "src" or (name == "href" and tag == "a")):
                self.links.append(value)


def test_links_of_the_built_book_have_targets(root: Path) -> None:
    built = subprocess.run(["mdbook", "build", root / "docs"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert "WARN" not in built.stderr and "ERROR" not in built.stderr, built.stderr
    book = (root / "target/book").resolve()
    # The print page repeats the anchors of all other pages under other names.
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
            assert exists(target, book), f"{file.name}: {link}"
            if address.fragment and target in read:
                anchors = read[target].anchors
                assert unquote(address.fragment) in anchors, f"{file.name}: {link}"
