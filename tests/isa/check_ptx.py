#!/usr/bin/env python3
"""Compiles cuda_kernels.cu and compares the instructions and registers of the data path with the expected ones.

usage: check_ptx.py NVCC OPTION...
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from goldens import MAX_INSTRUCTIONS, Goldens
from ptx_text import PtxError

# The limit for kernels that post and wait. Fewer are possible, but posts without branches keep values in registers that they
# would otherwise reload. With up to 48, a multiprocessor of sm_80 or sm_90 holds 1,280 threads.
MAX_REGISTERS = 48
KERNELS_THAT_POST_AND_WAIT = ("PostAndWaitExclusive", "PostAndWaitShared", "PostAndWaitEachExclusive",
                              "PostAndWaitEachShared")  # fmt: skip
MAX_MORE_REGISTERS = 8  # that a rare post adds to a kernel
HOOK = re.compile(r"^\s*(?:queue\.state_\.|state_\.)?observer\(\)\..*;\n", re.MULTILINE)  # a call of an observer
MIN_HOOKS = 10


class Compilation:
    """The kernels' PTX and register counts, compiled with the options of the command line."""

    def __init__(self, compiler, *options):
        self.scope = "sys" if "-DARCH=CudaSystem" in options else "gpu"
        source = pathlib.Path(__file__).with_name("cuda_kernels.cu")
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "output"
            command = [compiler, *options, str(source), "-o", str(output)]
            subprocess.run([*command, "-ptx"], check=True)
            self.text = output.read_text()
            usage_report = subprocess.run([*command, "-cubin", "--resource-usage"], check=True, capture_output=True, text=True)
        usage = r"entry function '(\w+)'.*?(\d+) bytes stack frame.*?Used (\d+) registers"
        found = re.findall(usage, usage_report.stdout + usage_report.stderr, re.DOTALL)
        self.stack_bytes = {kernel: int(stack) for kernel, stack, _ in found}
        self.registers = {kernel: int(registers) for kernel, _, registers in found}

        self.compiler, self.options, self.source = compiler, options, source

    def goldens(self):
        return Goldens(self.text, self.scope)

    def without_hooks(self):
        """Returns the PTX of the same kernels, from headers without the lines that call an observer."""
        with tempfile.TemporaryDirectory() as folder:
            include = pathlib.Path(next(option[2:] for option in self.options if option.startswith("-I")))
            copy = pathlib.Path(folder) / "include"
            shutil.copytree(include / "warpverbs", copy / "warpverbs")
            hooks = 0
            for header in (copy / "warpverbs/device").rglob("*.hpp"):
                text, changes = HOOK.subn("", header.read_text())
                header.write_text(text)
                hooks += changes
            if hooks < MIN_HOOKS:
                raise LookupError(f"found {hooks} hooks in {include}")
            options = [f"-I{copy}" if option == f"-I{include}" else option for option in self.options]
            output = pathlib.Path(folder) / "output"
            subprocess.run([self.compiler, *options, str(self.source), "-o", str(output), "-ptx"], check=True)
            return output.read_text()

    def spoiled(self, kernel, pattern, replacement):
        """Returns goldens for a kernel with changed lines.

        @param pattern      regular expression for the beginning of each line to replace
        @param replacement  format of the new line: {0} is the old line, {1} and so on are the pattern's groups
        """
        start = self.text.index(f".entry {kernel}(")
        end = self.text.index("\n}", start)
        lines = re.compile(rf"^\s*{pattern}.*;$", re.MULTILINE)
        body, changes = lines.subn(lambda line: replacement.format(line[0], *line.groups()), self.text[start:end])
        if changes == 0:
            raise LookupError(f"{kernel} has no {pattern}")
        return Goldens(self.text[:start] + body + self.text[end:], self.scope)


def entries(text):
    """Returns the text of each kernel."""
    return {entry[1]: entry[0] for entry in re.finditer(r"\.entry (\w+)\(.*?\n\}", text, re.DOTALL)}


