#!/usr/bin/env python3
"""Compiles cpu_functions.cpp and compares the barriers between memory and the NIC's registers with the expected ones.

usage: check_cpu.py COMPILER OPTION...
"""

import re
import subprocess
import sys
import unittest
from pathlib import Path

# Instructions by the name of what they do, and the expected ones of each function. On x86-64, only a write-combining
# register needs a barrier. On AArch64, C++ orders no store or load that the NIC sees.
X86_64 = {
    "operations": {
        "record": r"movl\s+%edx, ?\(%rdi\)",
        "doorbell": r"movq\s+%rcx, ?\(%rsi\)",
        "flush": r"sfence",
        "fence": r"[lm]fence|lock .*|xchg.*",
        "data": r"movq\s+\(%rdi\), ?%rax",
    },
    "uncached": ["record", "doorbell"],
    "write_combining": ["record", "flush", "doorbell", "flush"],
    "after_loads": [],
}
AARCH64 = {
    "operations": {
        "record": r"stl?r\s+w2, \[x0\]",
        "doorbell": r"stl?r\s+x3, \[x1\]",
        "flush": r"dsb\s+st",
        "order stores": r"dmb\s+oshst",
        "order loads": r"dmb\s+oshld",
        "data": r"ldr\s+x\d+, \[x\d+\]",
    },
    "uncached": ["order stores", "record", "order stores", "doorbell"],
    "write_combining": ["order stores", "record", "flush", "doorbell", "flush"],
    "after_loads": ["order loads"],
}


class Compilation:
    """The assembly of the functions, and the processor that the compiler makes it for."""

    def __init__(self, compiler, *options):
        machine = subprocess.run([compiler, "-dumpmachine"], check=True, capture_output=True, text=True).stdout
        self.processor = {"x86_64": X86_64, "aarch64": AARCH64}[machine.split("-")[0]]
        source = Path(__file__).with_name("cpu_functions.cpp")
        command = [compiler, *options, "-S", "-o", "-", str(source)]
        self.text = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def operations(self, function):
        """Returns what the function does, in the order of the text."""
        body = re.search(rf"^{function}:(.*?)^\s*\.size\s+{function},", self.text, re.DOTALL | re.MULTILINE)[1]
        found = []
        for line in body.splitlines():
            for name, pattern in self.processor["operations"].items():
                if re.fullmatch(rf"\s*(?:{pattern})\s*(?:[#/].*)?", line):
                    found.append(name)
        return found


class Barriers(unittest.TestCase):
    compilation: Compilation

    def test_uncached_register_follows_the_record_without_a_flush(self):
        self.assertEqual(self.compilation.operations("RingUncached"), self.compilation.processor["uncached"])

    def test_write_combining_register_has_a_flush_before_and_after(self):
        wanted = self.compilation.processor["write_combining"]
        self.assertEqual(self.compilation.operations("RingWriteCombining"), wanted)

    def test_queue_tells_the_kind_of_its_register(self):
        self.assertEqual(self.compilation.operations("RingQueue").count("flush"), 2)

    def test_data_is_loaded_behind_the_barrier(self):
        for function in ("LoadAfterCompletion", "LoadAfterSignal"):
            with self.subTest(function):
                operations = self.compilation.operations(function)
                self.assertEqual(operations.count("data"), 1, operations)
                before = operations[: operations.index("data")]
                self.assertEqual(before[-1:] or [], self.compilation.processor["after_loads"], operations)


if __name__ == "__main__":
    Barriers.compilation = Compilation(*sys.argv[1:])
    unittest.main(argv=sys.argv[:1], verbosity=2)
