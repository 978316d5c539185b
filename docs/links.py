#!/usr/bin/env python3
"""mdBook's preprocessor: links to other folders work in the sources and in the book.

papers/ is beside the pages in the book. A README elsewhere is no page of it: its folder is shown.
"""

import json
import re
import sys
from typing import Any


def mend(items: list[Any]) -> None:
    """Mends the links of chapters and of those below them."""
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter is not None:
            text = re.sub(r"\]\(\.\./\.\./papers/", "](papers/", chapter["content"])
            text = re.sub(r"\]\((papers/\w+/)README\.md", r"](\1index.md", text)
            text = re.sub(r"\]\((\.\./\.\./\w+/)README\.md[^)]*\)", r"](\1)", text)
            chapter["content"] = text
            mend(chapter["sub_items"])


if sys.argv[1:2] != ["supports"]:
    _context, book = json.load(sys.stdin)
    mend(book["items"] if "items" in book else book["sections"])
    json.dump(book, sys.stdout)
