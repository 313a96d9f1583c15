#!/usr/bin/env python3
"""Shows that check_requirements.py catches what it forbids and lets pass what it allows."""

import pathlib
import tempfile
import unittest

import check_requirements

SOURCE = """
TEST(Plain, Holds) {}
TEST_F(Fixture, HoldsToo) {}
TEST_P(Parameter,
       HoldsForEach) {}
TYPED_TEST(Typed, HoldsForAll) {}
// TEST(Comment, IsNone) {}
/* TEST(LongComment,
        IsNone) {} */
TEST(Plain, DISABLED_IsNone) {}
"""
REQUIREMENT = "# Title\n\nText.\n\n## Memory\n\n### F1\n\nIt holds, whatever\nhappens.\n\n"


class CheckRequirements(unittest.TestCase):
    def check(self, text, sources=None):
        """The faults of a list, in a tree of the given sources."""
        tree = {"tests/x/x_test.cpp": SOURCE, "tests/CMakeLists.txt": "add_test(NAME layers.check COMMAND x)\n"}
        tree |= (sources or {}) | {check_requirements.LIST: text}
        with tempfile.TemporaryDirectory() as root:
            for name, content in tree.items():
                path = pathlib.Path(root) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
            return check_requirements.faults(root)

    def test_finds_tests_of_every_kind(self):
        names = ("Plain.Holds", "Fixture.HoldsToo", "Parameter.HoldsForEach", "Typed.HoldsForAll", "layers.check")
        self.assertEqual(self.check(REQUIREMENT + "".join(f"- `{name}`\n" for name in names)), [])

    def test_finds_tests_of_kernels(self):
        self.assertEqual(self.check(REQUIREMENT + "- `Gpu.Runs`\n", {"tests/gpu/x.cu": "TEST(Gpu, Runs) {}"}), [])

    def test_names_line_and_test_that_does_not_exist(self):
        self.assertEqual(self.check(REQUIREMENT + "- `Plain.Holds`\n- `Plain.Hold`\n"), [
            "tests/requirements/README.md:13: there is no test Plain.Hold in tests/"])

    def test_what_is_disabled_or_a_comment_is_no_test(self):
        for name in ("Comment.IsNone", "LongComment.IsNone", "Plain.DISABLED_IsNone"):
            with self.subTest(name=name):
                self.assertEqual(len(self.check(REQUIREMENT + f"- `{name}`\n")), 1)

    def test_requirement_without_a_test(self):
        self.assertEqual(self.check(REQUIREMENT + "\n### F2\nSo does this.\n- `Plain.Holds`\n"), [
            "tests/requirements/README.md: no test shows F1"])

    def test_list_without_a_requirement(self):
        self.assertEqual(len(self.check("# Title\n")), 1)

    def test_requirement_twice(self):
        faults = self.check(REQUIREMENT + "- `Plain.Holds`\n### F1\nIt holds.\n- `Fixture.HoldsToo`\n")
        self.assertEqual(faults, ["tests/requirements/README.md:13: F1 is there already: append to it"])

    def test_test_twice_below_one_requirement(self):
        self.assertEqual(len(self.check(REQUIREMENT + "- `Plain.Holds`\n- `Plain.Holds`\n")), 1)

    def test_lines_of_another_form(self):
        test = "- `Plain.Holds`\n"
        for line in ("### F3. It holds.\n", "### F3\nIt holds\n" + test, "### F3\n" + test, "- Plain.Holds\n",
                     "- `Plain.Holds`, `Fixture.HoldsToo`\n", "## Next\n" + test):
            with self.subTest(line=line):
                self.assertEqual(len(self.check(REQUIREMENT + test + line)), 1)


if __name__ == "__main__":
    unittest.main()
