#!/usr/bin/env python3
"""Checks that the device library's table, its C header and its symbols agree.

usage: check_table.py TABLE LIBRARY C_COMPILER INCLUDE
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest


class Table(unittest.TestCase):
    table: dict
    library: str
    compiler: str
    include: str

    def compile(self, source, *options):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "source.c"
            path.write_text(source)
            command = [self.compiler, "-x", "c", "-Wall", "-Wextra", "-Werror", *options, f"-I{self.include}", "-c", str(path),
                       "-o", "/dev/null"]  # fmt: skip
            subprocess.run(command, check=True)

    def test_header_is_c(self):
        for standard in ("-std=c99", "-std=c11", "-std=c17"):
            self.compile('#include "warpverbs/device_abi.h"\n', standard)

    def test_header_declares_each_function_as_the_table_has_it(self):
        lines = ['#include "warpverbs/device_abi.h"']
        for i, function in enumerate(self.table["functions"]):
            types = ", ".join(argument[0] for argument in function["arguments"]) or "void"
            lines.append(f"{function['result']} (*pointer{i})({types}) = {function['name']};")
        for i, (name, value) in enumerate(self.table["constants"].items()):
            lines.append(f"char constant{i}[{name} == {value} ? 1 : -1];")
        self.compile("\n".join(lines) + "\n", "-std=c11")

    def test_library_exports_the_table_and_what_runs_blocks(self):
        symbols = subprocess.run(["nm", "-D", "--defined-only", self.library], check=True, capture_output=True, text=True).stdout
        exported = {line.split()[-1] for line in symbols.splitlines()}
        self.assertEqual(exported, {function["name"] for function in self.table["functions"]} | {"wv_run_block"})

    def test_names_of_arguments_are_unique_in_a_function(self):
        for function in self.table["functions"]:
            names = [argument[1] for argument in function["arguments"]]
            self.assertEqual(len(names), len(set(names)), function["name"])


if __name__ == "__main__":
    Table.table = json.loads(pathlib.Path(sys.argv[1]).read_text())
    Table.library, Table.compiler, Table.include = sys.argv[2:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
