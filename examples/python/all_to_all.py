#!/usr/bin/env python3
"""Exchanges arrays among four processes: row j of each process goes to process j, by RDMA.

    softhca -- python3 examples/python/all_to_all.py       --device torch, cuda:0: tensors
"""

import multiprocessing

import numpy

import warpverbs
from arrays import on_device, parse_device

RANKS, COLUMNS = 4, 1000


def meet(rank, pipe):
    """Returns an exchange with each other process."""
    with warpverbs.TcpListener("127.0.0.1") as listener:
        pipe.send(listener.port)
        ports = pipe.recv()
        peers = {}
        for other in range(rank):
            peers[other] = warpverbs.TcpExchange.connect("127.0.0.1", ports[other])
            peers[other].swap_json(rank, "the ranks")
        for _ in range(rank + 1, RANKS):
            peer = listener.accept()
            peers[peer.swap_json(rank, "the ranks")] = peer
    return peers


def run(rank, pipe, device):
    peers = meet(rank, pipe)
    nic = warpverbs.Device()
    # An endpoint for each peer. All processes go through the pairs in one order, so none waits in a circle.
    endpoints = {other: warpverbs.Endpoint(nic) for other in peers}
    for other in sorted(peers):
        warpverbs.connect_all([endpoints[other]], peers[other])

    sent = on_device(numpy.array([[RANKS * rank + other] * COLUMNS for other in range(RANKS)], numpy.float32), device)
    received = on_device(numpy.zeros((RANKS, COLUMNS), numpy.float32), device)
    local, landing = warpverbs.Region(nic, sent), warpverbs.Region(nic, received, remote_write=True)
    row = local.nbytes // RANKS
    # Row j of `received` is for process j to write.
    remote = {other: warpverbs.RemoteMemory(*peers[other].swap_json(landing.remote(other * row, row), "the rows"))
              for other in sorted(peers)}
    received[rank] = sent[rank]
    local.flush("nic")
    for other in peers:
        endpoints[other].write(local.local(other * row, row), remote[other])
    for other in sorted(peers):
        peers[other].swap_json("written", "the end of the writes")
    landing.flush("gpu")
    pipe.send(received[:, 0].tolist() == [RANKS * other + rank for other in range(RANKS)])


def main():
    device = parse_device("Exchanges arrays among four processes.")
    context = multiprocessing.get_context("spawn")  # not fork: a child may not use its parent's devices
    pipes, processes = [], []
    for rank in range(RANKS):
        here, there = context.Pipe()
        processes.append(context.Process(target=run, args=(rank, there, device)))
        processes[-1].start()
        there.close()
        pipes.append(here)
    ports = [pipe.recv() for pipe in pipes]  # EOFError: a process has failed, and said why
    for pipe in pipes:
        pipe.send(ports)
    right = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    if not all(right):
        raise SystemExit("Some rows are wrong.")
    print(f"Success! {RANKS} processes have their {RANKS} rows of {COLUMNS} numbers")


if __name__ == "__main__":
    main()
