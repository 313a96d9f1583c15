"""What the kernels of cuda_kernels.cu may cost, and what they must do, when they run in the interpreter."""

import itertools
import re

import nic
import ptx
import ptx_text

WARP, BLOCK, BATCH = 32, 64, 16
MAX_INSTRUCTIONS = 100  # of a post

WQE = 3 * ["wqe"]
RING = ["fence", "record", "fence", "doorbell"]
RING_WITHOUT_RECORD = ["fence", "doorbell"]
STORE_END = ["tail"]
RESERVE = ["compare-swap reserved"]
HAND_OVER = ["fence", "turn"]
HAND_OVER_AT_ONCE = ["turn"]
POLL = ["load cqe", "acquire"]

# The instruction that each operation must be. Compilers before CUDA 12.7 have no one-way fences.
INSTRUCTIONS = {
    "wqe": r"st\.global\.v2\.b64",
    "record": r"st\.relaxed\.sys\.global\.b32",
    "doorbell": r"st\.mmio\.relaxed\.sys\.global\.b64",
    "tail": r"st\.relaxed\.sys\.global\.b64",
    "turn": r"st\.relaxed\.sys\.global\.b32",
    "load tail": r"ld\.relaxed\.sys\.global\.b64",
    "compare-swap reserved": r"atom\.relaxed\.gpu\.global\.cas\.b32",
    "fence": r"fence\.(release|acq_rel)\.{scope}",
    "load cqe": r"ld\.relaxed\.sys\.global\.v2\.b64",
    "acquire": r"fence\.(acquire|acq_rel)\.sys",
}


def expect(what, found, wanted):
    if found != wanted:
        raise AssertionError(f"{what}: expected {wanted}, found {found}")


def summary(words):
    """["wqe", "wqe", "fence"] as "2 wqe, fence"."""
    counts = [(word, len(list(group))) for word, group in itertools.groupby(words)]
    return ", ".join(word if count == 1 else f"{count} {word}" for word, count in counts)


