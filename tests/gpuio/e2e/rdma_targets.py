#!/usr/bin/env python3
"""Prints what a capture's RDMA writes and reads move: rdma_targets.py FILE FROM TO BYTES.

FROM and TO are the addresses of two buffers of so many bytes. Prints the bytes that RDMA reads take from FROM, those that RDMA
writes put into TO, and each other request for more than 4096 bytes.
"""

import struct
import sys

WRITE_FIRST, WRITE_ONLY, READ_REQUEST = (0x06,), (0x0A,), (0x0C,)
ROCE_PORT = 4791


def frames(data):
    """Yields the frames of a pcap file."""
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack(order + "IIII", data[at:at + 16])[2]
        yield data[at + 16:at + 16 + length]
        at += 16 + length


def requests(data):
    """Yields the opcode, address and bytes of each request that names remote memory."""
    for frame in frames(data):
        kind = struct.unpack(">H", frame[12:14])[0]
        ip = 14
        if kind == 0x0800:
            udp = ip + 4 * (frame[ip] & 15)
        elif kind == 0x86DD:
            udp = ip + 40
        else:
            continue
        if struct.unpack(">H", frame[udp + 2:udp + 4])[0] != ROCE_PORT:
            continue
        bth = udp + 8
        opcode = frame[bth]
        if opcode in WRITE_FIRST + WRITE_ONLY + READ_REQUEST:
            address, _, length = struct.unpack(">QII", frame[bth + 12:bth + 28])
            psn = struct.unpack(">I", frame[bth + 8:bth + 12])[0] & 0xFFFFFF
            qpn = struct.unpack(">I", frame[bth + 4:bth + 8])[0] & 0xFFFFFF
            yield opcode, address, length, (qpn, psn)


def main():
    file, source, target, size = sys.argv[1], *(int(text, 16) for text in sys.argv[2:5])
    read = written = 0
    seen = set()
    with open(file, "rb") as capture:
        for opcode, address, length, once in requests(capture.read()):
            if once in seen:  # sent again
                continue
            seen.add(once)
            reads = opcode in READ_REQUEST
            start = source if reads else target
            if start <= address and address + length <= start + size:
                read += length if reads else 0
                written += 0 if reads else length
            elif length > 4096:
                print(f"elsewhere: {length} bytes at {address:x}")
    print(f"read {read:x} written {written:x}")


main()
