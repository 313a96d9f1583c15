"""Triton kernels on two streams at the same time: one posts, the other waits for it and verifies; then in both directions."""

from common import MESSAGE, WORDS, arguments, check, need, pair, report

need("triton")
import torch
import triton_kernels


def main():
    options = arguments(__doc__, count=20_000, seconds=30)
    timeout_ns = options.seconds * 10**9
    with pair() as sides:
        streams, outcomes, launches = [], [], []
        for a, b in (sides, sides[::-1]):
            source, target = a.zeros(options.count * WORDS, torch.int32), b.zeros(options.count * WORDS + 2, torch.int32)
            sent, received = a.zeros(1), b.zeros(3)
            local, remote = a.register(source).local(), b.register(target).remote()
            signal = remote.address + options.count * MESSAGE

            def send(count, a=a, source=source, local=local, remote=remote, signal=signal, sent=sent):
                triton_kernels.send[(1,)](a.endpoint.queue, a.poster, source, local.lkey, remote.address, remote.rkey, signal,
                                          count, timeout_ns, sent, WORDS=WORDS)  # fmt: skip

            def receive(count, target=target, signal=signal, received=received):
                triton_kernels.receive[(1,)](target, signal, count, timeout_ns, received, WORDS=WORDS)

            launches += [receive, send]  # the one that waits first: nothing may be loaded while it runs
            streams += [torch.cuda.Stream(), torch.cuda.Stream()]
            outcomes.append((a, sent, received))
        torch.cuda.synchronize()
        for count in (0, options.count):
            for stream, launch in zip(streams, launches):
                with torch.cuda.stream(stream):
                    launch(count)
            for stream in streams:
                sides[0].wait("a kernel", options.seconds + 5, stream)
        for side, sent, received in outcomes:
            waited, verified, wrong = received.tolist()
            side.expect_ok(sent.tolist()[0], "sending")
            side.expect_ok(waited, f"waiting for message {verified}")
            check((verified, wrong) == (options.count, 0), f"{verified} of {options.count} messages, {wrong} wrong words")
    return f"four kernels on four streams, {options.count} messages of {MESSAGE} bytes in each direction"


if __name__ == "__main__":
    report(main)
