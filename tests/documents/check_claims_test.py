#!/usr/bin/env python3
"""Shows that check_claims.py catches what it forbids and lets pass what it allows."""

import pathlib
import tempfile
import unittest

import check_claims

TABLE = "\n| | us |\n| --- | --: |\n| median | 0.44 |\n"
SAID = "`softhca -- round_trip_benchmark` on the machine of a test, 2026-01-02.\n"


class CheckClaims(unittest.TestCase):
    def check(self, tree):
        """The faults of documents, by name and text."""
        with tempfile.TemporaryDirectory() as root:
            for name, content in tree.items():
                path = pathlib.Path(root) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
            return check_claims.faults(root)

    def measured(self, text):
        return self.check({check_claims.MEASURED: text})

    def test_praise_is_caught_wherever_a_document_stands(self):
        for name in ("README.md", "CHANGELOG.md", "docs/a.md", "docs/models/README.md", "bench/README.md",
                     "include/warpverbs/README.md"):
            for praise in ("sub-microsecond latency", "Submicrosecond", "zero overhead", "Zero-overhead posts", "blazing fast",
                           "lightning-fast", "ultra-low latency", "state of the art", "the lowest latency"):
                with self.subTest(name=name, praise=praise):
                    faults = self.check({name: f"# Title\n\nWrites with {praise}.\n"})
                    self.assertEqual(len(faults), 1)
                    self.assertTrue(faults[0].startswith(f"{name}:3: "), faults)

    def test_plain_words_pass(self):
        text = "It takes 20 us at most; a microsecond is long. The state of a QP. The lowest address. Zero bytes of overhead.\n"
        self.assertEqual(self.check({"README.md": text}), [])

    def test_rates_belong_to_what_was_measured(self):
        for rate in ("45.03 GB/s", "19.87 GiB/s", "386.8 Gb/s", "3.5 M/s", "12 Mpps", "3 million messages a second"):
            with self.subTest(rate=rate):
                self.assertEqual(len(self.check({"docs/transport.md": f"It moves {rate}.\n"})), 1)
                self.assertEqual(len(self.check({"docs/hardware.md": f"| it moves | {rate} | |\n"})), 1, "no source")
                self.assertEqual(self.check({"docs/hardware.md": f"| it moves | {rate} | [3] |\n"}), [])
                self.assertEqual(self.measured(f"# Performance\n\n## Moves\n\n{SAID}{TABLE}\n{rate}\n"), [])

    def test_sizes_and_times_are_no_rates(self):
        self.assertEqual(self.check({"README.md": "64 MiB in 4 ms, 8 GB of memory, 400G links\n"}), [])

    def test_tables_name_machine_command_and_date(self):
        self.assertEqual(self.measured(f"# Performance\n\n## Writes\n\n{SAID}{TABLE}"), [])
        for gone, lack in (("`softhca -- round_trip_benchmark`", "the command"), ("machine", "the machine"), ("2026-01-02", "the date")):
            with self.subTest(lack=lack):
                self.assertEqual(self.measured(f"# Performance\n\n## Writes\n\n{SAID.replace(gone, 'It')}{TABLE}"),
                                 [f"docs/performance.md: 'Writes' has figures, but not {lack} that they are of"])

    def test_introduction_speaks_for_the_first_alone(self):
        introduction = "# Performance\n\nMachine of the first one: a guest. Date: 2026-01-02.\n"
        part = f"Of `bench/count-instructions`.\n{TABLE}"
        self.assertEqual(self.measured(f"{introduction}\n## A\n\n{part}"), [])
        self.assertEqual(len(self.measured(f"{introduction}\n## A\n\n{part}\n## B\n\n{part}")), 2)

    def test_text_without_figures_needs_none(self):
        self.assertEqual(self.measured("# Performance\n\n## Words\n\nNothing was measured.\n"), [])


if __name__ == "__main__":
    unittest.main()
