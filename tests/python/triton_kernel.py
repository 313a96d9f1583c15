"""A kernel that Triton reads from this file."""

import triton.language as tl

from warpverbs import triton as wv


@wv.jit
def put(queue, remote, rkey, local, lkey, result):
    posted = wv.put_signal_add(queue, remote, rkey, local, 1024, lkey, remote + 1024, rkey, 1)
    tl.store(result, wv.wait(queue, posted))
