#!/usr/bin/env python3
"""Searches every state of a Promela model with spin, and compares its finding with the expected one.

Usage: check_model.py COMPILER MODEL EXPECTED [-DOPTION=VALUE]...

EXPECTED is "nothing"; or "no loop", which also requires that every execution ends; or what spin must report: the name of a
property or "invalid end state".
"""

import pathlib
import re
import subprocess
import sys
import tempfile

LONGEST_EXECUTION = "20000"  # in steps; deeper ones make the check fail


def run(*command, folder):
    """Returns what the command printed. Ends the check if it fails."""
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def search(compiler, model, expected, options, folder):
    """Returns the report of an exhaustive search, which stops at the first violation."""
    run("spin", *options, "-a", model, folder=folder)
    loops = expected == "no loop"
    speed = "-O1" if loops or expected == "nothing" else "-O0"  # a fault is found sooner than a compiler optimises
    kind = "-DNP" if loops else "-DSAFETY"
    run(compiler, "-x", "c", "-w", speed, "-DNOFAIR", kind, "-o", "pan", "pan.c", folder=folder)
    return run("./pan", "-n", f"-m{LONGEST_EXECUTION}", *(["-l"] if loops else []), folder=folder)


def outcome(report):
    """Returns the violation, or "nothing". Ends the check unless the search was complete."""
    first = re.search(r"^pan:1: (.*?)(?: \(at depth \d+\))?$", report, re.MULTILINE)
    if first:
        violated = re.fullmatch(r"assertion violated +!\((\w+)\)", first[1])
        return violated[1] if violated else first[1]
    if "errors: 0\n" not in report or "Full statespace search" not in report or "Search not completed" in report:
        sys.exit(f"The search did not end:\n{report}")
    return "nothing"


def main():
    compiler, model, expected, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        report = search(compiler, model, expected, options, folder)
        found = outcome(report)
        print("\n".join(line for line in report.splitlines() if re.match(r"pan:1|State-vector|.*states, stored", line)))
        if found == ("nothing" if expected == "no loop" else expected):
            return
        if found != "nothing":
            trail = next(pathlib.Path(folder).glob("*.trail"))
            print(run("spin", *options, "-t", "-k", trail, "-p", "-g", model, folder=folder))
        sys.exit(f"Expected: {expected}. Found: {found}.")


if __name__ == "__main__":
    main()
