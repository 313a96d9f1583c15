"""Kernels in Python on threads of the processor."""

import ctypes
import inspect
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from warpverbs import _table

try:
    _table.folder()
except FileNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)

from warpverbs import kernels  # noqa: E402


class Queue:
    """A send queue in ordinary memory, whose NIC never answers: a device::QueueView."""

    DEPTH = 64

    class View(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in ("sq", "doorbell", "dbrec", "cqe", "control")] + [
            (name, ctypes.c_uint32) for name in ("qpn_be", "depth", "max_message", "sink_lkey_be", "flags", "cq_depth")
        ]  # fmt: skip

    def __init__(self):
        self.memory = ctypes.create_string_buffer(64 * self.DEPTH + 4096)
        self.sq = (ctypes.addressof(self.memory) + 1023) & ~1023
        cqe = self.sq + 64 * self.DEPTH
        ctypes.memset(cqe, 0xFF, 64)
        self.words = (ctypes.c_uint64 * 16)()
        words = ctypes.addressof(self.words)
        self.view = self.View(self.sq, words, words + 8, cqe, cqe + 1024, 0x12345600, self.DEPTH, 1 << 30, 0, 0, 1)
        self.address = ctypes.addressof(self.view)

    def slot(self, index):
        return ctypes.string_at(self.sq + 64 * (index % self.DEPTH), 64)


WRITE = (0x1122334455667700, 0x0A0B0C0D, 0x3132333435363700, 24, 0x2A2B2C2D)  # remote, rkey, local, bytes, lkey


def test_view_has_the_size_of_the_table():
    assert ctypes.sizeof(Queue.View) == _table.table().constants["WV_QUEUE_VIEW_BYTES"]


def test_memory_of_calls_has_the_sizes_of_the_table():
    constants = _table.table().constants
    for memory, name in ((kernels.Poster, "POSTER"), (kernels.Batch, "BATCH"), (kernels.Received, "RECEIVED")):
        assert ctypes.sizeof(memory) == constants[f"WV_{name}_BYTES"]


def test_module_has_every_function_and_constant_of_the_table():
    for function in _table.table().functions.values():
        assert callable(getattr(kernels, function.python_name))
    for name, value in _table.table().constants.items():
        assert getattr(kernels, name.removeprefix("WV_")) == value
    assert {"write", "write_block_shared_system", "OK", "run_block"} <= set(dir(kernels))
    with pytest.raises(AttributeError, match="no attribute teleport"):
        kernels.teleport


def test_call_in_the_form_of_c_and_short_form_write_the_same_wqe():
    queue = Queue()
    first = kernels.write_thread_shared_system(queue.address, 0, *WRITE, kernels.CQE_ALWAYS, 0, 0)
    second = kernels.write(queue.address, *WRITE)
    assert (kernels.code(first), kernels.ticket(first)) == (kernels.OK, 0)
    assert (kernels.code(second), kernels.ticket(second)) == (kernels.OK, 1)
    ours, short = queue.slot(0), queue.slot(1)
    assert ours[3] == 8  # RDMA write
    assert ours[:1] + ours[3:] == short[:1] + short[3:]  # all but the index
    assert WRITE[0].to_bytes(8, "big") in ours


def test_poster_and_batch_are_passed_as_objects():
    queue, poster, batch = Queue(), kernels.Poster(), kernels.Batch()
    assert kernels.begin(queue.address, batch, 2, poster=poster) == kernels.OK
    for _ in range(2):
        assert kernels.code(kernels.add_write(queue.address, batch, *WRITE)) == kernels.OK
    assert kernels.ticket(kernels.submit(queue.address, batch, poster=poster)) == 1
    assert any(poster.words)


def test_wrong_number_of_arguments_names_them():
    with pytest.raises(TypeError, match="takes 5 arguments: signal, compare, value, deadline_ns, abort_word"):
        kernels.signal_wait_thread(1, 2)


