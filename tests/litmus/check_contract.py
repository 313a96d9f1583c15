"""Checks that docs/memory-order.md and the litmus tests name each other.

Usage: check_contract.py <repository>. Prints every error, and fails if there is one.
"""

import pathlib
import re
import sys

CONTRACT, PRIMITIVES = "## The contract", "## The primitives"
NAME = re.compile(r"`([^`]+)`")
LINE = "what is visible | to which observer | primitive | test | found when weakened".split(" | ")


def rows(document, heading, columns):
    """Returns the cells of every table row below a heading, up to the next heading of its rank."""
    section = document.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")]
             for line in section.splitlines() if line.startswith("|")]
    return [row for row in cells if len(row) == columns and not set(row[0]) <= set("-: ") and row != LINE]


def tests_of(sources):
    return {f"{suite}.{name}" for source in sources for suite, name in re.findall(r"^TEST\((\w+), (\w+)\)", source, re.M)}


def weakened_of(cmake):
    """Returns the pairs of a primitive and a test that must detect its weakening."""
    return {(call.split()[0], test) for call in re.findall(r"^ *weak_primitive\(([^)]*)\)", cmake, re.M)
            for test in call.split()[1:]}


def complaints(document, sources, cmake):
    tests, weakened = tests_of(sources), weakened_of(cmake)
    primitives = {name for row in rows(document, PRIMITIVES, 4) for name in NAME.findall(row[0])}
    named, found = set(), set()
    lines = rows(document, CONTRACT, len(LINE))
    if not lines or not primitives:
        yield f"no lines below '{CONTRACT}', or none below '{PRIMITIVES}'"
    for what, reader, used, test, weak in lines:
        names = NAME.findall(test)
        if not reader and not test:  # a heading within the table
            continue
        if not names:
            yield f"'{what}' names no test"
        for name in names:
            if name not in tests:
                yield f"'{what}' names {name}, which is no test"
        for name in NAME.findall(used):
            if name not in primitives:
                yield f"'{what}' uses {name}, which is no primitive"
        named.update(names)
        found.update((primitive, name) for primitive in NAME.findall(weak) for name in names)
    for test in sorted(tests - named):
        yield f"{test} belongs to no line"
    for primitive, test in sorted(found ^ weakened):
        yield f"{primitive} weakened, found by {test}: named by the {'document' if (primitive, test) in found else 'tests'} only"


def main():
    root = pathlib.Path(sys.argv[1])
    folder = root / "tests/litmus"
    wrong = list(complaints((root / "docs/memory-order.md").read_text(),
                            [path.read_text() for path in sorted(folder.glob("*_test.cpp"))],
                            (folder / "CMakeLists.txt").read_text()))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
