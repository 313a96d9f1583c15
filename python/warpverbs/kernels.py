"""The device library on threads of the processor: kernels in Python that need no GPU.

Every function of warpverbs/device_abi.h is here without its `wv_`, and so are the constants: `write_block_shared_system`, `OK`.
`write` is its short form, for a thread, a shared queue and the scope system; calls() makes those of other groups. Calls wait
without the GIL.

    def kernel(thread, queue, remote, rkey, local, lkey, signal):
        posted = block.put_signal_add(queue, remote, rkey, local, 1024, lkey, signal, rkey, 1)
        assert block.code(block.wait(queue, posted)) == block.OK

    block = kernels.calls(group="block")
    kernels.run_block(kernel, queue, remote, rkey, local, lkey, signal, threads=32)
"""

from __future__ import annotations

import ctypes
import functools
import threading
import types
from collections.abc import Callable

from . import _table
from ._table import FOREVER

__all__ = ["FOREVER", "Batch", "Poster", "Received", "calls", "run_block"]

_TYPES = {"uint8_t": ctypes.c_uint8, "uint16_t": ctypes.c_uint16, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64}
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32)
_SLICE_NS = 50_000_000  # a wait without a block's abort word comes back to Python this often, for Ctrl-C

_library = ctypes.CDLL(str(_table.file("libwarpverbs_device_cpu.so")))
_library.wv_run_block.argtypes = [_KERNEL, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
_library.wv_run_block.restype = ctypes.c_int
_here = threading.local()  # .block: the block of the calling thread


class _Memory(ctypes.Structure):
    """Memory that calls take the address of. Keep it as long as calls use it."""

    @property
    def address(self) -> int:
        return ctypes.addressof(self)

    def __int__(self) -> int:
        return self.address


class Poster(_Memory):
    """What one thread, warp or block knows of one queue between its calls: wv_poster."""

    _fields_ = [("words", ctypes.c_uint64 * 4)]


class Batch(_Memory):
    """A batch, from begin() to submit(): wv_batch."""

    _fields_ = [("words", ctypes.c_uint64 * 8)]


class Received(_Memory):
    """A message or a write with immediate that has arrived: wv_received."""

    _fields_ = [(name, ctypes.c_uint32) for name in ("index", "bytes", "imm", "flags")]


class _Block:
    """The first error of a kernel that runs as a block."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._abort_word = ctypes.c_uint64(0)
        self.abort_word = ctypes.addressof(self._abort_word)  # of waits: one word, so that all threads of a group end alike

    def fail(self, error: BaseException) -> None:
        """Keeps an error, if it is the first one, and ends the waits of the block."""
        self.error = self.error or error
        self._abort_word.value = 1


def _convert(make: Callable, value: int, name: str) -> object:
    """Returns a value as C has it. Raises ValueError if it is out of range."""
    bits = 8 * ctypes.sizeof(make)
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise ValueError(f"Cannot pass {value:#x} as {name}: it has {bits} bits. Pass a value of that size.")
    return make(value)


@functools.cache
def _function(name: str) -> Callable:
    """Returns a function of the library by its name in C. Its arguments are integers, or objects with an address."""
    function = _table.table().functions[name]
    found = _library[name]
    found.argtypes = None
    found.restype = _TYPES[function.result]
    converters = [_TYPES[type_name] for type_name, _ in function.arguments]
    names = function.argument_names
    abort_word = names.index("abort_word") if "abort_word" in names else None
    in_group = function.parts[1] is not None
    aborted = _table.table().constants["WV_ABORTED"]

    def call(*arguments):
        if len(arguments) != len(converters):
            raise TypeError(f"{function.python_name}() takes {len(converters)} arguments: {', '.join(names)}")
        values = [int(argument) for argument in arguments]
        block = getattr(_here, "block", None) if in_group else None
        if block and abort_word is not None:
            values[abort_word] = values[abort_word] or block.abort_word
        result = found(*(_convert(make, value, name) for make, value, name in zip(converters, values, names)))
        return aborted if block and block.error else result

    call.__name__ = call.__qualname__ = function.python_name
    call.__doc__ = f"Calls {name}({', '.join(function.argument_names)}) of warpverbs/device_abi.h."
    return call


def _short_form(function: _table.Function) -> Callable:
    call = _function(function.name)
    if "deadline_ns" not in function.argument_names:
        return _table.short_form(function, call)
    at, abort_word = map(function.argument_names.index, ("deadline_ns", "abort_word"))
    together = function.parts[1] != "thread"
    now_ns, code = _function("wv_now_ns"), _function("wv_code")
    timeout = _table.table().constants["WV_TIMEOUT"]

    def wait(*arguments):
        before, deadline, behind = arguments[:at], int(arguments[at]), arguments[at + 1 :]
        if getattr(_here, "block", None) and (not int(arguments[abort_word]) or together and deadline != FOREVER):
            return call(*arguments)  # near a deadline, the threads of a group would disagree on whether to call again
        while True:
            until = min(deadline, now_ns() + _SLICE_NS)
            result = call(*before, until, *behind)
            if code(result) != timeout or until == deadline:
                return result

    return _table.short_form(function, wait)


def calls(group: str = "thread", sharing: str = "shared", scope: str = "system") -> types.ModuleType:
    """Returns the short forms of the library's functions for a group ("thread", "warp", "block" or "lanes"), a sharing of the
    queue ("exclusive", "shared" or "relaxed") and a scope ("gpu" or "system").

    Arguments are as in C; those that have a default can be left out. deadline_ns is FOREVER by default: such a call ends when
    it is done, by Ctrl-C, or when another thread of its block raises. In a block, a call of a
    group with a deadline and an abort word of its own ends only by these.
    """
    return _table.calls(__name__, _short_form, group, sharing, scope)


def run_block(kernel: Callable, *arguments: object, threads: int = 1, warp_lanes: int = 32) -> None:
    """Runs kernel(thread, *arguments) on each of `threads` threads, which are a block, and returns when all have ended.

    `warp_lanes`: 1 to 64; the last warp may be shorter.

    Raises the first exception of the kernel; RuntimeError if a thread could not be started, or ended while others of its warp
    or block waited for it. Calls of the block's other threads then return with the code ABORTED, and have to end their thread.
    """
    if not 1 <= threads < 2**16 or not 1 <= warp_lanes <= 64:
        raise ValueError(f"Cannot run a block of {threads} threads in warps of {warp_lanes}: warps have 1 to 64 lanes, and "
                         "blocks 1 to 65535 threads. Pass other numbers.")  # fmt: skip
    block = _Block()

    def run(_, thread):
        _here.block = block
        try:
            kernel(thread, *arguments)
        except BaseException as error:
            block.fail(error)
        finally:
            _here.block = None

    status = []
    callback = _KERNEL(run)
    # This thread waits in Python, where Ctrl-C is noticed.
    runner = threading.Thread(target=lambda: status.append(_library.wv_run_block(callback, None, threads, warp_lanes)))
    try:
        runner.start()
        runner.join()
    except BaseException as error:
        block.fail(error)
        if runner.ident is not None:
            runner.join()
    if block.error:
        raise block.error
    if status != [0]:
        raise RuntimeError(f"Cannot run a block of {threads} threads: a thread could not be started, or one ended while others "
                           "of its warp or block waited for it. Let all threads make the same calls.")  # fmt: skip


__getattr__, __dir__ = _table.attributes(globals(), lambda function: _function(function.name), calls())
