"""Tests that check_contract.py finds each kind of error."""

import unittest

from check_contract import complaints

DOCUMENT = """# Memory order

## The contract

| what is visible | to which observer | primitive | test | found when weakened |
| --- | --- | --- | --- | --- |
| a WQE | the NIC | `StoreRelease` | `Posting.Wqe` | `record` |
| an error | all | `Load` | `Failing.Error` | |

## The primitives

| primitive | CUDA | HIP | CPU |
| --- | --- | --- | --- |
| `StoreRelease` | a | b | c |
| `Load` | a | b | c |
"""
SOURCES = ["TEST(Posting, Wqe) {\n}\n", "TEST(Failing, Error) {\n}\n"]
CMAKE = "if(X)\n  weak_primitive(record Posting.Wqe)\nendif()\n"


class CheckContract(unittest.TestCase):
    def expect(self, part, document=DOCUMENT, sources=SOURCES, cmake=CMAKE):
        wrong = list(complaints(document, sources, cmake))
        self.assertTrue(any(part in line for line in wrong), wrong)

    def test_accepts_a_document_that_agrees(self):
        self.assertEqual(list(complaints(DOCUMENT, SOURCES, CMAKE)), [])

    def test_finds_a_line_with_a_missing_test(self):
        self.expect("Posting.Wqe, which is no test", sources=SOURCES[1:])

    def test_finds_a_line_without_a_test(self):
        self.expect("'an error' names no test", DOCUMENT.replace("`Failing.Error`", "none"))

    def test_finds_a_test_without_a_line(self):
        self.expect("Posting.More belongs to no line", sources=[*SOURCES, "TEST(Posting, More) {"])

    def test_finds_an_unknown_primitive(self):
        self.expect("StoreRelease, which is no primitive", DOCUMENT.replace("| `StoreRelease` | a", "| `Store` | a"))

    def test_finds_a_weakening_only_in_the_document(self):
        self.expect("by the document only", cmake="")

    def test_finds_a_weakening_only_in_the_tests(self):
        self.expect("by the tests only", DOCUMENT.replace("| `record` |", "| |"))

    def test_finds_a_document_without_lines(self):
        self.expect("no lines", "# Memory order\n")


if __name__ == "__main__":
    unittest.main()
