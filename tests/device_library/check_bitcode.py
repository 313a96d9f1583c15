#!/usr/bin/env python3
"""Checks bitcode of the device library.

usage: check_bitcode.py LLVM_FOLDER BITCODE TABLE
"""

import json
import pathlib
import re
import subprocess
import sys
import unittest


class Bitcode(unittest.TestCase):
    llvm: pathlib.Path
    bitcode: str
    functions: list

    @classmethod
    def setUpClass(cls):
        cls.text = cls.run_tool("llvm-dis", "-o", "-")

    @classmethod
    def run_tool(cls, tool, *options):
        return subprocess.run([str(cls.llvm / tool), cls.bitcode, *options], check=True, capture_output=True, text=True).stdout

    def test_is_valid(self):
        self.run_tool("opt", "-passes=verify", "-disable-output")

    def test_needs_nothing_but_intrinsics(self):
        declared = re.findall(r"^declare .*?@([\w.]+)\(", self.text, re.MULTILINE)
        self.assertEqual([name for name in declared if not name.startswith("llvm.")], [])
        self.assertEqual(re.findall(r"^@.* = external .*", self.text, re.MULTILINE), [])

    def test_has_no_module_flags_and_no_features_of_one_gpu(self):
        self.assertNotIn("!llvm.module.flags", self.text)
        self.assertNotRegex(self.text, '"target-(cpu|features)"')

    def test_has_the_functions_of_the_table_with_integers_of_its_types(self):
        sizes = {"uint8_t": "i8", "uint16_t": "i16", "uint32_t": "i32", "uint64_t": "i64"}
        found = {}
        for line in self.text.splitlines():
            if line.startswith("define ") and (match := re.search(r" (i\d+) @(wv_\w+)\((.*?)\) ", line)):
                found[match[2]] = [match[1]] + [argument.split()[0] for argument in match[3].split(", ") if argument]
        wanted = {function["name"]: [sizes[function["result"]], *(sizes[type_name] for type_name, _ in function["arguments"])]
                  for function in self.functions}  # fmt: skip
        self.assertEqual(found, wanted)


if __name__ == "__main__":
    Bitcode.llvm, Bitcode.bitcode = pathlib.Path(sys.argv[1]), sys.argv[2]
    Bitcode.functions = json.loads(pathlib.Path(sys.argv[3]).read_text())["functions"]
    unittest.main(argv=sys.argv[:1], verbosity=2)
