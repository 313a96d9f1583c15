"""Two processes, each with a Triton kernel and torch tensors: one posts and signals, the other waits and verifies.

On one GPU the two take turns of about 2 ms, and softhca's copies to and from GPU memory wait for the turn of their process. So the
messages are in GPU memory only with --memory gpu, for which a few thousand are enough, and by default in pinned memory, which the
kernels reach over PCIe.
"""

import multiprocessing
import time

from common import MESSAGE, WORDS, Side, arguments, check, need, report

need("triton")
import torch
import triton_kernels
import warpverbs


def run(side, launch, count, seconds):
    """Launches a kernel on the side's stream: first with no messages, which compiles and loads it."""
    torch.cuda.synchronize()  # the tensors are ready
    with torch.cuda.stream(side.stream):
        for messages in (0, count):
            launch(messages, seconds * 10**9)
            if messages == 0:
                side.wait("loading the kernel", seconds)
                yield
    side.wait("the kernel", seconds + 20)


def send(port, count, seconds, memory, result):
    side = Side(memory=memory)
    source = side.zeros(count * WORDS, torch.int32)
    outcome = side.zeros(1)
    local = side.register(source).local()
    with warpverbs.TcpExchange.connect("127.0.0.1", port, timeout=seconds) as peer:
        warpverbs.connect_all([side.endpoint], peer, timeout=seconds)
        target = warpverbs.RemoteMemory(*peer.swap_json(None, "the target", timeout=seconds))
        signal = warpverbs.RemoteMemory(*peer.swap_json(None, "the signal", timeout=seconds))
        check(target.rkey == signal.rkey, "the signal is behind the target")

        def launch(messages, timeout_ns):
            triton_kernels.send[(1,)](side.endpoint.queue, side.poster, source, local.lkey, target.address, target.rkey,
                                      signal.address, messages, timeout_ns, outcome, WORDS=WORDS)  # fmt: skip

        for _ in run(side, launch, count, seconds):
            peer.swap_json("ready", "the start", timeout=seconds)
        peer.swap_json("sent", "the end", timeout=seconds + 30)
    side.expect_ok(outcome.tolist()[0], "sending")
    result.send("sent")


def receive(pipe, count, seconds, memory, result):
    side = Side(memory=memory)
    target = side.zeros(count * WORDS + 2, torch.int32)
    outcome = side.zeros(3)
    region = side.register(target)
    signal = region.remote(count * MESSAGE, 8)
    with warpverbs.TcpListener("127.0.0.1") as listener:
        pipe.send(listener.port)
        peer = listener.accept(timeout=seconds)
    warpverbs.connect_all([side.endpoint], peer, timeout=seconds)
    peer.swap_json(region.remote(0, count * MESSAGE), "the target", timeout=seconds)
    peer.swap_json(signal, "the signal", timeout=seconds)

    def launch(messages, timeout_ns):
        triton_kernels.receive[(1,)](target, signal.address, messages, timeout_ns, outcome, WORDS=WORDS)

    begin = 0.0
    for _ in run(side, launch, count, seconds):
        peer.swap_json("ready", "the start", timeout=seconds)
        begin = time.monotonic()
    elapsed = time.monotonic() - begin
    waited, verified, wrong = outcome.tolist()
    peer.swap_json("received", "the end", timeout=seconds + 30)
    side.expect_ok(waited, f"waiting for message {verified} of {count}")
    check((verified, wrong) == (count, 0), f"{verified} of {count} messages arrived, with {wrong} wrong words")
    check(torch.equal(target[:WORDS].cpu(), torch.arange(WORDS, dtype=torch.int32)), "the first message, seen by torch, is wrong")
    result.send(f"{count} messages of {MESSAGE} bytes in {memory} memory verified by a Triton kernel of another process, "
                f"{elapsed / count * 1e6:.1f} us each, on {side.gpu.model}")  # fmt: skip


def main():
    options = arguments(__doc__, count=100_000, seconds=60, memory="pinned")
    check(options.memory in ("gpu", "pinned"), f"--memory {options.memory} is neither gpu nor pinned")
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    results = [context.Pipe(duplex=False) for _ in range(2)]
    receiver = context.Process(target=receive, args=(there, options.count, options.seconds, options.memory, results[0][1]))
    receiver.start()
    processes = [receiver]
    try:
        check(here.poll(options.seconds), "the receiver did not start")
        sender = context.Process(target=send, args=(here.recv(), options.count, options.seconds, options.memory, results[1][1]))
        sender.start()
        processes.append(sender)
        end = time.monotonic() + 2 * options.seconds
        for process in processes:
            process.join(max(end - time.monotonic(), 1))
            check(process.exitcode == 0, f"a process ended with {process.exitcode}: its messages are above")
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
    return results[0][0].recv()


if __name__ == "__main__":
    report(main)
