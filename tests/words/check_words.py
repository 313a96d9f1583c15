#!/usr/bin/env python3
"""Finds wording that a native reader stumbles over, as far as a machine can tell. Prints every line that has some."""

import pathlib
import re
import sys

FILES = ("*.hpp", "*.h", "*.cpp", "*.cu", "*.hip", "*.py", "*.sh", "*.md", "*.cmake", "*.in", "CMakeLists.txt", "CMakePresets.json",
         "tools/*", ".ci/*", "bench/*")
SKIPPED = ("build", ".git")

RULES = (
    # "Who never waits ..." and "of who", but neither a question nor "a poster who waits".
    ("name the actor", re.compile(
        r"(?:(?:^|[.:;(]|[/#*-] ) *Who\b(?![^.]*\?)|\b(?:to|of|by|for|from|with|and|or|than|not|is|are|tells?|only) who\b)")),
    ("name the actor", re.compile(r"\b(?:whom|whoever)\b", re.IGNORECASE)),
    ("say expensive", re.compile(r"\bdear(?:er|est)?\b", re.IGNORECASE)),
    ("say again", re.compile(r"\banew\b", re.IGNORECASE)),
    ("say forever", re.compile(r"\bfor ever\b", re.IGNORECASE)),
    ("say that it does not exist, or is invalid", re.compile(r"\bthere is no such\b", re.IGNORECASE)),
    ("write a noun phrase that stands alone", re.compile(r"///< *(?:of|by|as|what|who|whose)\b", re.IGNORECASE)),
)


def findings(root):
    """One line for each line of a file under `root` that breaks a rule."""
    root = pathlib.Path(root).resolve()
    found = []
    for path in sorted({path for pattern in FILES for path in root.rglob(pattern)}):
        name = path.relative_to(root)
        if name.parts[0] in SKIPPED or name.parts[:2] == ("tests", "words") or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found += [f"{name}:{number}: {remedy}: {line.strip()}" for remedy, rule in RULES if rule.search(line)]
    return found


if __name__ == "__main__":
    problems = findings(sys.argv[1])
    print("\n".join(problems) or "no wording that a machine can object to")
    sys.exit(1 if problems else 0)
