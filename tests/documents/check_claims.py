#!/usr/bin/env python3
"""Holds what the documents say of speed against what was measured: a figure has its machine, its command and its date, and
nothing is praised. Prints every fault."""

import pathlib
import re
import sys

DOCUMENTS = ("README.md", "CHANGELOG.md", "bench/README.md", "docs/**/*.md", "include/**/README.md", "examples/**/README.md")
MEASURED = "docs/performance.md"  # where own figures stand
PUBLISHED = "docs/hardware.md"  # where those of others stand, each with its source

# What no table of anybody's has shown, or could.
PRAISE = re.compile(
    r"sub-?micro-?second|\b(?:zero|no)[- ](?:overhead|latency)|blazing|lightning|ultra-?(?:fast|low)|(?:lowest|unmatched|unrivall?ed)"
    r"[- ](?:latency|performance)|(?:line|wire)[- ](?:rate|speed) performance|state[- ]of[- ]the[- ]art|world-?class|revolutionary",
    re.IGNORECASE)
RATE = re.compile(r"\d[\d,.]* ?(?:[KMGT]i?B/s|[KMGT]b/s|[MG]bps|M/s|Mpps|million (?:messages|writes|posts) a second)")
SOURCE = re.compile(r"\[\d+\]|source \d+")
TABLE = re.compile(r"^\|.*\d", re.MULTILINE)
COMMAND = re.compile(r"`[^`\n]*(?:\w_benchmark\b|\bbench/\w|\btools/\w|\bwarpverbs-perf\b)[^`\n]*`")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}|same machine and day", re.IGNORECASE)
MACHINE = re.compile(r"\bmachine\b|\bNVIDIA\b|\bIntel\b|\bAMD\b", re.IGNORECASE)
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}


def sections(text):
    """The text before the first heading, and a title and a text for each of the second rank."""
    introduction, *rest = re.split(r"^## ", text, flags=re.MULTILINE)
    return introduction, [part.partition("\n")[::2] for part in rest]


def unmeasured(text):
    """The sections whose tables do not say where, how or when, each with what they lack. The introduction may say where and when
    for the first of them: "Machine of the first four: ... Date: ..."."""
    introduction, parts = sections(text)
    of_first = re.search(r"Machine of the first (\w+):", introduction)
    said = NUMBERS.get(of_first[1], 0) if of_first and DATE.search(introduction) else 0
    for index, (title, body) in enumerate(parts):
        if not TABLE.search(body):
            continue
        if not COMMAND.search(body):
            yield title, "the command"
        if index < said:
            continue
        if not MACHINE.search(body):
            yield title, "the machine"
        if not DATE.search(body):
            yield title, "the date"


def faults(root):
    """One line for each rule that a document breaks."""
    root = pathlib.Path(root)
    found = []
    for path in sorted({path for pattern in DOCUMENTS for path in root.glob(pattern)}):
        name = path.relative_to(root).as_posix()
        text = path.read_text()
        for number, line in enumerate(text.splitlines(), 1):
            where = f"{name}:{number}"
            if praise := PRAISE.search(line):
                found.append(f"{where}: '{praise[0]}' is praise that no figure here supports: say what was measured, or nothing")
            rate = RATE.search(line)
            if rate and name not in (MEASURED, PUBLISHED):
                found.append(f"{where}: '{rate[0]}' is a figure: it belongs into {MEASURED}, with machine, command and date")
            if rate and name == PUBLISHED and not SOURCE.search(line):
                found.append(f"{where}: '{rate[0]}' is somebody's figure: name the source, as [1]")
        if name == MEASURED:
            found += [f"{name}: '{title}' has figures, but not {what} that they are of" for title, what in unmeasured(text)]
    return found


if __name__ == "__main__":
    problems = faults(sys.argv[1])
    print("\n".join(problems) or "every figure has its machine, its command and its date, and nothing is praised")
    sys.exit(1 if problems else 0)
