#!/usr/bin/env python3
"""Writes an array to another endpoint by RDMA, in eight steps. Read this example first.

Both endpoints are in this process; all_to_all.py has each in a process of its own. A GPU's kernel would post by the address
`sender.queue`; here a thread of the processor does.

    softhca -- python3 examples/python/interchange.py       software NIC: needs no hardware
    python3 examples/python/interchange.py --device cuda:0  the arrays are torch tensors on a GPU
"""

import argparse
import sys

import numpy

import warpverbs
from arrays import HELP, on_device


def interchange(nbytes, value, device, name):
    # 1. Open the device: the NIC that was named, or the first with an active port.
    nic = warpverbs.Device(name)
    print(f"1. Opened {nic.name}")

    # 2. Create two endpoints: RC queue pairs. One sends; the other takes what arrives.
    sender = warpverbs.Endpoint(nic)
    receiver = warpverbs.Endpoint(nic)
    print(f"2. Created two endpoints: QP {sender.qpn} sends, QP {receiver.qpn} receives")

    # 3. Connect them: each needs the other's description, one word of text.
    sender.connect(receiver.info())
    receiver.connect(sender.info())
    print(f"3. Connected them\n{sender.describe()}", end="")

    # 4. Make and register memory. Only the write can make the target right: it starts with other values.
    source = on_device(numpy.full(nbytes, value, numpy.uint8), device)
    target = on_device(numpy.full(nbytes, 255 - value, numpy.uint8), device)
    local = warpverbs.Region(nic, source)
    landing = warpverbs.Region(nic, target, remote_write=True)
    print(f"4. Registered the source, {local.method}, and the target, {landing.method}")

    remote = landing.remote()  # 5. Exchange keys. Two processes would send them.
    print("5. The sender has the target's address and key")

    # 6. Write, and wait until the peer's NIC has acknowledged it. Every wait has a timeout.
    print("6. Writing")
    sender.write(local, remote, timeout=10)

    # 7. Verify every byte of the target. The flush makes the NIC's writes visible, wherever the target is.
    landing.flush("gpu")
    right = int((target == value).sum())
    print(f"7. Verified the target: {right} bytes are right")
    if right != nbytes:
        raise RuntimeError(f"Only {right} of {nbytes} bytes are right.")


def main():
    parser = argparse.ArgumentParser(description="Teaches the eight steps of RDMA: an array is written to a peer, and verified.")
    parser.add_argument("--bytes", type=int, default=1024, help="bytes to write (1024)")
    parser.add_argument("--value", type=int, default=42, help="value of each byte (42)")
    parser.add_argument("--device", default="cpu", help=HELP)
    parser.add_argument("--nic", help="RDMA device to use, such as mlx5_0 (the first with an active port)")
    options = parser.parse_args()
    try:
        interchange(options.bytes, options.value, options.device, options.nic)
    except (RuntimeError, ValueError, ImportError) as error:
        sys.exit(str(error))
    print(f"8. Done\nSuccess! All {options.bytes} bytes verified with value {options.value}")


if __name__ == "__main__":
    main()
