#!/usr/bin/env python3
"""Runs CTest and prints a line for each test program and failures in full. At the end it prints the failed tests once more, with
the last lines of each, and the counts of test cases.

Usage: tools/run_tests.py BUILD_FOLDER [ctest option]..."""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

LISTED = re.compile(r"^ *Test +#\d+: (.+)$")
# The time is in the next line if a regular expression was not found.
RESULT = re.compile(r"^ *\d+/\d+ Test +#\d+: (.*?) \.*([* ]*[A-Z][\w ()]*?)(?: +([\d.]+) sec|  [A-Z].*)")
STARTED = re.compile(r"^ *Start +\d+: ")
END = re.compile(r"^\d+% tests passed, ")
# By default CTest's report has the first KiB of a test's output, and the counts are at its end.
COMPLETE = ["--test-output-size-passed", "10000000", "--test-output-size-failed", "10000000"]
TAIL = 20  # lines of a failed test that are printed once more at the end
SUMMARY = re.compile(r"^\[ +(PASSED|SKIPPED|FAILED) +\] (\d+) tests?(?:\.|, listed below:)$", re.MULTILINE)


def program_of(test):
    """Returns the test program of a CTest test: the name up to the first dot."""
    return test.partition(".")[0]


def count_cases(report):
    """Counts the passed, failed and skipped cases in a report by CTest. A test that is not a GoogleTest program is one case."""
    counts = collections.Counter()
    for test in xml.etree.ElementTree.parse(report).iter("testcase"):
        status, reason = test.get("status"), test.find("skipped")
        passed = status == "run"
        cases = collections.Counter()
        for kind, number in SUMMARY.findall(test.findtext("system-out", "")):
            cases[kind.lower()] += int(number)
        if not cases or passed == bool(cases["failed"]):  # not a GoogleTest program, or one that died, or one that must fail
            # A program that is missing was not run, either, for another reason.
            skipped = status == "disabled" or reason is not None and reason.get("message", "").startswith("SKIP_")
            cases = collections.Counter(["passed" if passed else "skipped" if skipped else "failed"])
        counts += cases
    return counts


def run(folder, options, report):
    """Runs CTest, which writes `report` when it ends. Returns its exit status."""
    ctest = ["ctest", "--test-dir", folder, *options]
    # CTest 4 fails here if a program is missing; the tests themselves tell which.
    listed = subprocess.run([*ctest, "-N"], stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()
    left = collections.Counter(program_of(match[1]) for match in map(LISTED.match, listed) if match)
    programs, done, seconds, start = len(left), 0, collections.Counter(), time.monotonic()
    width = max(map(len, left), default=0)
    failed = collections.Counter()
    tails = []  # of each failed test: its first line and its last lines
    process = subprocess.Popen([*ctest, "--output-on-failure", *COMPLETE, "--output-junit", report], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    shown = False  # whether the following lines belong to a failed test
    for line in process.stdout:
        if STARTED.match(line):
            continue
        match = RESULT.match(line)
        if not match:
            shown = shown and not END.match(line)
            if shown:
                print(line, end="")
                tails[-1][1].append(line)
            continue
        test, result, took = match[1], match[2].strip(), float(match[3] or 0)
        program = program_of(test)
        shown = result.lstrip("*") not in ("Passed", "Skipped", "Not Run (Disabled)")
        if shown:
            failed[program] += 1
            title = f"{test}: {result.lstrip('*')}"
            print(title)
            tails.append((title, collections.deque(maxlen=TAIL)))
        left[program] -= 1
        seconds[program] += took
        if not left[program]:
            done += 1
            verdict = f"{failed[program]} FAILED" if failed[program] else "passed"
            print(f"[{done}/{programs}] {program:{width}} {verdict:8} {seconds[program]:6.1f} s", flush=True)
    status = process.wait()
    counts = count_cases(report) if left and pathlib.Path(report).is_file() else collections.Counter()
    if status and not counts["failed"]:
        counts["failed"] = 1  # CTest itself failed
    for title, tail in tails:
        print(f"Failed test: {title}", *(f"    {line.rstrip()}" for line in tail if line.strip()), sep="\n")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped in {programs} test programs "
          f"({time.monotonic() - start:.0f} s)")
    return status


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if len(sys.argv) > 1 else 2)
    with tempfile.TemporaryDirectory() as own:  # another CTest may run in the build folder meanwhile
        sys.exit(run(sys.argv[1], sys.argv[2:], f"{own}/report.xml"))
