"""The expected operations and costs of the kernels of cuda_kernels.cu, which run in the interpreter."""

import itertools
import re

import nic
import ptx
import ptx_text

WARP, BLOCK, BATCH = 32, 64, 16
MAX_INSTRUCTIONS = 100  # per post

WQE = 3 * ["wqe"]
FILLED_WQE = WQE + ["wqe"]  # by a warp, which also fills the second half of the last sector
RING = ["fence", "record", "fence", "doorbell"]
RING_WITHOUT_RECORD = ["fence", "doorbell"]
STORE_END = ["tail"]
RESERVE = ["compare-swap reserved"]
PUBLISH = ["fence", "published"]
PUBLISH_WITHOUT_RELEASE = ["published"]
POLL = ["load cqe", "acquire"]
WAIT = ["load cqe", "cursor", "acquire"]

# The instruction for each operation. Compilers before CUDA 12.7 have no one-way fences.
INSTRUCTIONS = {
    "wqe": r"st\.global\.v2\.b64",
    "record": r"st\.relaxed\.sys\.global\.b32",
    "doorbell": r"st\.mmio\.relaxed\.sys\.global\.b64",
    "tail": r"st\.relaxed\.sys\.global\.b64",
    "published": r"st\.relaxed\.sys\.global\.b32",
    "load tail": r"ld\.relaxed\.sys\.global\.b64",
    "compare-swap reserved": r"atom\.relaxed\.gpu\.global\.cas\.b32",
    "fence": r"fence\.(release|acq_rel)\.{scope}",
    "load cqe": r"ld\.relaxed\.sys\.global\.v2\.b64",
    "cursor": r"st\.relaxed\.sys\.global\.b64",
    "acquire": r"fence\.(acquire|acq_rel)\.sys",
}


def expect(what, found, wanted):
    if found != wanted:
        raise AssertionError(f"{what}: expected {wanted}, found {found}")


def summary(words):
    """Formats ["wqe", "wqe", "fence"] as "2 wqe, fence"."""
    counts = [(word, len(list(group))) for word, group in itertools.groupby(words)]
    return ", ".join(word if count == 1 else f"{count} {word}" for word, count in counts)


