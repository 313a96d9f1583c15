"""Headings, anchors and links of the project's Markdown files."""

import re

FENCE = re.compile(r"^\s*(```+|~~~+)")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
# Code spans are matched to be skipped; the target of a link is group 2.
LINK = re.compile(r"(`+)(?:(?!\1).)+?\1(?!`)|\]\(<?([^)\s>]+)>?\)")


def is_local(target):
    """Whether a link leads to a file of the tree or to a heading of its own page."""
    return not re.match(r"[a-z][a-z0-9+.-]*:", target)


def prose(text):
    """Yields (index, line) for the lines outside fenced code."""
    fence = None
    for index, line in enumerate(text.split("\n")):
        found = FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence):
                fence = None
        elif found:
            fence = found[1]
        else:
            yield index, line


def slug(heading, used):
    """Returns the anchor that GitHub gives to a heading, and remembers it in `used`, a dict."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    base = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    count = used.get(base, 0)
    used[base] = count + 1
    return f"{base}-{count}" if count else base


def headings(text):
    """Returns (line index, level, heading, anchor) for each heading."""
    used = {}
    return [(index, len(found[1]), found[2], slug(found[2], used))
            for index, line in prose(text) if (found := HEADING.match(line))]


def anchors(text):
    """Returns the anchors of all headings."""
    return {anchor for *_, anchor in headings(text)}


def links(text):
    """Returns (line number, target) for each link."""
    return [(index + 1, found[2]) for index, line in prose(text) for found in LINK.finditer(line) if found[2]]
