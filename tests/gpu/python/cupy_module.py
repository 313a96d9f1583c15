"""CUDA C++ by CuPy's RawModule: a kernel puts, signals and waits."""

from common import WORDS, arguments, check, need, pair, report

cupy = need("cupy")
import numpy
import torch

from warpverbs import cupy as wv

CODE = r"""
extern "C" __global__ void exchange(uint64_t queue, uint64_t poster, uint32_t* source, uint32_t lkey, uint64_t remote,
                                    uint32_t rkey, uint64_t signal, const volatile uint32_t* target, uint64_t rounds,
                                    uint64_t timeout_ns, unsigned long long* outcome) {
  const uint64_t limit = wv_now_ns() + timeout_ns;
  const uint32_t bytes = 4 * blockDim.x;
  for (uint64_t round = 0; round < rounds; ++round) {
    const uint32_t word = 7919 * round + threadIdx.x;
    source[threadIdx.x] = word;
    uint64_t result = wv_put_signal_add_block_shared_system(queue, poster, remote, rkey, (uint64_t)source, bytes, lkey, signal,
                                                            rkey, 1, WV_CQE_ALWAYS, limit, 0);
    result = wv_wait_block(queue, 0, result, limit, 0);
    if (wv_code(result) == WV_OK) result = wv_signal_wait_block(signal, WV_GREATER_OR_EQUAL, round + 1, limit, 0);
    if (wv_code(result) != WV_OK) {
      if (threadIdx.x == 0) outcome[0] = result;
      return;
    }
    if (target[threadIdx.x] != word) atomicAdd(outcome + 1, 1);
    if (threadIdx.x == 0) outcome[2] = round + 1;
  }
}
"""


def main():
    options = arguments(__doc__, rounds=1000, seconds=30)
    kernel = wv.RawModule(CODE).get_function("exchange")
    with pair() as (a, b):
        source, target = a.zeros(WORDS, torch.int32), b.zeros(WORDS + 2, torch.int32)
        outcome = a.zeros(3)
        local, remote = a.register(source).local(), b.register(target).remote()
        torch.cuda.synchronize()
        u32, u64 = numpy.uint32, numpy.uint64
        values = (u64(a.endpoint.queue), u64(a.poster.data_ptr()), u64(source.data_ptr()), u32(local.lkey), u64(remote.address),
                  u32(remote.rkey), u64(remote.address + 4 * WORDS), u64(target.data_ptr()), u64(options.rounds),
                  u64(options.seconds * 10**9), u64(outcome.data_ptr()))  # fmt: skip
        with cupy.cuda.ExternalStream(a.stream.cuda_stream):
            kernel((1,), (WORDS,), values)
        a.wait("the kernel", options.seconds + 5)
        result, wrong, rounds = outcome.tolist()
        a.expect_ok(result, f"round {rounds}")
        check((rounds, wrong) == (options.rounds, 0), f"{rounds} rounds of {options.rounds}, {wrong} wrong words")
    return f"{options.rounds} puts, signals and waits by CuPy {cupy.__version__}"


if __name__ == "__main__":
    report(main)
