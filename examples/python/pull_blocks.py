#!/usr/bin/env python3
"""Pulls blocks of a peer's array by RDMA, as a server of a language model fetches blocks of a cache.

The owner of the cache does nothing while its blocks are read.

    softhca -- python3 examples/python/pull_blocks.py
"""

import multiprocessing

import numpy

import warpverbs

BLOCKS, BLOCK_NUMBERS = 64, 512


def own(pipe):
    """Lets the peer read a cache until it says that it is done."""
    cache = numpy.arange(BLOCKS * BLOCK_NUMBERS, dtype=numpy.float32).reshape(BLOCKS, BLOCK_NUMBERS)
    nic = warpverbs.Device()
    with warpverbs.TcpListener("127.0.0.1") as listener:
        pipe.send(listener.port)
        peer = listener.accept()
    endpoint = warpverbs.Endpoint(nic, remote_write=False)  # this side only serves reads
    warpverbs.connect_all([endpoint], peer)
    with warpverbs.Region(nic, cache, remote_read=True) as region:
        peer.swap_json(region.remote(), "the cache")
        peer.swap_json("goodbye", "the end", timeout=600)


def pull(port, wanted):
    """Returns the blocks of the peer whose numbers are in `wanted`."""
    nic = warpverbs.Device()
    with warpverbs.TcpExchange.connect("127.0.0.1", port) as peer:
        endpoint = warpverbs.Endpoint(nic)
        warpverbs.connect_all([endpoint], peer)
        cache = warpverbs.RemoteMemory(*peer.swap_json(None, "the cache"))

        blocks = numpy.zeros((len(wanted), BLOCK_NUMBERS), numpy.float32)
        size = blocks[0].nbytes
        with warpverbs.Region(nic, blocks) as region:
            for place, block in enumerate(wanted):
                endpoint.read(region.local(place * size, size), cache.part(block * size, size))
        peer.swap_json("goodbye", "the end")
    return blocks


def main():
    context = multiprocessing.get_context("spawn")  # not fork: a child may not use its parent's devices
    here, there = context.Pipe()
    owner = context.Process(target=own, args=(there,))
    owner.start()
    there.close()
    wanted = [3, 17, 5, 63, 0]
    blocks = pull(here.recv(), wanted)
    owner.join()
    expected = numpy.array([numpy.arange(BLOCK_NUMBERS) + block * BLOCK_NUMBERS for block in wanted], numpy.float32)
    if not (blocks == expected).all():
        raise SystemExit("Some blocks are wrong.")
    print(f"Success! Pulled the blocks {wanted} of {BLOCKS}")


if __name__ == "__main__":
    main()
