#!/usr/bin/env python3
"""Checks what shared libraries export.

Usage: check_exports.py NAMESPACE LIBRARY... [--c LIBRARY...]

The first libraries may export only C++ symbols of NAMESPACE, such as warpverbs::v0_2, and variables of Asio. Those after --c may
export only C symbols."""

import re
import subprocess
import sys


# Variables that a program shares with the library: the caches of a thread, identities of services, error categories.
ASIO = r"_Z(GV)?(N4asio6detail.*(4top_|6value_|2id)E|ZN4asio.*8instance)$"


def mangled(namespace):
    """Returns a pattern for mangled functions, objects, vtables, type information and thunks of a namespace."""
    parts = "".join(f"{len(part)}{part}" for part in namespace.split("::"))
    return re.compile(rf"_Z(T[VTIS]|Thn\d+_)?NK?{parts}|{ASIO}")


def exports(library):
    """Returns the names that a library defines for others, without symbol versions."""
    nm = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    symbols = (line.split() for line in nm.stdout.splitlines())
    return [name.split("@")[0] for _, kind, name in symbols if kind != "A"]


def main(namespace, *libraries):
    allowed = mangled(namespace)
    failed = False
    for library in libraries:
        if library == "--c":
            allowed = re.compile(r"(?!_Z)")
            continue
        names = exports(library)
        wrong = [name for name in names if not allowed.match(name)]
        print(f"{library}: {len(names)} symbols, {len(wrong)} of them unexpected")
        for name in wrong:
            print(f"  {name}")
        failed = failed or bool(wrong) or not names
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
