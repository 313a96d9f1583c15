#!/usr/bin/env python3
"""Pulls blocks of a peer's array by RDMA, as a server of a language model fetches blocks of a cache.

The owner of the cache does nothing while its blocks are read.

    softhca -- python3 examples/python/pull_blocks.py       --device torch, cuda:0: tensors
"""

import multiprocessing

import numpy

import warpverbs
from arrays import on_device, parse_device

BLOCKS, BLOCK_NUMBERS = 64, 512


def own(pipe, device):
    """Lets the peer read a cache until it says that it is done."""
    cache = on_device(numpy.arange(BLOCKS * BLOCK_NUMBERS, dtype=numpy.float32).reshape(BLOCKS, BLOCK_NUMBERS), device)
    nic = warpverbs.Device()
    with warpverbs.TcpListener("127.0.0.1") as listener:
        pipe.send(listener.port)
        peer = listener.accept()
    endpoint = warpverbs.Endpoint(nic, remote_write=False)  # this side only serves reads
    warpverbs.connect_all([endpoint], peer)
    with warpverbs.Region(nic, cache, remote_read=True) as region:
        region.flush("nic")
        peer.swap_json(region.remote(), "the cache")
        peer.swap_json("goodbye", "the end", timeout=600)


def pull(port, wanted, device):
    """Returns the blocks of the peer whose numbers are in `wanted`."""
    nic = warpverbs.Device()
    with warpverbs.TcpExchange.connect("127.0.0.1", port) as peer:
        endpoint = warpverbs.Endpoint(nic)
        warpverbs.connect_all([endpoint], peer)
        cache = warpverbs.RemoteMemory(*peer.swap_json(None, "the cache"))

        blocks = on_device(numpy.zeros((len(wanted), BLOCK_NUMBERS), numpy.float32), device)
        with warpverbs.Region(nic, blocks) as region:
            size = region.nbytes // len(wanted)
            for place, block in enumerate(wanted):
                endpoint.read(region.local(place * size, size), cache.part(block * size, size))
            region.flush("gpu")
        peer.swap_json("goodbye", "the end")
    return blocks


def main():
    device = parse_device("Pulls blocks of a peer's array.")
    context = multiprocessing.get_context("spawn")  # not fork: a child may not use its parent's devices
    here, there = context.Pipe()
    owner = context.Process(target=own, args=(there, device))
    owner.start()
    there.close()
    wanted = [3, 17, 5, 63, 0]
    blocks = pull(here.recv(), wanted, device)
    owner.join()
    expected = [[float(block * BLOCK_NUMBERS + number) for number in range(BLOCK_NUMBERS)] for block in wanted]
    if blocks.tolist() != expected:
        raise SystemExit("Some blocks are wrong.")
    print(f"Success! Pulled the blocks {wanted} of {BLOCKS}")


if __name__ == "__main__":
    main()
