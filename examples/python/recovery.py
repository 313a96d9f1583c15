#!/usr/bin/env python3
"""Provokes an error, reads what the library says of it, and recovers the connection.

    softhca -- python3 examples/python/recovery.py
"""

import numpy

import warpverbs


def connect(a, b):
    a.connect(b.info())
    b.connect(a.info())


def main():
    nic = warpverbs.Device()
    a, b = warpverbs.Endpoint(nic), warpverbs.Endpoint(nic)
    connect(a, b)
    source, target = numpy.full(64, 7, numpy.uint8), numpy.zeros(64, numpy.uint8)
    local = warpverbs.Region(nic, source)
    read_only = warpverbs.Region(nic, target, remote_read=True)

    # The region lets the peer read, but not write. Its NIC refuses the write, and both queue pairs fail.
    try:
        a.write(local, read_only.remote(), timeout=30)
    except warpverbs.OperationError as error:
        print(f"The write failed with syndrome 0x{error.syndrome:02x}:\n  {error}")

    # Errors last: whatever is posted now fails, too, and last_error() still names the first cause.
    try:
        a.write(local, read_only.remote(), timeout=30)
    except warpverbs.OperationError:
        print(f"The first cause stays:\n  {a.last_error().describe()}")

    # Both sides reset, and connect again by their new descriptions. Memory stays registered.
    for endpoint in (a, b):
        endpoint.reset()
    connect(a, b)
    with warpverbs.Region(nic, target, remote_write=True) as writable:
        a.write(local, writable.remote(), timeout=30)
    if not (target == 7).all() or a.last_error() is not None:
        raise SystemExit("The connection has not recovered.")
    print("Success! The connection has recovered")


if __name__ == "__main__":
    main()