class Goldens:
    """Each method runs kernels of a program, and raises AssertionError if their operations or costs differ."""

    def __init__(self, text, scope):
        self.program, self.scope = ptx_text.parse(text), scope

    def post_exclusive(self):
        self._expect_posts("PostExclusive", WQE + RING + STORE_END)
        self._expect_posts("PostExclusive", WQE + RING_WITHOUT_RECORD + STORE_END, has_record=False)

    def post_shared(self):
        self._expect_posts("PostShared", RESERVE + WQE + RING + PUBLISH)
        self._expect_posts("PostShared", RESERVE + WQE + RING_WITHOUT_RECORD + PUBLISH, has_record=False)

    def post_relaxed_shared(self):
        self._expect_posts("PostRelaxedShared", RESERVE + WQE + RING + PUBLISH_WITHOUT_RELEASE)

    def post_contended(self):
        """A poster releases before it waits for a predecessor. With a successor it publishes without ringing or releasing."""
        for loads in (1, 2, 5):
            wait = ["fence"] + loads * ["load tail"]
            for reserved, wanted in ((3, RING + PUBLISH), (4, PUBLISH_WITHOUT_RELEASE)):
                queue = nic.ContendedQueue(loads, reserved)
                trace = self._run("PostShared", queue, 1)
                begin = next(i for i, operation in enumerate(trace) if queue.word(operation) == RESERVE[0])
                end = next(i for i, operation in enumerate(trace) if queue.word(operation) == "published") + 1
                self._expect_operations("PostShared", queue, trace[begin:end], RESERVE + WQE + wait + wanted)
                expect("PostShared behind another: WQE", queue.wqe(2).hex(), nic.write_wqe(2).hex())
                expect("PostShared behind another: tail", queue.tail(), (3, reserved))

    def batch_exclusive(self):
        self._expect_posts("BatchExclusive", BATCH * WQE + RING + STORE_END, wqes=BATCH)

    def batch_shared(self):
        self._expect_posts("BatchShared", RESERVE + BATCH * WQE + RING + PUBLISH, wqes=BATCH)

    def warp_exclusive(self):
        self._expect_posts("WarpExclusive", WARP * FILLED_WQE + RING + STORE_END, wqes=WARP, lanes=WARP)

    def warp_shared(self):
        self._expect_posts("WarpShared", RESERVE + WARP * FILLED_WQE + RING + PUBLISH, wqes=WARP, lanes=WARP)

    def block_shared(self):
        for threads in (WARP, BLOCK):
            self._expect_posts("BlockShared", RESERVE + threads * WQE + RING + PUBLISH, wqes=threads, lanes=threads)

    def full_queue(self):
        """A post of a group computes its WQEs before it knows whether they fit. If not, they are not stored."""
        full = 2  # Code::kFull
        for kernel, lanes in (("WarpExclusive", WARP), ("WarpShared", WARP), ("BlockShared", BLOCK)):
            queue = nic.SendQueue(depth=lanes, first=lanes, busy=1)
            stores = {queue.word(o) for o in self._run(kernel, queue, 1, lanes) if o.name.startswith(("st.", "atom."))}
            expect(f"{kernel} on a full queue: stores", stores, {"result"})
            for lane in range(lanes):
                expect(f"{kernel} on a full queue: code", queue.result(lane)[0], full)

    def post_counted(self):
        """Counting adds no access of memory to a post. Tracing adds two events; the time of a post is read before."""
        self._expect_posts("CountedExclusive", WQE + RING + STORE_END)
        self._expect_posts("CountedShared", RESERVE + WQE + RING + PUBLISH)
        self._expect_posts("CountedWarpShared", RESERVE + WARP * FILLED_WQE + RING + PUBLISH, wqes=WARP, lanes=WARP)
        self._expect_posts("CountedPostAndWaitEachShared", WAIT + RESERVE + WQE + RING + PUBLISH)

    def counts(self):
        """A queue that ends adds its counts."""
        for kernel, posts, wqebbs, lanes in (("CountedExclusive", 5, 5, 1), ("CountedShared", 5, 5, 1),
                                             ("CountedWarpShared", 5, 5 * WARP, WARP)):  # fmt: skip
            queue = nic.SendQueue(depth=8 * lanes)
            self._run(kernel, queue, 5, lanes)
            expect(f"{kernel}: posts, wqebbs, doorbells, elided", queue.counters()[:4], (posts, wqebbs, posts, 0))

    def low_level_post(self):
        for has_record, ring in ((True, RING), (False, RING_WITHOUT_RECORD)):
            queue = nic.SendQueue(first=7, has_record=has_record)
            self._expect_operations("LowLevelPost", queue, self._run("LowLevelPost", queue, 7), WQE + ring)
            expect("LowLevelPost: its WQE", queue.wqe(7).hex(), nic.write_wqe(7).hex())

    def poll(self):
        queue = nic.SendQueue(first=8, collapsed=True)
        trace = self._run("LowLevelPoll", queue, 7)
        poll = [operation for operation in trace if queue.word(operation) != "result"]
        self._expect_operations("LowLevelPoll", queue, poll, POLL)
        self._expect_posts("PostAndWaitEachExclusive", WAIT + WQE + RING + STORE_END)
        self._expect_posts("PostAndWaitEachShared", WAIT + RESERVE + WQE + RING + PUBLISH)

    def image(self):
        """Compares WQEs around the end of the queue and where indices of 16 and 32 bits wrap."""
        for kernel, count, lanes in (("PostExclusive", 5, 1), ("PostShared", 5, 1), ("WarpExclusive", 1, WARP),
                                     ("WarpShared", 1, WARP), ("BlockShared", 1, BLOCK)):  # fmt: skip
            for first in (0, 62, 0xFFFE, 0xFFFFFFFE):
                queue = nic.SendQueue(first=first)
                self._run(kernel, queue, count, lanes)
                self._expect_image(kernel, queue, count * lanes, lanes)

    def choice(self):
        """Expects that a kernel posts only to the chosen one of several queues in a constant parameter."""
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
                    if figure > MAX_INSTRUCTIONS and not kernel.startswith(("Warp", "Block", "CountedWarp"))}  # fmt: skip
        expect("executed instructions of posts that need too many", too_many, {})

    def figures(self, kernels=None):
        """Returns the number of executed instructions per WQE for each kernel, or for those that are named."""
        shapes = (("PostExclusive", 1, 1), ("PostShared", 1, 1), ("PostRelaxedShared", 1, 1), ("BatchExclusive", BATCH, 1),
                  ("BatchShared", BATCH, 1), ("WarpExclusive", WARP, WARP), ("WarpShared", WARP, WARP),
                  ("BlockShared", BLOCK, BLOCK), ("CountedExclusive", 1, 1), ("CountedShared", 1, 1),
                  ("CountedWarpShared", WARP, WARP))  # fmt: skip
        figures = {}
        for kernel, wqes, lanes in shapes:
            if kernels is not None and kernel not in kernels:
                continue
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
        """Compares every byte that the NIC reads and the state that the next kernel finds."""
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