def test_block_posts_once_and_all_threads_get_the_result():
    queue, results = Queue(), {}
    block = kernels.calls(group="block")
    warp = kernels.calls(group="warp")

    def kernel(thread, address):
        results[thread] = block.write(address, *WRITE), warp.write(address, *WRITE)

    kernels.run_block(kernel, queue.address, threads=8, warp_lanes=4)
    assert {kernels.ticket(by_block) for by_block, _ in results.values()} == {0}
    assert [kernels.ticket(by_warp) for _, by_warp in (results[0], results[4])] in ([1, 2], [2, 1])
    assert len(results) == 8


def test_wait_lets_other_threads_run():
    word = ctypes.c_uint64(0)
    started = threading.Event()

    def set_word():
        started.wait()
        time.sleep(0.01)  # the call has begun, most times
        word.value = 7

    setter = threading.Thread(target=set_word)
    setter.start()
    started.set()
    deadline = kernels.now_ns() + 60_000_000_000
    # The form of C does not come back to Python before the deadline.
    assert kernels.signal_wait_thread(ctypes.addressof(word), kernels.EQUAL, 7, deadline, 0) == kernels.OK
    setter.join()


def test_deadline_of_a_short_form_is_kept():
    word = ctypes.c_uint64(0)
    result = kernels.signal_wait(ctypes.addressof(word), kernels.EQUAL, 7, deadline_ns=kernels.now_ns() + 1_000_000)
    assert kernels.code(result) == kernels.TIMEOUT


def test_first_exception_of_a_kernel_ends_the_others():
    word = ctypes.c_uint64(0)
    codes = []

    def kernel(thread):
        if thread == 2:
            raise ValueError("thread 2 objects")
        codes.append(kernels.code(kernels.signal_wait(ctypes.addressof(word), kernels.EQUAL, 7)))

    with pytest.raises(ValueError, match="thread 2 objects"):
        kernels.run_block(kernel, threads=4, warp_lanes=4)
    assert codes == [kernels.ABORTED] * 3


def test_threads_of_a_group_stay_together_when_a_deadline_passes():
    """Each thread has a deadline of its own; that of one of them counts."""
    word = ctypes.c_uint64(0)
    for group in ("block", "warp"):
        calls = kernels.calls(group=group)
        codes = {}

        def kernel(thread):
            deadline = calls.now_ns() + (75_000_000 if thread == 0 else 20_000_000)
            timed_out = calls.signal_wait(ctypes.addressof(word), calls.EQUAL, 7, deadline_ns=deadline)
            test = calls.signal_test(ctypes.addressof(word), calls.EQUAL, 0)
            codes[thread] = calls.code(timed_out), calls.code(test)

        kernels.run_block(kernel, threads=4, warp_lanes=4)
        assert codes == dict.fromkeys(range(4), (kernels.TIMEOUT, kernels.OK))


def test_block_whose_first_thread_raises_gets_no_earlier_result():
    word = ctypes.c_uint64(0)
    block = kernels.calls(group="block")
    codes = []

    def kernel(thread):
        block.signal_test(ctypes.addressof(word), block.EQUAL, 0)
        if thread == 0:
            raise ValueError("thread 0 objects")
        codes.append(block.code(block.signal_test(ctypes.addressof(word), block.EQUAL, 0)))

    with pytest.raises(ValueError, match="thread 0 objects"):
        kernels.run_block(kernel, threads=4)
    assert codes == [kernels.ABORTED] * 3


def test_block_whose_first_thread_ends_is_an_error():
    word = ctypes.c_uint64(0)
    test = kernels.calls(group="block").signal_test
    codes = []

    def kernel(thread):
        test(ctypes.addressof(word), kernels.EQUAL, 0)
        if thread != 0:
            codes.append(kernels.code(test(ctypes.addressof(word), kernels.EQUAL, 0)))

    with pytest.raises(RuntimeError, match="^Cannot run a block of 4 threads: "):
        kernels.run_block(kernel, threads=4)
    assert codes == [kernels.ABORTED] * 3