class DataPathCost(unittest.TestCase):
    compilation: Compilation

    def setUp(self):
        self.goldens = self.compilation.goldens()

    @classmethod
    def tearDownClass(cls):
        for kernel, figure in cls.compilation.goldens().figures().items():
            print(f"{kernel}: {figure:.0f} instructions a WQE")
        for kernel, registers in sorted(cls.compilation.registers.items()):
            print(f"{kernel}: {registers} registers")

    def test_exclusive_post_is_three_segments_record_and_doorbell_in_strict_order(self):
        self.goldens.post_exclusive()

    def test_shared_post_adds_one_atomic_operation_and_one_store(self):
        self.goldens.post_shared()

    def test_relaxed_post_publishes_without_a_release(self):
        self.goldens.post_relaxed_shared()

    def test_post_behind_another_releases_before_it_waits(self):
        self.goldens.post_contended()

    def test_batch_rings_once(self):
        self.goldens.batch_exclusive()
        self.goldens.batch_shared()

    def test_warp_reserves_and_rings_once(self):
        self.goldens.warp_exclusive()
        self.goldens.warp_shared()

    def test_block_reserves_and_rings_once_for_all_its_warps(self):
        self.goldens.block_shared()

    def test_group_stores_nothing_to_a_full_queue(self):
        self.goldens.full_queue()

    def test_low_level_post_loads_nothing(self):
        self.goldens.low_level_post()

    def test_poll_of_a_ready_completion_is_one_load(self):
        self.goldens.poll()

    def test_nic_finds_the_right_bytes(self):
        self.goldens.image()

    def test_kernel_posts_to_the_chosen_queue_of_a_constant_parameter(self):
        self.goldens.choice()

    def test_counting_adds_no_access_of_memory_to_a_post(self):
        self.goldens.post_counted()

    def test_counts_are_added_when_the_queue_ends(self):
        self.goldens.counts()

    def test_queue_that_is_not_counted_has_the_code_of_headers_without_counters(self):
        if not {"-arch=sm_90", "-DARCH=Cuda"} <= set(self.compilation.options):
            self.skipTest("compared once")
        found, wanted = entries(self.compilation.text), entries(self.compilation.without_hooks())
        for kernel in wanted:
            if not kernel.startswith(("Counted", "Traced")):
                self.assertTrue(found[kernel] == wanted[kernel], f"{kernel} is another with hooks")

    def test_post_executes_few_instructions(self):
        self.goldens.instructions()

    def test_kernel_that_posts_and_waits_needs_few_registers(self):
        for kernel in KERNELS_THAT_POST_AND_WAIT:
            with self.subTest(kernel):
                self.assertLessEqual(self.compilation.registers[kernel], MAX_REGISTERS)

    def test_rare_post_adds_few_registers(self):
        registers = self.compilation.registers
        self.assertLessEqual(registers["VectorSumThatMayPost"] - registers["VectorSum"], MAX_MORE_REGISTERS)

    def test_no_kernel_needs_a_stack(self):
        self.assertEqual({kernel: size for kernel, size in self.compilation.stack_bytes.items() if size}, {})


