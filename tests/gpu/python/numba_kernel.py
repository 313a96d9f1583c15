"""A kernel of Numba-CUDA puts, signals and waits."""

import numpy
from common import WORDS, arguments, check, need, pair, report

if not hasattr(numpy, "row_stack"):  # Numba-CUDA 0.28 needs it, and NumPy 2.5 has it under its other name only
    numpy.row_stack = numpy.vstack
need("numba.cuda")
import numba
import torch
from numba import cuda

from warpverbs import numba as wv


# In Numba, an unsigned number and a signed one make a floating-point one: times are numpy.uint64, the rest is signed.
@cuda.jit
def exchange(queue, poster, source, source_address, lkey, remote, rkey, signal, target, rounds, timeout_ns, outcome):
    limit = wv.now_ns() + timeout_ns
    for number in range(rounds):
        for word in range(source.size):
            source[word] = 7919 * number + word
        result = wv.put_signal_add(queue, remote, rkey, source_address, 4 * source.size, lkey, signal, rkey, 1,
                                   deadline_ns=limit, poster=poster)  # fmt: skip
        result = wv.wait(queue, result, deadline_ns=limit)
        if wv.code(result) == wv.OK:
            result = wv.signal_wait(signal, wv.GREATER_OR_EQUAL, number + 1, deadline_ns=limit)
        if wv.code(result) != wv.OK:
            outcome[0] = result
            return
        # What the NIC wrote is read by an atomic: an ordinary load may find an older value in the cache.
        for word in range(source.size):
            if cuda.atomic.add(target, word, 0) != 7919 * number + word:
                outcome[1] += 1
        outcome[2] = number + 1


def main():
    options = arguments(__doc__, rounds=500, seconds=60)
    with pair() as (a, b):
        source, target = a.zeros(WORDS, torch.int32), b.zeros(WORDS + 2, torch.int32)
        outcome = a.zeros(3)
        local, remote = a.register(source).local(), b.register(target).remote()
        torch.cuda.synchronize()
        stream = cuda.external_stream(a.stream.cuda_stream)

        def launch(rounds):
            exchange[1, 1, stream](a.endpoint.queue, a.poster.data_ptr(), cuda.as_cuda_array(source), local.address, local.lkey,
                                   remote.address, remote.rkey, remote.address + 4 * WORDS, cuda.as_cuda_array(target[:WORDS]),
                                   rounds, numpy.uint64(options.seconds * 10**9), cuda.as_cuda_array(outcome))  # fmt: skip

        launch(0)  # compiles and loads it
        a.wait("loading the kernel", options.seconds)
        launch(options.rounds)
        a.wait("the kernel", options.seconds + 5)
        result, wrong, rounds = outcome.tolist()
        a.expect_ok(result, f"round {rounds}")
        check((rounds, wrong) == (options.rounds, 0), f"{rounds} rounds of {options.rounds}, {wrong} wrong words")
    return f"{options.rounds} puts, signals and waits by Numba {numba.__version__}"


if __name__ == "__main__":
    report(main)
