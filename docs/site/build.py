#!/usr/bin/env python3
"""Builds the documentation site with doxygen: the pages that index.md reaches by links, and the reference of the public headers.

Doxygen reads a copy of the pages and headers: in it, links lead to doxygen's pages, and each header has a description of its own.
Prints doxygen's warnings; the exit status is 1 if there are any, and 77 if doxygen or its style sheet is not installed.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

import markdown

SITE = "docs/site"
HEADERS = "include/warpverbs"
CONTROL = "src/softhca/control/softhca_control.h"
BY_MACROS = "include/warpverbs/device_abi.h"  # macros declare its functions, so its page is its text
THEME = pathlib.Path("/usr/share/doxygen-awesome-css")
STYLES = ("doxygen-awesome.css", "doxygen-awesome-sidebar-only.css")
# Pages at the top of the tree of pages, in its order. Any other page is below the first page that links to it.
TOP = ("README.md", "docs/README.md", "examples/README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
TITLES = {"README.md": "Overview"}
CODE = (".cpp", ".hpp", ".h", ".cu", ".hip", ".pml", ".py")
SKIPPED = 77


def label(name):
    """Returns doxygen's name of the page of a file."""
    return re.sub(r"[^A-Za-z0-9]+", "_", name.removesuffix(".md")).strip("_")


def public_headers(root):
    """Returns the headers of the reference: those that a program may include, relative to `root`."""
    found = sorted(path.relative_to(root) for path in (root / HEADERS).rglob("*.h*"))
    return [str(path) for path in found if "detail" not in path.parts and str(path) != BY_MACROS] + [CONTROL]


def descriptions(root):
    """Returns the description of each header in the tables of the headers' README."""
    found = {}
    for line in (root / HEADERS / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if name := re.fullmatch(r"\[.*\]\(([a-z0-9_/]+\.h(?:pp)?)\)", cells[0]):
            found[f"{HEADERS}/{name[1]}"] = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cells[1])
    return found


class Pages:
    """The pages that are reached by links, and the tree that they form."""

    def __init__(self, root, headers):
        self.root = root
        self.headers = headers
        self.children = {}
        self.pages = {}  # name of a file or folder: its text, or None if it is code
        queue = [f"{SITE}/index.md", *(name for name in TOP if (root / name).exists())]
        self.top = list(queue)
        for name in queue:
            text = self.pages[name] = (root / name).read_text() if name.endswith(".md") else None
            for _, target in markdown.links(text or ""):
                page = self.page_of(name, target)
                if page and page not in queue:
                    queue.append(page)
        # The guides and the examples claim their pages first; then each page claims those that no other has.
        claimed = {*self.top, None}
        for name in ["docs/README.md", "examples/README.md", *queue[1:], queue[0]]:
            for _, target in markdown.links(self.pages.get(name) or ""):
                page = self.page_of(name, target)
                if page not in claimed:
                    claimed.add(page)
                    self.children.setdefault(name, []).append(page)

    def file_of(self, name, target):
        """Returns what a link in the page `name` leads to, relative to the root, or None if it leaves the tree."""
        if not markdown.is_local(target):
            return None
        path = target.partition("#")[0]
        file = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        return f"{file}/README.md" if (self.root / file / "README.md").is_file() else file

    def page_of(self, name, target):
        """Returns the file or folder whose page a link leads to, or None if it leads to the reference or elsewhere."""
        file = self.file_of(name, target)
        is_module = file and (self.root / file).is_dir() and file.startswith(f"{HEADERS}/")
        return None if is_module or file in self.headers else file

    def url_of(self, name, target):
        """Returns the target of a link in doxygen's words."""
        file = self.file_of(name, target)
        if file is None:
            return target
        if file in self.headers:
            return f"@ref {pathlib.Path(file).relative_to('include') if file != CONTROL else pathlib.Path(CONTROL).name}"
        if self.page_of(name, target) is None:
            return f"@ref {file.removeprefix('include/').replace('/', '::')}"
        anchor = target.partition("#")[2]
        return f"@ref {label(file)}" + (f"__{anchor}" if anchor else "")

    def stage(self, name):
        """Returns the text of a page for doxygen."""
        text = self.pages[name]
        if text is None:
            return self.stage_code(name)
        lines = text.split("\n")
        for index, line in markdown.prose(text):
            lines[index] = self.stage_line(name, line)
        for index, level, heading, anchor in markdown.headings(text):
            own = "mainpage" if name == self.top[0] else label(name)
            lines[index] = f"{'#' * level} {heading} {{#{own if level == 1 else f'{label(name)}__{anchor}'}}}"
        text = "\n".join(lines)
        text = re.sub(r"^```(\w*)$(.*?)^```$", self.stage_fence, text, flags=re.MULTILINE | re.DOTALL)
        if name in TITLES:
            text = re.sub(r"^# .*?(?= \{#)", f"# {TITLES[name]}", text)
        children = "".join(f"@subpage {label(child)}\n" for child in self.children.get(name, ()))
        return f'{text}\n<div class="subpages">\n{children}</div>\n' if children else text

    @staticmethod
    def stage_fence(found):
        language = {"c": "c", "cpp": "cpp", "python": "py", "": "unparsed", "sh": "unparsed", "cmake": "unparsed"}[found[1]]
        return f"```{{.{language}}}{found[2]}```"

    def stage_line(self, name, line):
        def replace(found):
            if found[2]:
                return f"]({self.url_of(name, found[2])})"
            span = found[0]
            # Doxygen ends a code span at an apostrophe, except in double backquotes.
            return f"`{span}`" if "'" in span and not span.startswith("``") else span
        # A word that begins with # is no reference.
        line = re.sub(r"\[`([^`]+)`\]\(", r"[\1](", line)  # doxygen shows the backquotes of a link's text
        return re.sub(r"(?<![\w\\&(`])#(?=\w)", r"\\#", markdown.LINK.sub(replace, line))

    def stage_code(self, name):
        """Returns a page with the code of a file, or of the files of a folder."""
        path = self.root / name
        files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
        lines = [f"# {path.name} {{#{label(name)}}}", "", f"`{name}`", ""]
        for file in files:
            where = file.relative_to(self.root)
            if path.is_dir():
                lines += [f"## {file.name} {{#{label(name)}__{label(file.name)}}}", ""]
            command = "@include{lineno}" if file.suffix in CODE else "@verbinclude"
            lines += [f"{command} {where}", ""]
        return "\n".join(lines)


