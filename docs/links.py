#!/usr/bin/env python3
"""mdBook preprocessor that makes links to other directories work in the sources and in the book.

The book holds papers/ beside its own pages. A README elsewhere is no page of the book: links to it
point to its directory.
"""

import json
import re
import sys
from typing import Any


def rewrite_links(items: list[Any]) -> None:
    """Rewrites the links of chapters and of their sub-chapters."""
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter is not None:
            # From a page in a sub-directory of the book, papers/ is one directory up.
            text = re.sub(r"\]\(\.\./\.\./\.\./papers/", "](../papers/", chapter["content"])
            text = re.sub(r"\]\(\.\./\.\./papers/", "](papers/", text)
            text = re.sub(r"\]\(((?:\.\./)?papers/\w+/)README\.md", r"](\1index.md", text)
            text = re.sub(r"\]\(((?:\.\./){2,3}\w+/)README\.md[^)]*\)", r"](\1)", text)
            chapter["content"] = text
            rewrite_links(chapter["sub_items"])


if sys.argv[1:2] != ["supports"]:
    _context, book = json.load(sys.stdin)
    rewrite_links(book["items"] if "items" in book else book["sections"])
    json.dump(book, sys.stdout)
