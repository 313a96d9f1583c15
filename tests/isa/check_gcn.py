#!/usr/bin/env python3
"""Compiles kernels.cu for an AMD GPU and compares the memory operations in the assembly with the expected ones.

usage: check_gcn.py TARGET CLANG OPTION...
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

# On gfx90a a release writes back the L2 cache and waits for all stores. From gfx10 on it waits for a separate counter of
# stores. An acquire includes a release, and then invalidates the caches.
GFX90A = {
    "release": ["buffer_wbl2", "s_waitcnt vmcnt(0)"],
    "acquire": ["buffer_wbl2", "s_waitcnt vmcnt(0)", "buffer_invl2", "buffer_wbinvl1_vol"],
    "store": {4: "global_store_dword", 8: "global_store_dwordx2", 16: "global_store_dwordx4"},
    "load": {16: "flat_load_dwordx4"},
}
GFX10 = {
    "release": ["s_waitcnt vmcnt(0)", "s_waitcnt_vscnt null, 0x0"],
    "acquire": ["s_waitcnt vmcnt(0)", "s_waitcnt_vscnt null, 0x0", "buffer_gl0_inv", "buffer_gl1_inv"],
    "store": GFX90A["store"],
    "load": GFX90A["load"],
}
GFX11 = GFX10 | {
    "store": {4: "global_store_b32", 8: "global_store_b64", 16: "global_store_b128"},
    "load": {16: "flat_load_b128"},
}
TARGETS = {"gfx90a": GFX90A, "gfx1030": GFX10, "gfx1100": GFX11}


class Goldens:
    """Each method raises AssertionError if a kernel's operations differ from the expected ones."""

    def __init__(self, assembly, target):
        self.assembly, self.isa = assembly, TARGETS[target]

    def kernels(self):
        return re.findall(r"^\s*\.amdhsa_kernel (\w+)", self.assembly, re.MULTILINE)

    def kernel(self, name):
        return re.search(rf"^{name}:.*?s_endpgm", self.assembly, re.DOTALL | re.MULTILINE)[0]

    def operations(self, name):
        """Returns the operations on memory and the waits for stores, in the order of the text."""
        pattern = r"^\s+((?:global|flat|ds|buffer|scratch)_\w+|s_waitcnt(?= vmcnt\(0\))|s_waitcnt_vscnt)(.*)"
        found = re.findall(pattern, self.kernel(name), re.MULTILINE)
        waits = {"s_waitcnt": "s_waitcnt vmcnt(0)", "s_waitcnt_vscnt": "s_waitcnt_vscnt null, 0x0"}
        return [waits.get(operation, operation) for operation, _ in found]

    def low_level_post(self):
        store, release = self.isa["store"], self.isa["release"]
        wanted = 3 * [store[16]] + release + [store[4]] + release + [store[8]]
        self._expect("LowLevelPost", self.operations("LowLevelPost"), wanted)

    def poll(self):
        """Expects one load, a wait for its value, and one acquire. The rest stores the result."""
        operations = self.operations("LowLevelPoll")
        wanted = [self.isa["load"][16], "s_waitcnt vmcnt(0)"] + self.isa["acquire"]
        self._expect("LowLevelPoll", operations[: len(wanted)], wanted)
        loads = [operation for operation in operations if "_load_" in operation]
        self._expect("LowLevelPoll", loads, [self.isa["load"][16]])

    def posts(self):
        """Expects a post three times in the text: the fast path, the slow path, and a piece of a long message.

        So the compiler has neither unrolled a loop nor hidden an operation in a call.
        """
        for kernel in ("PostExclusive", "PostShared"):
            operations = self.operations(kernel)
            self._expect(kernel, operations.count(self.isa["store"][16]), 9)
            self._expect(kernel, re.findall("s_swappc|s_setpc", self.kernel(kernel)), [])

    def scratch(self):
        """Expects no loads from scratch memory. clang 14 leaves unused copies there, so stores are allowed."""
        for kernel in self.kernels():
            loads = [o for o in self.operations(kernel) if o.startswith(("buffer_load", "scratch_load"))]
            self._expect(kernel, loads, [])

    @staticmethod
    def _expect(kernel, found, wanted):
        if found != wanted:
            raise AssertionError(f"{kernel}: expected {wanted}, found {found}")


class Compilation:
    """The kernels' assembly for one GPU, compiled with the options of the command line."""

    def __init__(self, target, compiler, *options):
        self.target = target
        source = pathlib.Path(__file__).with_name("kernels.cu")
        self.kernels = re.findall(r"__global__ void (\w+)\(", source.read_text())
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "output"
            command = [compiler, f"--offload-arch={target}", "-S", *options, str(source), "-o", str(output)]
            subprocess.run(command, check=True)
            self.assembly = output.read_text()

    def goldens(self):
        return Goldens(self.assembly, self.target)


class DataPathCost(unittest.TestCase):
    compilation: Compilation

    def setUp(self):
        self.goldens = self.compilation.goldens()

    def test_every_kernel_compiles(self):
        self.assertEqual(self.goldens.kernels(), self.compilation.kernels)

    def test_low_level_post_is_three_segments_record_and_doorbell_in_strict_order(self):
        self.goldens.low_level_post()

    def test_poll_of_a_ready_completion_is_one_load(self):
        self.goldens.poll()

    def test_post_writes_each_segment_once(self):
        self.goldens.posts()

    def test_nothing_is_read_from_scratch_memory(self):
        self.goldens.scratch()


class GoldensCatch(unittest.TestCase):
    compilation: Compilation

    def test_an_extra_or_a_missing_operation(self):
        goldens = self.compilation.goldens()
        whole = goldens.kernel("LowLevelPost")
        for operation in (goldens.isa["store"][16], goldens.isa["store"][4], goldens.isa["store"][8],
                          goldens.isa["release"][0]):  # fmt: skip
            line = next(line for line in whole.splitlines() if operation in line)
            for spoiled in (whole.replace(line, f"{line}\n{line}", 1), whole.replace(line, "", 1)):
                with self.subTest(operation), self.assertRaisesRegex(AssertionError, "LowLevelPost"):
                    Goldens(goldens.assembly.replace(whole, spoiled), self.compilation.target).low_level_post()

    def test_a_second_load_of_the_completion(self):
        goldens = self.compilation.goldens()
        whole = goldens.kernel("LowLevelPoll")
        line = next(line for line in whole.splitlines() if goldens.isa["load"][16] in line)
        spoiled = goldens.assembly.replace(whole, whole.replace("s_endpgm", f"\n{line}\n s_endpgm"))
        with self.assertRaisesRegex(AssertionError, "LowLevelPoll"):
            Goldens(spoiled, self.compilation.target).poll()


if __name__ == "__main__":
    DataPathCost.compilation = GoldensCatch.compilation = Compilation(*sys.argv[1:])
    unittest.main(argv=sys.argv[:1], verbosity=2)
