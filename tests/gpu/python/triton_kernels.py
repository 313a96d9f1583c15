"""Kernels in Triton that post, signal and wait. Word j of message i is 7919 * i + j."""

import triton.language as tl

from warpverbs import triton as wv


@wv.jit(do_not_specialize=["count"])
def send(queue, poster, source, lkey, remote, rkey, signal, count, timeout_ns, outcome, WORDS: tl.constexpr):
    """Writes `count` messages to the peer, each to a place of its own, each with an addition to a signal."""
    words = tl.arange(0, WORDS)
    limit = wv.now_ns() + timeout_ns
    posted = tl.cast(0, tl.uint64)
    i = 0
    more = count > 0
    while more:
        tl.store(source + i * WORDS + words, 7919 * i + words)
        posted = wv.put_signal_add(queue, remote + i * (4 * WORDS), rkey, source + i * WORDS, 4 * WORDS, lkey, signal, rkey, 1,
                                   deadline_ns=limit, poster=poster)  # fmt: skip
        i += 1
        more = (wv.code(posted) == wv.OK) & (i < count)
    if count > 0:
        posted = wv.wait(queue, posted, deadline_ns=limit)
    tl.store(outcome, posted)


@wv.jit(do_not_specialize=["count"])
def receive(target, signal, count, timeout_ns, outcome, WORDS: tl.constexpr):
    """Waits for `count` messages, one after the other, and verifies each."""
    words = tl.arange(0, WORDS)
    limit = wv.now_ns() + timeout_ns
    waited = tl.cast(0, tl.uint64)
    wrong = tl.cast(0, tl.int32)
    i = 0
    more = count > 0
    while more:
        waited = wv.signal_wait(signal, wv.GREATER_OR_EQUAL, i + 1, deadline_ns=limit)
        arrived = tl.load(target + i * WORDS + words, volatile=True)
        wrong += tl.sum((arrived != 7919 * i + words).to(tl.int32))
        i += 1
        more = (wv.code(waited) == wv.OK) & (i < count)
    tl.store(outcome, waited)
    tl.store(outcome + 1, i)
    tl.store(outcome + 2, wrong)


@wv.jit
def round_trip(queue, poster, source, lkey, remote, rkey, signal, target, timeout_ns, outcome, WORDS: tl.constexpr):
    """Sends one message to memory of this GPU, waits for it there, and verifies it. `outcome`: result, rounds, wrong words.

    What it does depends on memory alone, so that a graph can repeat it.
    """
    words = tl.arange(0, WORDS)
    limit = wv.now_ns() + timeout_ns
    done = tl.load(outcome + 1, volatile=True)
    content = (7919 * done).to(tl.int32) + words
    tl.store(source + words, content)
    posted = wv.put_signal_add(queue, remote, rkey, source, 4 * WORDS, lkey, signal, rkey, 1, deadline_ns=limit, poster=poster)
    result = wv.wait(queue, posted, deadline_ns=limit)
    if wv.code(result) == wv.OK:
        result = wv.signal_wait(signal, wv.GREATER_OR_EQUAL, done + 1, deadline_ns=limit)
    arrived = tl.load(target + words, volatile=True)
    wrong = tl.load(outcome + 2, volatile=True) + tl.sum((arrived != content).to(tl.int64))
    if wv.code(result) != wv.OK:
        tl.store(outcome, result)
    tl.store(outcome + 1, done + 1)
    tl.store(outcome + 2, wrong)


@wv.jit(do_not_specialize=["posts"])
def post(queue, poster, local, lkey, remote, rkey, posts, timeout_ns, outcome):
    """Measures `posts` writes of 8 bytes in cycles. `outcome`: result, cycles."""
    limit = wv.now_ns() + timeout_ns
    posted = tl.cast(0, tl.uint64)
    begin = tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    for _ in range(posts):
        posted = wv.write(queue, remote, rkey, local, 8, lkey, deadline_ns=limit, poster=poster)
    end = tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    tl.store(outcome, wv.wait(queue, posted, deadline_ns=limit, poster=poster))
    tl.store(outcome + 1, end - begin)
