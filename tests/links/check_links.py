#!/usr/bin/env python3
"""Checks that links resolve: those of the Markdown files of a source tree, or those of the generated documentation site.

check_links.py SOURCE       prints each relative link of a Markdown file whose file or heading does not exist
check_links.py --site SITE SOURCE
                            prints each link of a page whose file or anchor does not exist, each resource from the network, and
                            each public header without a page
"""

import html.parser
import os
import pathlib
import re
import sys
import urllib.parse

SKIPPED = ("build", ".git", ".cache")
# Attributes by which a page loads something, and those by which it links to something.
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
LINKS = LOADS | {"a": "href", "area": "href"}


def import_site(root):
    """Imports the modules that build the site from `root`."""
    sys.path.insert(0, str(root / "docs/site"))
    import build
    import markdown
    return build, markdown


def markdown_findings(root, markdown):
    """Returns a line for each relative link of a Markdown file under `root` that leads nowhere."""
    found = []
    files = [path for path in sorted(root.rglob("*.md")) if path.relative_to(root).parts[0] not in SKIPPED]
    for path in files:
        for line, target in markdown.links(path.read_text()):
            if not markdown.is_local(target):
                continue
            name, _, anchor = target.partition("#")
            file = pathlib.Path(os.path.normpath(path.parent / name)) if name else path
            where = f"{path.relative_to(root)}:{line}: {target}"
            if not file.exists() or not file.is_relative_to(root):
                found.append(f"{where}: the file does not exist")
            elif anchor and (file.suffix != ".md" or anchor not in markdown.anchors(file.read_text())):
                found.append(f"{where}: the heading does not exist")
    return found


class Page(html.parser.HTMLParser):
    """The anchors and links of a page."""

    def __init__(self, text):
        super().__init__()
        self.anchors = set()
        self.links = []  # (line, target, whether it is loaded)
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        if target := values.get(LINKS.get(tag)):
            self.links.append((self.getpos()[0], target, tag in LOADS))


def style_links(text):
    """Yields what a style sheet loads."""
    for target in re.findall(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""", text):
        yield target[0] or target[1]


def navigation_links(text):
    """Yields the pages that the tree at the left and the search results link to."""
    for target in re.findall(r"""["']((?:\.\./)*[\w.-]+\.html(?:#[\w:.~-]*)?)["']""", text):
        yield target


def site_findings(site, headers):
    """Returns a line for each link of the site that leads nowhere, each resource from the network, each header without a page."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    links = [(path, *link) for path, page in pages.items() for link in page.links]
    links += [(path, 1, target, True) for path in sorted(site.rglob("*.css")) for target in style_links(path.read_text())]
    for path in sorted(site.rglob("*.js")):
        links += [(path, 1, target, False) for target in navigation_links(path.read_text())]
    # A style sheet may name a file for another one, in a variable: the path is then relative to the other.
    files = {path.name for path in site.rglob("*")}
    found = []
    for path, line, target, loaded in links:
        where = f"{path.relative_to(site)}:{line}: {target}"
        if re.match(r"(?:[a-z][a-z0-9+.-]*:|//)", target):
            if loaded and not target.startswith(("data:", "javascript:")):
                found.append(f"{where}: is loaded from elsewhere")
            continue
        name, _, anchor = urllib.parse.unquote(target).partition("#")
        file = pathlib.Path(os.path.normpath(path.parent / name)) if name else path
        if not file.is_file() and not (path.suffix == ".css" and file.name in files):
            found.append(f"{where}: the file does not exist")
        elif anchor and file in pages and anchor not in pages[file].anchors:
            found.append(f"{where}: the anchor does not exist")
    shown = set(re.findall(r'href="([^"]+)"', (site / "files.html").read_text())) if (site / "files.html").is_file() else set()
    for header in headers:
        # Doxygen names the page of a header by its path, as short as the others allow.
        name = re.sub(r"[./_]", lambda m: {".": "_8", "/": "_2", "_": "__"}[m[0]], header)
        ends = {name[start:] + ".html" for start in [0, *(m.end() for m in re.finditer("_2", name))]}
        if not shown & ends:
            found.append(f"{header}: is on no page")
    return found


def main(arguments):
    site = pathlib.Path(arguments[1]).resolve() if arguments[0] == "--site" else None
    root = pathlib.Path(arguments[-1]).resolve()
    build, markdown = import_site(root)
    if site and not site.is_dir():
        print("The site was not built.")
        return build.SKIPPED
    problems = site_findings(site, build.public_headers(root)) if site else markdown_findings(root, markdown)
    print("\n".join(problems) or "every link resolves")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
