"""A send queue in the interpreter's memory, the parameters of its kernels, and the expected WQEs."""

import struct

import ptx

SQ, DOORBELL, RECORD, CQE, CONTROL, RESULT, MORE = (0x1000_0000 * i for i in range(1, 8))
ERROR, CURSOR, COUNTERS = CONTROL + 128, CONTROL + 256, CONTROL + 384
QPN, RKEY, LKEY = 0x123456, 0x0A0B0C0D, 0x01020304
REMOTE, LOCAL, LENGTH = 0x1122_3344_5566_7000, 0x0807_0605_0403_2000, 8
MAX_MESSAGE = 1 << 30
REQUESTER, WRITE, CQE_ALWAYS = 0, 8, 8
CONTROL_BYTES = 512  # sizeof(QueueControl)
MAX_THREADS = 64  # threads that report a result


def swapped(value):
    """Returns a 32-bit value with the NIC's byte order."""
    return int.from_bytes(value.to_bytes(4, "big"), "little")


class SendQueue(ptx.Memory):
    """A queue whose NIC completes each WQE as soon as its doorbell is rung."""

    def __init__(self, depth=64, first=0, has_record=True, base=0, collapsed=False, busy=0):
        """@param first      index of the next WQE; all earlier ones but the last `busy` are complete
        @param base       offset of each address, so that one memory can hold several queues
        @param collapsed  the CQ has one CQE, else a ring of its own"""
        super().__init__()
        self.depth, self.first, self.has_record, self.base = depth, first, has_record, base
        self.cqes = 1 if collapsed else depth
        self.set(SQ + base, bytes(64 * depth))
        self.set(DOORBELL + base, bytes(8))
        self.set(RECORD + base, bytes(4))
        self.set(CONTROL + base, struct.pack("<II", first & 0xFFFFFFFF, first & 0xFFFFFFFF).ljust(CONTROL_BYTES, b"\0"))
        completed = first - busy
        self.set(CURSOR + base, struct.pack("<II", completed & 0xFFFFFFFF, completed & 0xFFFFFFFF))
        self.set(CQE + base, b"\xff" * 64 * self.cqes)
        self.set(RESULT, b"\xff" * 8 * MAX_THREADS)
        self._completed = completed - 1
        self._complete(completed - 1)

    def _complete(self, index):
        """Completes the WQEs up to `index`, which counts modulo 2^16."""
        last = self._completed + ((index - self._completed) & 0xFFFF)
        for number in range(min(self._completed + 1, last), last + 1):
            owner = 1 if number & self.cqes and self.cqes > 1 else 0
            place = CQE + self.base + 64 * (number % self.cqes)
            self.set(place + 56, struct.pack(">IHBB", WRITE << 24 | QPN, number & 0xFFFF, 0, REQUESTER << 4 | owner))
        self._completed = last

    def store(self, address, size, value):
        super().store(address, size, value)
        if address == DOORBELL + self.base:
            self._complete(int.from_bytes(value.to_bytes(8, "little")[1:3], "big"))

    def view(self):
        """Returns the QueueView."""
        record = RECORD + self.base if self.has_record else 0
        pointers = (SQ + self.base, DOORBELL + self.base, record, CQE + self.base, CONTROL + self.base)
        return struct.pack("<5Q6I", *pointers, swapped(QPN << 8), self.depth, MAX_MESSAGE, 0, 0, self.cqes)

    def job(self, count):
        """Returns the Job of kernels.cu."""
        remote = struct.pack("<QI4x", REMOTE, swapped(RKEY))
        local = struct.pack("<QQI4x", LOCAL, LENGTH, swapped(LKEY))
        return self.view() + remote + local + struct.pack("<I4xQ", count, RESULT)

    def poster(self):
        """Returns the wv_poster that knows that all WQEs so far are complete."""
        end = struct.pack("<II", self.first & 0xFFFFFFFF, self.first & 0xFFFFFFFF)
        return (end + end + struct.pack("<II", self.depth, 1)).ljust(32, b"\0")

    def wqe(self, index):
        return self.get(SQ + self.base + 64 * (index % self.depth), 64)

    def rung(self):
        """Returns the record and the last doorbell."""
        return int.from_bytes(self.get(RECORD + self.base, 4), "big"), self.get(DOORBELL + self.base, 8)

    def tail(self):
        """Returns the first index that is not published and the first that is not reserved."""
        return struct.unpack("<II", self.get(CONTROL + self.base, 8))

    def counters(self):
        """Returns the words of QueueCounters."""
        return struct.unpack("<14Q", self.get(COUNTERS + self.base, 112))

    def set_tail(self, reserved, published):
        """Stores the tail, as other posters do."""
        self.set(CONTROL + self.base, struct.pack("<II", published, reserved))

    def result(self, lane=0):
        return self.get(RESULT + 8 * lane, 8)

    def word(self, operation):
        """Names an operation in the queue's terms: "wqe" for a store of a segment, "load cqe", "fence"."""
        opcode = operation.name.split(".")[0]
        if operation.address is None:
            return opcode
        places = {"wqe": (SQ, 64 * self.depth, 16), "doorbell": (DOORBELL, 8, 8), "record": (RECORD, 4, 4),
                  "cqe": (CQE, 64 * self.cqes, 16), "cursor": (CURSOR, 8, 8), "published": (CONTROL, 4, 4), "reserved": (CONTROL + 4, 4, 4),
                  "tail": (CONTROL, 8, 8), "error": (ERROR, 8, 8),
                  "counter": (COUNTERS, 112, 8), "ring": (COUNTERS + 112, 16, 8),
                  "result": (RESULT, 8 * MAX_THREADS, None)}  # fmt: skip
        verb = {"st": "", "ld": "load ", "atom": "compare-swap " if ".cas." in operation.name else "change "}
        for word, (start, size, access) in places.items():
            start += self.base if word != "result" else 0
            if start <= operation.address < start + size and access in (None, operation.bytes):
                return verb.get(opcode, "change ") + word
        return f"{operation.name} of {operation.address:#x}"


class ContendedQueue(SendQueue):
    """A queue in which another poster has reserved a slot, and publishes it after some loads of the tail."""

    def __init__(self, loads, reserved):
        """@param loads     loads of the tail, after the kernel has reserved, until it is next to publish
        @param reserved  value of `reserved` that it then loads"""
        super().__init__(first=1)
        self._loads, self._reserved = loads, reserved
        self.set_tail(reserved=2, published=1)
        self.set(SQ + 64, write_wqe(1))

    def load(self, address, size):
        if (address, size) == (CONTROL, 8) and self.tail()[1] > 2:
            self._loads -= 1
            if self._loads == 0:
                self.set_tail(self._reserved, published=2)
        return super().load(address, size)


def write_wqe(index, offset=0):
    """Returns a write of LENGTH bytes as rdma-core encodes it. The last 16 bytes of the slot are 0, whether written or not."""
    control = struct.pack(">IIBBBBI", (index & 0xFFFF) << 8 | WRITE, QPN << 8 | 3, 0, 0, 0, CQE_ALWAYS, 0)
    remote = struct.pack(">QII", REMOTE + offset, RKEY, 0)
    data = struct.pack(">IIQ", LENGTH, LKEY, LOCAL + offset)
    return control + remote + data + bytes(16)