def stage_header(text, name, description):
    """Returns a header for doxygen: without the ABI's namespace, and with its first docstring as that of the file."""
    text = text.replace("::inline v0_2", "")
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if re.match(r"namespace |#ifdef __cplusplus", line):
            first = index
            while lines[first - 1].startswith("///"):
                first -= 1
            if first < index:
                lines[first - 1] = "/// @file"
                description = description or None
            break
    if description:
        description = description.replace("*/", "")
        lines[0] = f"/** @brief {description[0].upper()}{description[1:]}. @file */ {lines[0]}"
    elif lines[first - 1] != "/// @file":
        raise SystemExit(f"{name} is in no table of {HEADERS}/README.md. Add a row for it.")
    return "\n".join(lines)


def stage(root, folder):
    """Writes the copies that doxygen reads to `folder`."""
    headers = public_headers(root)
    described = descriptions(root)
    for name in headers:
        copy = folder / (pathlib.Path(name).name if name == CONTROL else pathlib.Path(name).relative_to("include"))
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(stage_header((root / name).read_text(), name, described.get(name)))
    pages = Pages(root, set(headers))
    for index, name in enumerate(pages.pages):
        copy = folder / "pages" / f"{index:03}_{label(name)}.md"  # doxygen sorts pages by file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(pages.stage(name))
    shutil.copy(root / SITE / "modules.dox", folder)


def mend(site):
    """Removes the anchors from links to members that doxygen lists but does not describe, and the links to empty sections."""
    anchors = {path.name: set(re.findall(r'(?:id|name)="([^"]+)"', path.read_text())) for path in site.glob("*.html")}
    for path in [*site.rglob("*.js"), *site.glob("*.html")]:
        text = path.read_text()
        mended = re.sub(r"([\w.-]+\.html)#([\w-]+)",
                        lambda link: link[0] if link[2] in anchors.get(link[1], {link[2]}) else link[1], text)
        mended = re.sub(r'<a href="#([\w-]+)">[^<]*</a>(?: &#124;\s*)?',
                        lambda link: link[0] if link[1] in anchors.get(path.name, {link[1]}) else "", mended)
        if mended != text:
            path.write_text(mended)
    with open(site / "search/search.css", "a") as file:  # the results are a page of their own, with a style sheet of its own
        file.write("\n.SRPage .SRResult, .SRPage .SRResult a { font-size: 10.5pt; line-height: 1.5; }\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path, help="the source tree")
    parser.add_argument("output", type=pathlib.Path, help="the folder to write; its former contents are removed")
    arguments = parser.parse_args()
    root, output = arguments.root.resolve(), arguments.output.resolve()
    if not shutil.which("doxygen") or not THEME.is_dir():
        print("doxygen or doxygen-awesome-css is not installed. Run tools/docs, which installs them.")
        return SKIPPED
    shutil.rmtree(output, ignore_errors=True)
    staged = output.parent / f"{output.name}-staged"
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    stage(root, staged)
    version = ".".join(re.findall(r"#define WARPVERBS_VERSION_\w+ (\d+)", (root / HEADERS / "version.hpp").read_text()))
    settings = (root / SITE / "Doxyfile").read_text() + f"""
PROJECT_NUMBER = {version}
INPUT = "{staged}"
STRIP_FROM_PATH = "{staged}"
STRIP_FROM_INC_PATH = "{staged}"
EXAMPLE_PATH = "{root}"
LAYOUT_FILE = "{root / SITE / 'layout.xml'}"
HTML_EXTRA_STYLESHEET = {' '.join(f'"{THEME / name}"' for name in STYLES)} "{root / SITE / 'style.css'}"
OUTPUT_DIRECTORY = "{output.parent}"
HTML_OUTPUT = "{output.name}"
"""
    done = subprocess.run(["doxygen", "-"], input=settings, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    # Every public type needs a docstring. Members whose names say it all need none.
    lines = [line.replace(f"{staged}/", "") for line in dict.fromkeys(done.stdout.splitlines())]
    problems = [line for line in lines if not re.search(r": warning: Member .* is not documented\.$", line)]
    mend(output)
    shutil.rmtree(staged)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if done.returncode or problems else 0


if __name__ == "__main__":
    sys.exit(main())
