#!/usr/bin/env python3
"""The interchange with a Triton kernel: it writes a tensor to another endpoint, adds to a signal there, and waits for both.

Needs an NVIDIA GPU, torch and Triton. Read interchange.py first: the steps around the kernel are the same.

    softhca -- python3 examples/python/triton_interchange.py
"""

import sys

import torch
import triton.language as tl

import warpverbs
from warpverbs import triton as wv

NUMBERS, SECONDS = 1024, 20


# The calls of `wv` are calls of a block: each thread of the program makes them, one of the threads posts, and all get the
# result. So a post sends what any thread has stored before it.
@wv.jit
def send_numbers(queue, source, lkey, remote, rkey, signal, target, timeout_ns, results, N: tl.constexpr):
    numbers = tl.arange(0, N)
    tl.store(source + numbers, 1.0 + numbers)

    limit = wv.now_ns() + timeout_ns  # a kernel never waits without end
    posted = wv.put_signal_add(queue, remote, rkey, source, 4 * N, lkey, signal, rkey, 1, deadline_ns=limit)
    tl.store(results, wv.wait(queue, posted, deadline_ns=limit))  # the peer's NIC has acknowledged both

    # The other side's part. A NIC writes past the caches of the GPU's processors, and volatile loads look past them, too.
    tl.store(results + 1, wv.signal_wait(signal, wv.GREATER_OR_EQUAL, 1, deadline_ns=limit))
    arrived = tl.load(target + numbers, volatile=True)
    tl.store(results + 2, tl.sum((arrived == 1.0 + numbers).to(tl.int64)))


def main():
    gpu = warpverbs.Gpu(0)
    nic = warpverbs.Device()
    sender = warpverbs.Endpoint(nic, gpu=gpu)  # `gpu`: kernels post to its queue
    receiver = warpverbs.Endpoint(nic, gpu=gpu)
    sender.connect(receiver.info())
    receiver.connect(sender.info())

    source = torch.zeros(NUMBERS, device=gpu.name)
    target = torch.zeros(NUMBERS + 2, device=gpu.name)  # the numbers, then the signal: 8 bytes
    results = torch.zeros(3, dtype=torch.int64, device=gpu.name)
    local = warpverbs.Region(nic, source)
    remote = warpverbs.Region(nic, target, remote_write=True, remote_atomic=True).remote()
    signal = remote.address + 4 * NUMBERS

    torch.cuda.synchronize()  # the tensors are ready
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        send_numbers[(1,)](sender.queue, source, local.local().lkey, remote.address, remote.rkey, signal, target,
                           SECONDS * 10**9, results, N=NUMBERS)  # fmt: skip
    stream.synchronize()  # before results are read: a copy that waits for a kernel holds up the copies of softhca
    posted, signalled, right = results.tolist()
    if posted & 0xff or signalled & 0xff:
        sys.exit(f"The kernel's waits ended with 0x{posted:x} and 0x{signalled:x}. {sender.last_error()}")
    if right != NUMBERS:
        sys.exit(f"Only {right} of {NUMBERS} numbers are right.")
    print(f"Success! A kernel sent {NUMBERS} numbers, and saw them arrive")


if __name__ == "__main__":
    main()