def test_exception_of_one_thread_ends_the_tests_of_the_others():
    word = ctypes.c_uint64(0)

    def kernel(thread):
        if thread == 2:
            raise ValueError("thread 2 objects")
        while kernels.code(test(ctypes.addressof(word), kernels.EQUAL, 7)) == kernels.PENDING:
            pass

    for group in ("block", "thread"):
        test = kernels.calls(group=group).signal_test
        with pytest.raises(ValueError, match="thread 2 objects"):
            kernels.run_block(kernel, threads=4)


def test_value_that_is_too_large_is_refused():
    with pytest.raises(ValueError, match="^Cannot pass 0x10000000000 as rkey: it has 32 bits"):
        kernels.write(Queue().address, WRITE[0], 1 << 40, *WRITE[2:])


def test_lane_that_leaves_its_warp_is_an_error_of_the_block():
    warp = kernels.calls(group="warp")
    word = ctypes.c_uint64(0)
    codes = []

    def kernel(thread):
        if thread != 1:
            codes.append(kernels.code(warp.signal_test(ctypes.addressof(word), kernels.EQUAL, 0)))

    with pytest.raises(RuntimeError, match="^Cannot run a block of 4 threads: "):
        kernels.run_block(kernel, threads=4, warp_lanes=4)
    assert codes == [kernels.ABORTED] * 3


def test_block_refuses_sizes_that_do_not_exist():
    for sizes in ({"threads": 0}, {"threads": 70000}, {"warp_lanes": 0}, {"warp_lanes": 65}):
        with pytest.raises(ValueError, match="^Cannot run a block of "):
            kernels.run_block(lambda thread: None, **sizes)


def test_ctrl_c_ends_a_wait():
    program = """
import ctypes, signal, sys
from warpverbs import kernels
signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background may have had it ignored
word = ctypes.c_uint64(0)
wait = lambda *_: kernels.signal_wait(ctypes.addressof(word), kernels.EQUAL, 7)
try:
    print("waits", flush=True)
    kernels.run_block(wait, threads=2) if sys.argv[1] == "block" else wait()
except KeyboardInterrupt:
    print("interrupted")
"""
    package = os.path.dirname(os.path.dirname(kernels.__file__))
    environment = {**os.environ, "PYTHONPATH": package, "WARPVERBS_DEVICE_LIBRARY": str(_table.folder())}
    for where in ("block", "thread"):
        command = [sys.executable, "-c", program, where]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            try:
                assert process.stdout.readline() == "waits\n"
                process.send_signal(signal.SIGINT)
                assert process.communicate(timeout=60)[0] == "interrupted\n"
            finally:
                process.kill()


def test_short_forms_say_what_they_call():
    assert kernels.write.__doc__ == "Calls wv_write_thread_shared_system() of warpverbs/device_abi.h."
    assert list(inspect.signature(kernels.wait).parameters) == ["queue", "posted", "deadline_ns", "abort_word", "poster"]


def test_block_writes_to_a_peer_and_signals(pair):
    local, remote = pair.local.local(), pair.remote.remote()
    block = kernels.calls(group="block")
    results = {}

    def kernel(thread):
        posted = block.put_signal_set(pair.a.queue, remote.address, remote.rkey, local.address, 512, local.lkey,
                                      remote.address + 1016, remote.rkey, 7)  # fmt: skip
        results[thread] = block.code(block.wait(pair.a.queue, posted)), block.code(
            block.signal_wait(remote.address + 1016, block.EQUAL, 7))  # fmt: skip

    kernels.run_block(kernel, threads=4, warp_lanes=2)
    assert results == dict.fromkeys(range(4), (kernels.OK, kernels.OK))
    assert (pair.target[:512] == pair.source[:512]).all()
    assert not pair.target[512:1016].any()
    assert kernels.queue_error(pair.a.queue) == kernels.OK


def test_error_of_a_call_has_its_syndrome(pair):
    local, remote = pair.local.local(), pair.remote.remote()
    result = kernels.wait(pair.a.queue, kernels.write(pair.a.queue, remote.address, remote.rkey ^ 1, local.address, 8, local.lkey))
    assert kernels.code(result) == kernels.ERROR
    assert kernels.syndrome(result) == 0x13  # remote access
    assert pair.a.last_error() is not None
