#!/usr/bin/env python3
"""Holds the list of requirements against the test sources: each names tests, and each of these exists. Prints every fault."""

import pathlib
import re
import sys

LIST = "tests/requirements/README.md"

REQUIREMENT = re.compile(r"### ([A-Z]\d+)")
TEST = re.compile(r"- `([^`]+)`")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
MACRO = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)")
ADD_TEST = re.compile(r"\badd_test\(NAME ([\w.]+)")


def tests_of(root):
    """The names of all tests: of GoogleTest, without a parameter's, and of CMake. A disabled one is none."""
    names = set()
    for path in sorted((root / "tests").rglob("*")):
        if path.name == "CMakeLists.txt":
            names |= set(ADD_TEST.findall(path.read_text()))
        elif path.suffix in (".cpp", ".cu", ".hpp"):
            names |= {".".join(name) for name in MACRO.findall(COMMENT.sub("", path.read_text()))}
    return {name for name in names if not any(part.startswith("DISABLED_") for part in name.split("."))}


def faults(root):
    """One line for each rule that the list breaks."""
    root = pathlib.Path(root)
    known = tests_of(root)
    found = []
    sentences, shown = {}, {}  # by requirement
    current = None
    for number, line in enumerate((root / LIST).read_text().splitlines(), 1):
        problem = None
        if line.startswith("###"):
            match = REQUIREMENT.fullmatch(line)
            current = match[1] if match else None
            if not match:
                problem = "a requirement is written '### F12', and a sentence below it"
            elif current in shown:
                problem = f"{current} is there already: append to it"
            else:
                sentences[current], shown[current] = "", []
        elif line.startswith("#"):
            current = None
        elif line.startswith("-"):
            match = TEST.fullmatch(line)
            if not match or current is None:
                problem = "a test is written '- `Suite.Name`', below its requirement"
            elif match[1] in shown[current]:
                problem = f"{match[1]} stands twice below {current}"
            else:
                shown[current].append(match[1])
                problem = None if match[1] in known else f"there is no test {match[1]} in tests/"
        elif current is not None:
            sentences[current] += line
        if problem:
            found.append(f"{LIST}:{number}: {problem}")
    found += [f"{LIST}: {name} is no sentence" for name, text in sentences.items() if not text.endswith(".")]
    found += [f"{LIST}: no test shows {name}" for name, tests in shown.items() if not tests]
    return found if shown else [f"{LIST}: it has no requirement"]


if __name__ == "__main__":
    problems = faults(sys.argv[1])
    print("\n".join(problems) or "every requirement names tests, and all of them exist")
    sys.exit(1 if problems else 0)
