#!/usr/bin/env python3
"""Shows that check_words.py finds what it forbids and passes what it allows."""

import pathlib
import tempfile
import unittest

import check_words

FORBIDDEN = (
    "/// Who never waits looks here.",
    "# Done. Who comes next waits.",
    "/// Passes the turn to who reserved next.",
    "whoever posts",
    "a look is dear",
    "Begins anew.",
    "It waits for ever.",
    "there is no such device",
    "int bytes;  ///< of the message",
    "int value;  ///< What the peer wrote",
)
ALLOWED = (
    "/// A poster that waits looks here.",
    "a user who posts",
    "Who posts? Any thread.",
    "int bytes;  ///< offset of the message",
    "renewed forever",
)


class CheckWords(unittest.TestCase):
    def check(self, lines, name="file.cpp"):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines) + "\n")
            return check_words.findings(folder)

    def test_finds_each_forbidden_wording(self):
        for line in FORBIDDEN:
            self.assertEqual(len(self.check([line])), 1, line)

    def test_passes_plain_wording(self):
        self.assertEqual(self.check(ALLOWED), [])

    def test_names_file_and_line(self):
        self.assertTrue(self.check(["", FORBIDDEN[0]], "src/a.hpp")[0].startswith("src/a.hpp:2: "))

    def test_reads_documents_and_scripts(self):
        for name in ("docs/a.md", "tools/test", "CMakeLists.txt"):
            self.assertTrue(self.check([FORBIDDEN[0]], name), name)


if __name__ == "__main__":
    unittest.main()
