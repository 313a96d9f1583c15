"""Measures what a post of a write of 8 bytes costs a kernel, in cycles of its multiprocessor (clock64): in Triton, and in
CUDA C++ by the same function and by the headers. The queue is in memory of the GPU and has room for all posts.
"""

import argparse
import ctypes
import statistics

from common import WORDS, check, need, pair, report

need("triton")
import numpy
import torch
import triton_kernels

POSTS, ROUNDS, SECONDS = 1024, 15, 20

CODE = r"""
extern "C" __global__ void post(uint64_t queue, uint64_t poster, uint64_t local, uint32_t lkey, uint64_t remote, uint32_t rkey,
                                uint32_t posts, uint64_t timeout_ns, uint64_t* outcome) {
  const uint64_t limit = wv_now_ns() + timeout_ns;
  uint64_t posted = 0;
  const uint64_t begin = clock64();
  for (uint32_t i = 0; i < posts; ++i)
    posted = wv_write_block_shared_system(queue, poster, remote, rkey, local, 8, lkey, WV_CQE_ALWAYS, limit, 0);
  const uint64_t end = clock64();
  const uint64_t result = wv_wait_block(queue, poster, posted, limit, 0);
  if (threadIdx.x == 0) {
    outcome[0] = result;
    outcome[1] = end - begin;
  }
}
"""


def measure(a, launch, outcome):
    """Returns the median of the cycles for each post."""
    cycles = []
    for _ in range(ROUNDS + 1):
        with torch.cuda.stream(a.stream):
            launch()
        a.wait("the kernel", SECONDS + 5)
        result, elapsed = outcome.tolist()
        a.expect_ok(result, "posting")
        cycles.append(elapsed / POSTS)
    return statistics.median(cycles[1:])  # the first one loads code


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--headers", help="shared library made of post_cost.cu")
    options = parser.parse_args()
    found = {}
    with pair(depth=4 * POSTS) as (a, b):
        check(a.endpoint.on_gpu, "the queue is not in memory of the GPU")
        words, outcome = a.zeros(8), a.zeros(2)
        target = b.zeros(8)
        local, remote = a.register(words).local(0, 8), b.register(target).remote(0, 8)
        torch.cuda.synchronize()

        def in_triton():
            triton_kernels.post[(1,)](a.endpoint.queue, a.poster, local.address, local.lkey, remote.address, remote.rkey, POSTS,
                                      SECONDS * 10**9, outcome)  # fmt: skip

        found[f"Triton, block of {WORDS} threads"] = measure(a, in_triton, outcome)
        try:
            import cupy

            from warpverbs import cupy as wv
        except ImportError as error:
            print(f"without CuPy: {error}")
        else:
            kernel = wv.RawModule(CODE).get_function("post")
            u32, u64 = numpy.uint32, numpy.uint64
            poster = a.zeros(4)
            values = (u64(a.endpoint.queue), u64(poster.data_ptr()), u64(local.address), u32(local.lkey), u64(remote.address),
                      u32(remote.rkey), u32(POSTS), u64(SECONDS * 10**9), u64(outcome.data_ptr()))  # fmt: skip
            torch.cuda.synchronize()

            def in_cupy():
                with cupy.cuda.ExternalStream(a.stream.cuda_stream):
                    kernel((1,), (WORDS,), values)

            found[f"CUDA C++, the same function, block of {WORDS} threads"] = measure(a, in_cupy, outcome)
        if options.headers:
            library = ctypes.CDLL(options.headers)
            u32, u64 = ctypes.c_uint32, ctypes.c_uint64
            library.PostCost.argtypes = [u64, u64, u32, u64, u32, u32, u64, u64, ctypes.c_void_p]

            def by_headers():
                error = library.PostCost(a.endpoint.queue, remote.address, remote.rkey, local.address, local.lkey, POSTS,
                                         SECONDS * 10**9, outcome.data_ptr(), a.stream.cuda_stream)  # fmt: skip
                check(error == 0, f"CUDA error {error}")

            found["CUDA C++, SendQueue<CudaSystem, Shared> of one thread"] = measure(a, by_headers, outcome)
    for name, cycles in found.items():
        print(f"{name}: {cycles:.0f} cycles")
    return "cycles of a post: " + "; ".join(f"{name} {cycles:.0f}" for name, cycles in found.items())


if __name__ == "__main__":
    report(main)
