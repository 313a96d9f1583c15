"""A Triton kernel that posts, signals and waits, repeated by a CUDA graph."""

from common import WORDS, arguments, check, need, pair, report

need("triton")
import torch
import triton_kernels


def main():
    options = arguments(__doc__, rounds=1000, seconds=30)
    with pair() as (a, b):
        source, target = a.zeros(WORDS, torch.int32), b.zeros(WORDS + 2, torch.int32)
        outcome = a.zeros(3)
        local, remote = a.register(source).local(), b.register(target).remote()
        signal = remote.address + 4 * WORDS

        def launch():
            triton_kernels.round_trip[(1,)](a.endpoint.queue, a.poster, source, local.lkey, remote.address, remote.rkey, signal,
                                            target, options.seconds * 10**9, outcome, WORDS=WORDS)  # fmt: skip

        torch.cuda.synchronize()
        with torch.cuda.stream(a.stream):
            launch()  # compiled and loaded before the capture
        a.wait("the first launch", options.seconds)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=a.stream):
            launch()
        with torch.cuda.stream(a.stream):
            for _ in range(options.rounds):
                graph.replay()
        a.wait("the replays", options.seconds)
        result, rounds, wrong = outcome.tolist()
        a.expect_ok(result, f"round {rounds}")
        check((rounds, wrong) == (options.rounds + 1, 0), f"{rounds} rounds of {options.rounds + 1}, {wrong} wrong words")
    return f"{options.rounds} replays of a graph, each a message, a signal and a wait"


if __name__ == "__main__":
    report(main)