class Goldens:
    """Each method runs kernels of a program, and raises AssertionError where they cost, or do, something else."""

    def __init__(self, text, scope):
        self.program, self.scope = ptx_text.parse(text), scope

    def post_exclusive(self):
        self._expect_posts("PostExclusive", WQE + RING + STORE_END)
        self._expect_posts("PostExclusive", WQE + RING_WITHOUT_RECORD + STORE_END, has_record=False)

    def post_shared(self):
        self._expect_posts("PostShared", RESERVE + WQE + RING + HAND_OVER)
        self._expect_posts("PostShared", RESERVE + WQE + RING_WITHOUT_RECORD + HAND_OVER, has_record=False)

    def post_relaxed_shared(self):
        self._expect_posts("PostRelaxedShared", RESERVE + WQE + RING + HAND_OVER_AT_ONCE)

    def post_contended(self):
        """Who waits for another has released before it looks, and so hands over at once if a third will ring."""
        for looks in (1, 2, 5):
            wait = ["fence"] + looks * ["load tail"]
            for reserved, publish in ((3, RING + HAND_OVER), (4, HAND_OVER_AT_ONCE)):
                queue = nic.ContendedQueue(looks, reserved)
                trace = self._run("PostShared", queue, 1)
                begin = next(i for i, operation in enumerate(trace) if queue.word(operation) == RESERVE[0])
                end = next(i for i, operation in enumerate(trace) if queue.word(operation) == "turn") + 1
                self._expect_operations("PostShared", queue, trace[begin:end], RESERVE + WQE + wait + publish)
                expect("PostShared behind another: WQE", queue.wqe(2).hex(), nic.write_wqe(2).hex())
                expect("PostShared behind another: tail", queue.tail(), (3, reserved))

    def batch_exclusive(self):
        self._expect_posts("BatchExclusive", BATCH * WQE + RING + STORE_END, wqes=BATCH)

    def batch_shared(self):
        self._expect_posts("BatchShared", RESERVE + BATCH * WQE + RING + HAND_OVER, wqes=BATCH)

    def warp_exclusive(self):
        self._expect_posts("WarpExclusive", WARP * WQE + RING + STORE_END, wqes=WARP, lanes=WARP)

    def warp_shared(self):
        self._expect_posts("WarpShared", RESERVE + WARP * WQE + RING + HAND_OVER, wqes=WARP, lanes=WARP)

    def block_shared(self):
        for threads in (WARP, BLOCK):
            self._expect_posts("BlockShared", RESERVE + threads * WQE + RING + HAND_OVER, wqes=threads, lanes=threads)

    def low_level_post(self):
        for has_record, ring in ((True, RING), (False, RING_WITHOUT_RECORD)):
            queue = nic.SendQueue(first=7, has_record=has_record)
            self._expect_operations("LowLevelPost", queue, self._run("LowLevelPost", queue, 7), WQE + ring)
            expect("LowLevelPost: its WQE", queue.wqe(7).hex(), nic.write_wqe(7).hex())

    def poll(self):
        queue = nic.SendQueue(first=8)
        trace = self._run("LowLevelPoll", queue, 7)
        looks = [operation for operation in trace if queue.word(operation) != "result"]
        self._expect_operations("LowLevelPoll", queue, looks, POLL)
        self._expect_posts("PostAndWaitEachExclusive", POLL + WQE + RING + STORE_END)
        self._expect_posts("PostAndWaitEachShared", POLL + RESERVE + WQE + RING + HAND_OVER)

    def image(self):
        """Around the end of the queue, and of what 16 and 32 bits count."""
        for kernel, count, lanes in (("PostExclusive", 5, 1), ("PostShared", 5, 1), ("WarpExclusive", 1, WARP),
                                     ("WarpShared", 1, WARP), ("BlockShared", 1, BLOCK)):  # fmt: skip
            for first in (0, 62, 0xFFFE, 0xFFFFFFFE):
                queue = nic.SendQueue(first=first)
                self._run(kernel, queue, count, lanes)
                self._expect_image(kernel, queue, count * lanes, lanes)

    def choice(self):
        """Of the queues that one constant parameter brings, a kernel posts to the one it was told, and to no other."""
        kernels = {"ChooseBySelect": 2, "ChooseByPointer": 3, "ChooseByCopy": 3, "ChooseByBranch": 3}
        for kernel, count in kernels.items():
            for which in range(count):
                queues = [nic.SendQueue(depth=16 << i, first=3 * i, base=i << 24) for i in range(count)]
                chosen = queues[which]
                for queue in queues[:which] + queues[which + 1:]:
                    chosen.adopt(queue)
                chosen.set(nic.MORE, b"".join(queue.view() for queue in queues[1:]))
                jobs = queues[0].job(2) + queues[1].view() + nic.MORE.to_bytes(8, "little")
                trace = ptx.run(self.program[kernel], [jobs, which], chosen)
                stores = {chosen.word(operation) for operation in trace if operation.name.startswith("st.")}
                expect(f"{kernel} of queue {which}: stores", stores, {"doorbell", "record", "result", "tail", "wqe"})
                self._expect_image(f"{kernel} of queue {which}", chosen, 2)

    def instructions(self):
        too_many = {kernel: figure for kernel, figure in self.figures().items()
                    if figure > MAX_INSTRUCTIONS and not kernel.startswith(("Warp", "Block"))}  # fmt: skip
        expect("executed instructions of posts that need too many", too_many, {})

    def figures(self):
        """Executed instructions for each WQE, by kernel."""
        kernels = (("PostExclusive", 1, 1), ("PostShared", 1, 1), ("BatchExclusive", BATCH, 1),
                   ("BatchShared", BATCH, 1), ("WarpExclusive", WARP, WARP), ("WarpShared", WARP, WARP),
                   ("BlockShared", BLOCK, BLOCK))  # fmt: skip
        figures = {}
        for kernel, wqes, lanes in kernels:
            queue = nic.SendQueue(depth=8 * wqes)
            rings = [o.step for o in self._run(kernel, queue, 3, lanes) if queue.word(o) == "doorbell"]
            figures[kernel] = (rings[-1] - rings[-2]) / (wqes / lanes)
        return figures

    def _run(self, kernel, queue, count, lanes=1):
        return ptx.run(self.program[kernel], [queue.job(count)], queue, lanes)

    def _expect_posts(self, kernel, wanted, wqes=1, lanes=1, has_record=True):
        """Compares all posts but the first, which looks for free slots, with the operations that are wanted.

        Lanes that do not ring may end before the one that does, so their results may come anywhere.
        """
        count = 4
        queue = nic.SendQueue(depth=8 * wqes, first=wqes, has_record=has_record)
        trace = [o for o in self._run(kernel, queue, count, lanes) if queue.word(o) != "result"]
        ends = [i + 1 for i, operation in enumerate(trace) if queue.word(operation) == wanted[-1]]
        expect(f"{kernel}: posts", len(ends), count)
        for start, end in zip(ends, ends[1:]):
            self._expect_operations(kernel, queue, trace[start:end], wanted)
        self._expect_image(kernel, queue, count * wqes, lanes)

    def _expect_operations(self, kernel, queue, operations, wanted):
        found = [queue.word(operation) for operation in operations]
        expect(kernel, summary(found), summary("fence" if word == "acquire" else word for word in wanted))
        for operation, word in zip(operations, wanted):
            instruction = INSTRUCTIONS[word].format(scope=self.scope)
            if not re.fullmatch(instruction, operation.name):
                raise AssertionError(f"{kernel}: {operation.name} for {word}")

    @staticmethod
    def _expect_image(kernel, queue, wqes, lanes=1):
        """Every byte that the NIC reads, and what the next kernel finds."""
        end = queue.first + wqes
        for index in range(queue.first, end):
            wanted = nic.write_wqe(index, (index - queue.first) % lanes * nic.LENGTH)
            expect(f"{kernel}: WQE {index}", queue.wqe(index).hex(), wanted.hex())
        record, doorbell = queue.rung()
        expect(f"{kernel}: record", record, end % 2**16 if queue.has_record else 0)
        expect(f"{kernel}: doorbell", doorbell.hex(), nic.write_wqe(end - 1)[:8].hex())
        expect(f"{kernel}: tail", queue.tail(), (end % 2**32, end % 2**32))
        for lane in range(lanes):
            expect(f"{kernel}: status", queue.result(lane).hex(), bytes(8).hex())
