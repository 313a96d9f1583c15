"""Runs pyverbs' own tests, of Debian's package rdma-core, on a software HCA.

    run_pyverbs.py --softhca PATH

The tests skip by themselves what a device says that it lacks. Fails if a test outside KNOWN_FAILURES fails, or if fewer than
LEAST_PASSED pass. Exit status: 77 if the tests are not installed.
"""

import argparse
import gzip
import pathlib
import re
import subprocess
import sys
import tempfile

TESTS = pathlib.Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"  # which has pyverbs
KNOWN_FAILURES = {"test_multi_process_alloc_dm"}  # a forked child uses its parent's device: docs/softhca.md, limits
LEAST_PASSED = 140  # of rdma-core 44's 273
FAILED = re.compile(r"^(?:FAIL|ERROR): (\S+) ", re.MULTILINE)
SUMMARY = re.compile(r"^Ran (?P<ran>\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((?P<counts>.*)\))?$", re.MULTILINE)
LIMIT = "280"  # seconds; an idle machine takes 12


def unpack(folder):
    """Copies the tests, which Debian has compressed."""
    for path in TESTS.iterdir():
        target = folder / path.name.removesuffix(".gz")
        target.write_bytes(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--softhca", required=True)
    softhca = pathlib.Path(options.parse_args().softhca).resolve()
    if not TESTS.is_dir() or subprocess.run([PYTHON, "-c", "import pyverbs.device"], capture_output=True).returncode != 0:
        print("skipped: Debian's packages python3-pyverbs and rdma-core are not installed")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        tests = pathlib.Path(folder, "tests")
        tests.mkdir()
        unpack(tests)
        command = ["timeout", LIMIT, softhca, "--devices", "2", "--", PYTHON, "-B", "tests/run_tests.py", "--dev", "mlx5_0", "-v"]
        ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    outcome = SUMMARY.search(ran.stdout)
    if outcome is None:
        print(ran.stdout)
        print("failed: the tests did not end")
        return 1
    failed = FAILED.findall(ran.stdout)
    counts = {name: int(count) for name, count in re.findall(r"([a-z][a-z ]*)=(\d+)", outcome["counts"] or "")}
    passed = int(outcome["ran"]) - sum(counts.values())
    print(f"{passed} passed, {len(failed)} failed, {counts.get('skipped', 0)} skipped")
    unexpected = sorted(set(failed) - KNOWN_FAILURES)
    ended = ran.returncode == (1 if failed else 0)  # a crash at the end has another status
    if unexpected or len(failed) > len(KNOWN_FAILURES) or passed < LEAST_PASSED or not ended:
        print(ran.stdout)
        print(f"failed: {', '.join(unexpected or failed) or 'none'}; {passed} passed, at least {LEAST_PASSED} expected;",
              f"exit status {ran.returncode}")  # fmt: skip
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
