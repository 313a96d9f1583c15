"""What the tests of kernels in Python share. They run on an NVIDIA GPU, under softhca: tests/gpu/python/run."""

import argparse
import contextlib
import importlib
import sys
import time
import traceback

import torch

import warpverbs

SKIPPED = 77  # the exit status of a part that a missing package rules out
WORDS = 128  # of a message: one for each thread of a Triton program with four warps
MESSAGE = 4 * WORDS  # bytes


def arguments(description, **defaults):
    """Returns the options of a part: its numbers, by name."""
    parser = argparse.ArgumentParser(description=description)
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=type(value), default=value, help=f"({value})")
    return parser.parse_args()


def need(name):
    """Imports a module, or ends the program with the reason."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"SKIPPED: {error}")
        sys.exit(SKIPPED)


def report(main):
    """Runs the main function of a part, which returns a sentence, and prints a line with its result."""
    begin = time.monotonic()
    try:
        sentence = main()
    except Exception as error:
        traceback.print_exc()
        print(f"FAILED after {time.monotonic() - begin:.1f} s: {type(error).__name__}: {error}", flush=True)
        sys.exit(1)
    print(f"PASSED in {time.monotonic() - begin:.1f} s: {sentence}", flush=True)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


class Side:
    """One end of a connection: an endpoint whose queues kernels drive, and tensors that both NICs reach.

    `memory` says where the tensors are: "gpu" or "pinned".
    """

    def __init__(self, depth=1024, memory="gpu"):
        torch.cuda.init()
        self.memory = memory
        self.gpu = warpverbs.Gpu(0)
        self.nic = warpverbs.Device()
        self.endpoint = warpverbs.Endpoint(self.nic, gpu=self.gpu, depth=depth)
        self.stream = torch.cuda.Stream()  # PyTorch's do not wait for the legacy stream
        self.poster = self.zeros(4)
        self.regions = []

    def zeros(self, count, dtype=torch.int64):
        if self.memory == "pinned":
            return torch.zeros(count, dtype=dtype, pin_memory=True)
        return torch.zeros(count, dtype=dtype, device=self.gpu.name)

    def register(self, tensor):
        """Returns the region of a tensor. It lives as long as the side does."""
        self.regions.append(warpverbs.Region(self.nic, tensor, remote_write=True, remote_read=True, remote_atomic=True))
        return self.regions[-1]

    def wait(self, what, seconds, stream=None):
        """Waits for the stream, and fails after so many seconds: a kernel ends by itself, somewhat earlier."""
        event = torch.cuda.Event()
        event.record(stream or self.stream)
        end = time.monotonic() + seconds
        while not event.query():
            check(time.monotonic() < end, f"{what}: the stream is not done after {seconds} s; {self.endpoint.counters()}")
            time.sleep(0.001)

    def expect_ok(self, word, what):
        """Checks the result of a call of the library."""
        word &= 2**64 - 1
        check(word & 0xFF == 0, f"{what} ended with 0x{word:x}: {self.endpoint.last_error()}")


@contextlib.contextmanager
def pair(**settings):
    """Two connected sides in this process."""
    a, b = Side(**settings), Side(**settings)
    a.endpoint.connect(b.endpoint.info())
    b.endpoint.connect(a.endpoint.info())
    torch.cuda.synchronize()
    yield a, b
    torch.cuda.synchronize()
    a.endpoint.close()
    b.endpoint.close()