class GoldensCatch(unittest.TestCase):
    """Each test changes a kernel in the compiler's output, and expects a golden to report that kernel."""

    compilation: Compilation

    def refuses(self, golden, kernel, pattern, replacement):
        with self.subTest(golden, pattern=pattern, replacement=replacement):
            goldens = self.compilation.spoiled(kernel, pattern, replacement)
            with self.assertRaisesRegex(AssertionError, kernel):
                getattr(goldens, golden)()

    def test_an_extra_store(self):
        for store in (r"st\.global\.v2\.b64", r"st\.relaxed\.sys\.global\.b32", r"st\.mmio"):
            self.refuses("post_exclusive", "PostExclusive", store, "{0}\n{0}")
            self.refuses("post_shared", "PostShared", store, "{0}\n{0}")

    def test_a_missing_store(self):
        self.refuses("post_exclusive", "PostExclusive", r"st\.relaxed\.sys\.global\.b32", "")

    def test_an_extra_or_a_missing_fence(self):
        for change in ("{0}\n{0}", ""):
            self.refuses("post_exclusive", "PostExclusive", r"fence\.(?:release|acq_rel)", change)
            self.refuses("warp_shared", "WarpShared", r"fence\.(?:release|acq_rel)", change)
            self.refuses("post_contended", "PostShared", r"fence\.(?:release|acq_rel)", change)
            self.refuses("post_relaxed_shared", "PostRelaxedShared", r"fence\.(?:release|acq_rel)", change)
            self.refuses("poll", "LowLevelPoll", r"fence\.", change)

    def test_a_store_without_its_predicate(self):
        for kernel in ("WarpExclusive", "WarpShared", "BlockShared"):
            self.refuses("full_queue", kernel, r"@%stores (st\S+ .*)", "{1};")

    def test_a_missing_barrier(self):
        goldens = self.compilation.spoiled("BlockShared", r"bar\.sync", "")
        with self.assertRaisesRegex(PtxError, "BlockShared: threads .* race for shared memory"):
            goldens.block_shared()

    def test_an_extra_load(self):
        load = "{0}\nld.relaxed.sys.global.b64 %more, [{1}];"
        self.refuses("post_exclusive", "PostExclusive", r"st\.mmio\S+ \[(%rd\d+)\]", load)
        self.refuses("batch_exclusive", "BatchExclusive", r"st\.global\.v2\.b64 \[(%rd\d+)\]", load)
        self.refuses("poll", "LowLevelPoll", r"ld\.relaxed\S+v2\.b64 .*\[(%rd\d+)\]", load)

    def test_a_count_in_memory(self):
        add = "{0}\nred.relaxed.gpu.global.add.u32 [{1}], 0;"
        self.refuses("post_counted", "CountedShared", r"atom\.\S+cas\S+ %r\d+, \[(%rd\d+)\]", add)

    def test_an_extra_atomic_operation(self):
        add = "{0}\nred.relaxed.gpu.global.add.u32 [{1}], 0;"
        self.refuses("post_shared", "PostShared", r"atom\.\S+ %r\d+, \[(%rd\d+)\]", add)

    def test_a_fence_in_another_place(self):
        later = "{0}\nfence.release.gpu;"
        self.refuses("low_level_post", "LowLevelPost", r"st\.(?:relaxed\.sys\.global\.b32|mmio)", later)

    def test_a_doorbell_that_is_an_ordinary_store(self):
        plain = "st.global.b64 [{1}], {2};"
        self.refuses("post_exclusive", "PostExclusive", r"st\.mmio\S+ \[(%rd\d+)\], (%rd\d+)", plain)

    def test_a_fence_of_another_scope(self):
        self.refuses("low_level_post", "LowLevelPost", r"fence\.(?:release|acq_rel)", "fence.release.cta;")

    def test_a_wrong_byte(self):
        mirrored = "prmt.b32 {1}, {3}, {2}, {4};"
        self.refuses("image", "PostExclusive", r"prmt\.b32\s+(%r\d+), (%r\d+), (%r\d+), (%r\d+)", mirrored)

    def test_a_post_to_the_wrong_queue(self):
        first = "mov.u32 {1}, 0;"
        self.refuses("choice", "ChooseByCopy", r"ld\.param\.u32\s+(%r\d+), \[ChooseByCopy_param_1\]", first)

    def test_too_many_instructions(self):
        more = MAX_INSTRUCTIONS * "\nmov.u32 %spare, 0;"
        self.refuses("instructions", "BatchShared", r"st\.global\.v2\.b64", "{0}" + more)


if __name__ == "__main__":
    DataPathCost.compilation = GoldensCatch.compilation = Compilation(*sys.argv[1:])
    unittest.main(argv=sys.argv[:1], verbosity=2)
