#!/usr/bin/env python3
"""Shows that tools/run_tests.py counts the cases of its own run."""

import pathlib
import subprocess
import tempfile
import unittest

RUN_TESTS = pathlib.Path(__file__).parents[2] / "tools/run_tests.py"


class RunTests(unittest.TestCase):
    def summary(self, tests):
        """Returns the exit status and the last line for CTest tests, each a shell command and its properties."""
        with tempfile.TemporaryDirectory() as folder:
            lines = []
            for i, (command, *properties) in enumerate(tests):
                lines.append(f"add_test(test{i} sh -c [==[{command}]==])")
                lines += [f"set_tests_properties(test{i} PROPERTIES {each})" for each in properties]
            pathlib.Path(folder, "CTestTestfile.cmake").write_text("\n".join(lines))
            done = subprocess.run([RUN_TESTS, folder], capture_output=True, text=True)
            return done.returncode, done.stdout.splitlines()[-1]

    def check(self, counts, *tests):
        passed, failed, skipped = counts
        status, line = self.summary(tests)
        self.assertRegex(line, rf"^{passed} passed, {failed} failed, {skipped} skipped in {len(tests)} test programs")
        self.assertEqual(status != 0, failed != 0)

    def test_cases_of_a_program(self):
        self.check((3, 0, 0), ("echo '[  PASSED  ] 3 tests.'",))
        self.check((3, 0, 2), ("echo '[  PASSED  ] 3 tests.'; echo '[  SKIPPED ] 2 tests, listed below:'",))
        self.check((3, 1, 0), ("echo '[  PASSED  ] 3 tests.'; echo '[  FAILED  ] 1 test, listed below:'; false",))

    def test_cases_after_much_output(self):
        self.check((3, 0, 0), ("seq 100000; echo '[  PASSED  ] 3 tests.'",))
        self.check((3, 1, 0), ("seq 100000; echo '[  PASSED  ] 3 tests.'; echo '[  FAILED  ] 1 test, listed below:'; false",))

    def test_other_programs_are_one_case(self):
        self.check((1, 1, 0), ("true",), ("false",))

    def test_programs_that_die(self):
        self.check((0, 2, 0), ("echo '[  PASSED  ] 3 tests.'; kill -9 $$",), ("printf '\\001\\377'; kill -9 $$",))

    def test_failed_tests_are_repeated_at_the_end(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "CTestTestfile.cmake").write_text('add_test(bad sh -c "seq 100; false")\nadd_test(good true)')
            done = subprocess.run([RUN_TESTS, folder], capture_output=True, text=True)
        repeated = done.stdout.partition("Failed test: ")[2].splitlines()
        self.assertEqual(repeated[0], "bad: Failed")
        self.assertIn("    100", repeated)
        self.assertNotIn("    1", repeated)

    def test_programs_that_must_fail(self):
        self.check((1, 0, 0), ("echo '[  FAILED  ] 1 test, listed below:'; echo a race; false", "PASS_REGULAR_EXPRESSION race"))
        self.check((0, 1, 0), ("echo '[  PASSED  ] 3 tests.'", "PASS_REGULAR_EXPRESSION race"))

    def test_skipped_programs(self):
        self.check((1, 0, 3), ("true",), ("echo skipped", "SKIP_REGULAR_EXPRESSION skipped"), ("exit 77", "SKIP_RETURN_CODE 77"),
                   ("true", "DISABLED ON"))

    def test_other_runs_in_the_folder_do_not_count(self):
        self.check((3, 0, 0), ("ctest -N >/dev/null; rm -rf Testing; echo '[  PASSED  ] 3 tests.'",))


if __name__ == "__main__":
    unittest.main()
