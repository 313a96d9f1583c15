#!/usr/bin/env python3
"""Tests that the interpreter executes instructions as the PTX ISA specifies and refuses unknown ones."""

import unittest

import ptx
import ptx_text

ADDRESS = 0x1000
MINUS_ONE = (1 << 64) - 1


def program(body, parameters=".param .u64 k_param_0"):
    return ptx_text.parse(f".visible .entry k(\n\t{parameters}\n)\n{{\n{body}\nret;\n\n}}\n")["k"]


def run(body, lanes=1, memory=None):
    """Runs `body`. Returns the 8-byte words from ADDRESS on, one for each lane, and the trace."""
    memory = memory or ptx.Memory()
    memory.set(ADDRESS, bytes(8 * lanes))
    trace = ptx.run(program(body), [ADDRESS], memory, lanes)
    return [memory.load(ADDRESS + 8 * lane, 8) for lane in range(lanes)], trace


def result(*instructions):
    """Returns %rd0 after the instructions."""
    body = "\n".join(instructions) + "\nld.param.u64 %rd99, [k_param_0];\nst.global.u64 [%rd99], %rd0;"
    return run(body)[0][0]


EACH_THREAD = """
mov.u32 %r98, %laneid;
mov.u32 %r97, %tid.x;
mul.wide.u32 %rd98, %r97, 8;
ld.param.u64 %rd99, [k_param_0];
add.s64 %rd99, %rd99, %rd98;
"""

# Thread 40 shares its number with all.
SHARE = """
.shared .align 8 .u64 word;
cvt.u64.u32 %rd1, %r97;
setp.eq.u32 %p1, %r97, 40;
@%p1 st.shared.u64 [word], %rd1;
bar.sync 0;
ld.shared.u64 %rd0, [word];
st.global.u64 [%rd99], %rd0;
"""


class Interpreter(unittest.TestCase):
    def test_arithmetic_wraps_at_the_width_of_its_type(self):
        self.assertEqual(result("add.s32 %r1, -1, 2;", "cvt.u64.u32 %rd0, %r1;"), 1)
        self.assertEqual(result("sub.s64 %rd0, 0, 1;"), MINUS_ONE)
        self.assertEqual(result("mul.wide.u32 %rd0, 4294967295, 64;"), 0xFFFFFFFF * 64)
        self.assertEqual(result("not.b32 %r1, 0;", "cvt.u64.u32 %rd0, %r1;"), 0xFFFFFFFF)
        self.assertEqual(result("div.u32 %r1, 7, 2;", "cvt.u64.u32 %rd0, %r1;"), 3)

    def test_signed_types_keep_their_sign(self):
        self.assertEqual(result("cvt.s64.s32 %rd0, -2;"), MINUS_ONE - 1)
        self.assertEqual(result("shr.s64 %rd0, -4, 1;"), MINUS_ONE - 1)
        self.assertEqual(result("shr.u64 %rd0, -4, 1;"), (MINUS_ONE - 3) >> 1)
        self.assertEqual(result("min.s64 %rd0, -1, 1;"), MINUS_ONE)
        self.assertEqual(result("min.u64 %rd0, -1, 1;"), 1)

    def test_bits_are_picked_and_placed(self):
        self.assertEqual(result("mov.u32 %r1, 0x01020304;", "prmt.b32 %r2, %r1, 0, 291;", "cvt.u64.u32 %rd0, %r2;"),
                         0x04030201)  # fmt: skip
        self.assertEqual(result("bfi.b64 %rd0, 3, 5, 32, 32;"), 3 << 32 | 5)
        self.assertEqual(result("bfe.u64 %rd0, 0x123456, 8, 8;"), 0x34)
        self.assertEqual(result("shl.b64 %rd0, 1, 64;"), 0)
        self.assertEqual(result("popc.b64 %r1, 255;", "clz.b32 %r2, 1;", "mov.b64 %rd0, {%r1, %r2};"), 31 << 32 | 8)

    def test_guards_and_branches_choose(self):
        choose = ["setp.lt.s32 %p1, -1, 0;", "@%p1 bra $L1;", "mov.u64 %rd0, 1;", "bra.uni $L2;", "$L1:",
                  "mov.u64 %rd0, 2;", "$L2:", "@!%p1 mov.u64 %rd0, 3;"]  # fmt: skip
        self.assertEqual(result(*choose), 2)
        self.assertEqual(result(*[line.replace("lt.s32", "lt.u32") for line in choose]), 3)

    def test_vectors_and_atomic_operations_change_memory(self):
        memory = ptx.Memory()
        memory.set(0x2000, bytes(16))
        body = """
mov.u64 %rd1, 0x2000;
st.global.v2.b64 [%rd1], {1, 2};
atom.relaxed.gpu.global.cas.b64 %rd2, [%rd1+8], 2, 7;
atom.relaxed.gpu.global.cas.b64 %rd3, [%rd1+8], 2, 9;
red.relaxed.gpu.global.add.u64 [%rd1], 4;
fence.release.gpu;"""
        trace = run(body, memory=memory)[1]
        self.assertEqual((memory.load(0x2000, 8), memory.load(0x2008, 8)), (5, 7))
        self.assertEqual([(o.name.split(".")[0], o.step, o.address) for o in trace],
                         [("st", 2, 0x2000), ("atom", 3, 0x2008), ("atom", 4, 0x2008), ("red", 5, 0x2000),
                          ("fence", 6, None)])  # fmt: skip

    def test_lanes_of_a_warp_exchange_values(self):
        shuffle = "shfl.sync.idx.b32 %r1|%p1, %r98, 5, 31, -1;\ncvt.u64.u32 %rd0, %r1;\nst.global.u64 [%rd99], %rd0;"
        self.assertEqual(run(EACH_THREAD + shuffle, 32)[0], 32 * [5])
        ballot = "setp.lt.u32 %p1, %r98, 4;\nvote.sync.ballot.b32 %r1, %p1, -1;\ncvt.u64.u32 %rd0, %r1;"
        self.assertEqual(run(EACH_THREAD + ballot + "\nst.global.u64 [%rd99], %rd0;", 32)[0], 32 * [15])

    def test_barrier_orders_lanes(self):
        barrier = "st.global.u64 [%rd99], 1;\nbar.warp.sync -1;\nld.global.u64 %rd1, [%rd99];"
        trace = run(EACH_THREAD + barrier, 32)[1]
        self.assertEqual([operation.name[:2] for operation in trace], 32 * ["st"] + 32 * ["ld"])

    def test_warps_of_a_block_meet_at_its_barriers_only(self):
        tell = "\ncvt.u64.u32 %rd0, %r1;\nst.global.u64 [%rd99], %rd0;"
        ballot = "setp.lt.u32 %p1, %r97, 36;\nvote.sync.ballot.b32 %r1, %p1, -1;"
        self.assertEqual(run(EACH_THREAD + ballot + tell, 64)[0], 32 * [0xFFFFFFFF] + 32 * [15])
        shuffle = "shfl.sync.idx.b32 %r1|%p1, %r97, 5, 31, -1;"
        self.assertEqual(run(EACH_THREAD + shuffle + tell, 64)[0], 32 * [5] + 32 * [37])
        for exception, answer in ((63, 0), (64, 1)):
            vote = f"setp.ne.u32 %p1, %r97, {exception};\nbar.red.and.pred %p2, 0, %p1;\nselp.b32 %r1, 1, 0, %p2;"
            self.assertEqual(run(EACH_THREAD + vote + tell, 64)[0], 64 * [answer])

    def test_threads_of_a_block_share_memory(self):
        self.assertEqual(run(EACH_THREAD + SHARE, 64)[0], 64 * [40])

    def test_races_for_shared_memory_are_errors(self):
        for spoiled in (SHARE.replace("bar.sync 0;", "", 1), SHARE + SHARE):
            with self.subTest(spoiled), self.assertRaisesRegex(ptx_text.PtxError, "race for shared memory"):
                run(EACH_THREAD + spoiled, 64)
        self.assertEqual(run(EACH_THREAD + SHARE + "bar.sync 0;" + SHARE, 64)[0], 64 * [40])

    def test_registers_of_a_scope_are_separate(self):
        self.assertEqual(result("mov.u64 %rd0, 1;", "{", ".reg .b64 %rd0;", "mov.u64 %rd0, 2;", "\t}"), 1)

    def test_calls_are_skipped_if_they_are_not_executed(self):
        call = ["bra.uni $L1;", "{ // callseq 0, 0", ".param .b64 param0;", "st.param.b64 [param0+0], %rd1;",
                "call.uni (retval0),\nSlow,\n(\nparam0\n);", "\t} // callseq 0", "$L1:", "mov.u64 %rd0, 1;"]  # fmt: skip
        self.assertEqual(result(*call), 1)

    def test_unknown_instructions_are_errors(self):
        for body in ("frobnicate.u32 %r1, 1;", "add.sat.s32 %r1, 1, 2;", "add.f32 %f1, 1, 2;", "mov.u32 %r1",
                     "ld.global.u64 %rd1, [4096000];", "st.shared.u32 [4096], 1;", "$L1:\nbra $L1;",
                     "shfl.sync.up.b32 %r1|%p1, 1, 1, 0, -1;", "prmt.b32.f4e %r1, 1, 2, 3;",
                     "atom.global.inc.u32 %r1, [4096], 1;", "call.uni (retval0),\nSlow,\n(\nparam0\n);"):  # fmt: skip
            with self.subTest(body), self.assertRaises(ptx_text.PtxError):
                run(body)

    def test_lanes_that_wait_forever_are_an_error(self):
        with self.assertRaisesRegex(ptx_text.PtxError, "forever"):
            run("bar.warp.sync 3;")


if __name__ == "__main__":
    unittest.main()
