"""Runs PTX for integer code in Python and records every memory operation.

A block's threads run one after another from one collective operation (shuffle, vote, barrier) to the next, which is one of
the orders that hardware may choose. If another order could have another result, because two threads use a word of shared
memory without a barrier between them, the interpreter reports an error. It also reports unknown instructions as errors.
"""

import dataclasses
import itertools
import operator
import re

from ptx_text import PARAMETERS, SHARED, PtxError

WARP = 32
STEP_LIMIT = 100_000  # per lane: more is an endless loop


@dataclasses.dataclass(frozen=True)
class Operation:
    """One access to memory, or a fence, whose address is None."""

    name: str  # the whole opcode
    lane: int  # number in the block
    step: int  # number of instructions that the lane has executed, including this one
    address: int | None = None
    bytes: int = 0
    value: int = 0  # the stored or loaded value; for an atomic operation the old value


class Memory:
    """Bytes by address. Bytes that were never set can be neither loaded nor stored."""

    def __init__(self):
        self._bytes = {}

    def set(self, address, data):
        self._bytes.update(enumerate(data, address))

    def adopt(self, other):
        """Adds the bytes of `other` at addresses that this memory lacks."""
        self._bytes = other._bytes | self._bytes

    def get(self, address, size):
        try:
            return bytes(self._bytes[address + i] for i in range(size))
        except KeyError:
            raise PtxError(f"{size} bytes at {address:#x} do not exist") from None

    def load(self, address, size):
        if address % size:
            raise PtxError(f"{address:#x} is not a multiple of {size}")
        return int.from_bytes(self.get(address, size), "little")

    def store(self, address, size, value):
        self.load(address, size)  # it must exist
        self.set(address, value.to_bytes(size, "little"))


def width_of(type_name):
    match = re.fullmatch(r"[bus](8|16|32|64)|pred", type_name)
    if match is None:
        raise PtxError(f"a value of type {type_name}")
    return int(match[1] or 1)


def signed(value, width):
    return value - (1 << width) if value >> (width - 1) & 1 else value


def divide(dividend, divisor):
    if dividend < 0 or divisor <= 0:
        raise PtxError(f"{dividend} divided by {divisor}")
    return dividend // divisor


def permute(low, high, selector):
    """Picks four bytes of eight, as the plain mode of prmt does."""
    pool = low | high << 32
    picked = 0
    for i in range(4):
        nibble = selector >> 4 * i & 0xf
        byte = pool >> 8 * (nibble & 7) & 0xff
        if nibble & 8:
            byte = 0xff if byte & 0x80 else 0
        picked |= byte << 8 * i
    return picked


def insert_bits(source, target, position, length):
    mask = (1 << length) - 1 << position
    return target & ~mask | source << position & mask


COMPARE = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
           "ge": operator.ge, "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}

# For each opcode, a function from the type's width and the operands (signed if the type is) to the result before it is cut to
# that width.
ARITHMETIC = {
    "mov": lambda w, a: a, "cvt": lambda w, a: a, "cvta": lambda w, a: a,
    "add": lambda w, a, b: a + b, "sub": lambda w, a, b: a - b, "neg": lambda w, a: -a,
    "and": lambda w, a, b: a & b, "or": lambda w, a, b: a | b, "xor": lambda w, a, b: a ^ b, "not": lambda w, a: ~a,
    "min": lambda w, a, b: min(a, b), "max": lambda w, a, b: max(a, b),
    "mul": lambda w, a, b: a * b, "mad": lambda w, a, b, c: a * b + c, "div": lambda w, a, b: divide(a, b),
    "shl": lambda w, a, b: a << min(b, w), "shr": lambda w, a, b: a >> min(b, w),
    "selp": lambda w, a, b, p: a if p else b,
    "popc": lambda w, a: a.bit_count(), "clz": lambda w, a: w - a.bit_length(),
    "prmt": lambda w, a, b, c: permute(a, b, c), "bfi": lambda w, a, b, c, d: insert_bits(a, b, c, d),
    "bfe": lambda w, a, b, c: a >> b & (1 << c) - 1,
}  # fmt: skip
MODIFIERS = {"mul": {"lo", "wide"}, "mad": {"lo"}, "cvta": {"to", "global", "param", "local"}}


class Block:
    """State that the threads of a block share."""

    def __init__(self, kernel, memory, threads):
        self.kernel, self.memory, self.threads = kernel, memory, threads
        self.trace, self.clock = [], itertools.count(1_000_000)
        self._stored, self._used = {}, {}  # threads by address, since the last barrier
        memory.set(SHARED, bytes(kernel.shared_bytes))

    def pass_barrier(self):
        self._stored, self._used = {}, {}

    def use_shared(self, address, size, thread, stores):
        for byte in range(address, address + size):
            used = self._used.setdefault(byte, set())
            others = used - {thread} if stores else self._stored.get(byte, set()) - {thread}
            if others:
                raise PtxError(f"{self.kernel.name}: threads {thread} and {others.pop()} race for shared memory")
            used.add(thread)
            if stores:
                self._stored.setdefault(byte, set()).add(thread)


class Lane:
    """A thread with its registers and its count of instructions."""

    def __init__(self, block, number):
        self.block, self.number = block, number
        self.kernel, self.memory, self.trace, self.clock = block.kernel, block.memory, block.trace, block.clock
        self.registers = {"%laneid": number % WARP, "%ctaid.x": 0}
        self.registers |= {"%tid.x": number, "%tid.y": 0, "%tid.z": 0}
        self.registers |= {"%ntid.x": block.threads, "%ntid.y": 1, "%ntid.z": 1}
        self.step = 0

    def run(self):
        """Executes to the end. Yields (place, operation, mask, value) for each warp operation and receives its result."""
        place = 0
        while True:
            instruction = self.kernel.instructions[place]
            place += 1
            self.step += 1
            if self.step > STEP_LIMIT:
                raise PtxError(f"{self.kernel.name}: lane {self.number} never ends")
            guard = instruction.guard
            if guard and self._read(guard.lstrip("!")) == guard.startswith("!"):
                continue
            opcode, *rest = instruction.parts()
            if opcode in ("ret", "exit"):
                return
            if opcode == "bra":
                place = self.kernel.labels[instruction.operands[0]]
            elif opcode in ("shfl", "vote", "activemask", "bar", "barrier"):
                yield from self._cooperate(place, instruction)
            elif opcode in ("ld", "st", "atom", "red", "fence", "membar"):
                self._access(instruction)
            elif opcode != "nanosleep":
                self._compute(opcode, rest, instruction.operands)

    def _read(self, operand):
        if operand in self.registers:
            return self.registers[operand]
        if operand == "%globaltimer":
            return next(self.clock)
        if operand in self.kernel.locals:
            return self.kernel.locals[operand]
        if operand in self.kernel.parameters:
            return self.kernel.parameters[operand][0]
        return int(operand, 0)

    def _write(self, register, value, width):
        self.registers[register] = value & (1 << width) - 1

    def _values(self, operands, type_name):
        width = width_of(type_name)
        values = [self._read(operand) & (1 << width) - 1 for operand in operands]
        return [signed(value, width) for value in values] if type_name.startswith("s") else values

    def _address(self, operand):
        base, _, offset = operand.strip("[]").partition("+")
        start = self.kernel.shared[base] if base in self.kernel.shared else self._read(base)
        return start + int(offset or "0")

    def _compute(self, opcode, modifiers, operands):
        target, *sources = operands
        if opcode == "setp":
            self._compare(modifiers, target, sources)
            return
        known = {modifiers[0]} if opcode == "cvt" else MODIFIERS.get(opcode, set())
        if opcode not in ARITHMETIC or not set(modifiers[:-1]) <= known:
            raise PtxError(f"{self.kernel.name}: unknown instruction {opcode}.{'.'.join(modifiers)}")
        if target.startswith("{") or sources[0].startswith("{"):
            self._repack(target, sources[0], width_of(modifiers[-1]))
            return
        source_width = width = width_of(modifiers[-1])
        if "wide" in modifiers:
            width *= 2
        elif opcode == "cvt":
            width = width_of(modifiers[0])
        elif opcode in ("popc", "clz"):
            width = 32
        values = self._values(sources, modifiers[-1])
        self._write(target, ARITHMETIC[opcode](source_width, *values), width)

    def _compare(self, modifiers, target, sources):
        comparison, type_name = modifiers
        self._write(target, COMPARE[comparison](*self._values(sources, type_name)), 1)

    def _repack(self, target, source, width):
        """Executes a mov between a register and the registers of its parts."""
        parts = re.findall(r"%\w+|\d+", target if target.startswith("{") else source)
        each = width // len(parts)
        if target.startswith("{"):
            for i, part in enumerate(parts):
                self._write(part, self._read(source) >> each * i, each)
        else:
            value = sum((self._read(part) & (1 << each) - 1) << each * i for i, part in enumerate(parts))
            self._write(target, value, width)

    def _access(self, instruction):
        opcode, *modifiers = instruction.parts()
        if opcode in ("fence", "membar"):
            self.trace.append(Operation(instruction.name, self.number, self.step))
            return
        vector = next((int(part[1:]) for part in modifiers if re.fullmatch(r"v\d", part)), 1)
        width = width_of(modifiers[-1])
        size = vector * width // 8
        address_at = 0 if opcode in ("st", "red") else 1
        address = self._address(instruction.operands[address_at])
        in_parameters = PARAMETERS <= address < PARAMETERS + 4096
        in_shared = SHARED <= address < SHARED + self.kernel.shared_bytes
        known = opcode == "ld" if in_parameters else in_shared == ("shared" in modifiers)
        if "local" in modifiers or not known:
            raise PtxError(f"{self.kernel.name}: unknown memory: {instruction.name}")
        if in_shared:
            self.block.use_shared(address, size, self.number, opcode != "ld")
        if opcode == "st":
            registers = re.findall(r"-?[%\w]+", instruction.operands[1])
            value = sum((self._read(register) & (1 << width) - 1) << width * i for i, register in enumerate(registers))
        else:
            value = self.memory.load(address, size)
        if opcode == "ld":
            for i, register in enumerate(re.findall(r"%\w+", instruction.operands[0])):
                self._write(register, value >> width * i, width)
        elif opcode in ("atom", "red"):
            self._change(instruction, modifiers[-2], address, value, width)
        if not in_parameters and not in_shared:
            self.trace.append(Operation(instruction.name, self.number, self.step, address, size, value))
        if opcode == "st":  # last, so that the memory's store() finds a complete trace
            self.memory.store(address, size, value)

    def _change(self, instruction, change, address, old, width):
        is_atom = instruction.name.startswith("atom")
        operands = [self._read(operand) & (1 << width) - 1 for operand in instruction.operands[1 + is_atom:]]
        changes = {"add": lambda x: old + x, "exch": lambda x: x, "cas": lambda x, y: y if old == x else old,
                   "or": lambda x: old | x, "and": lambda x: old & x}  # fmt: skip
        if change not in changes:
            raise PtxError(f"{self.kernel.name}: unknown change: {instruction.name}")
        if is_atom:
            self._write(instruction.operands[0], old, width)
        self.memory.store(address, width // 8, changes[change](*operands) & (1 << width) - 1)

    def _cooperate(self, place, instruction):
        operands = instruction.operands
        opcode = ".".join(instruction.parts()[:2 if instruction.name.startswith("bar") else 3])
        has_mask = opcode in ("shfl.sync.idx", "vote.sync.ballot", "bar.warp")
        mask = self._read(operands[-1]) & 0xFFFFFFFF if has_mask else None
        if opcode == "activemask.b32":
            self._write(operands[0], (yield place, "activemask", mask, 0), 32)
        elif opcode == "shfl.sync.idx" and self._read(operands[-2]) == 31:
            answer = yield place, "shuffle", mask, (self._read(operands[-4]), self._read(operands[-3]))
            self._write(operands[0], answer, 32)
        elif opcode == "vote.sync.ballot":
            self._write(operands[0], (yield place, "ballot", mask, self._read(operands[1])), 32)
        elif opcode in ("bar.warp", "bar.sync", "barrier.sync"):
            yield place, "barrier", mask, 0
        elif instruction.name == "bar.red.and.pred":
            self._write(operands[0], (yield place, "and", mask, self._read(operands[-1])), 1)
        else:
            raise PtxError(f"{self.kernel.name}: unknown instruction {instruction.name}")


def answers(what, values):
    """Returns the result of an operation for each lane of a group, given each lane's value."""
    if what == "shuffle":
        return {lane: values[lane - lane % WARP + source % WARP][0] for lane, (_, source) in values.items()}
    if what == "and":
        return dict.fromkeys(values, int(all(values.values())))
    mask = sum(1 << lane % WARP for lane, value in values.items() if value or what == "activemask")
    return dict.fromkeys(values, mask)


def meeting(request, lane, waiting):
    """Returns the values of all lanes that wait at the same operation as `lane`: its warp's, or the block's at a barrier."""
    of_block = request[1] in ("barrier", "and") and request[2] is None
    return {other: theirs[3] for other, theirs in waiting.items()
            if theirs[:3] == request[:3] and (of_block or other // WARP == lane // WARP)}  # fmt: skip


def run(kernel, parameters, memory, lanes=1):
    """Runs a block of `lanes` threads. Returns the operations on memory, except for shared memory and parameters, in order.

    @param parameters  an int or bytes for each parameter of the kernel
    """
    if len(parameters) != len(kernel.parameters):
        raise PtxError(f"{kernel.name} takes {len(kernel.parameters)} parameters")
    for (address, size), value in zip(kernel.parameters.values(), parameters):
        memory.set(address, value if isinstance(value, bytes) else value.to_bytes(size, "little"))
    block = Block(kernel, memory, lanes)
    running = {lane: Lane(block, lane).run() for lane in range(lanes)}
    replies, waiting = dict.fromkeys(running), {}
    while running:
        for lane, reply in replies.items():
            try:
                waiting[lane] = running[lane].send(reply)
            except StopIteration:
                del running[lane]
        replies = {}
        for lane, request in waiting.items():
            values, (_, what, mask, _) = meeting(request, lane, waiting), request
            if mask is not None and sum(1 << lane % WARP for lane in values) != mask:
                continue
            if what in ("barrier", "and") and mask is None:
                if len(values) != len(running):
                    continue
                block.pass_barrier()
            replies = answers(what, values)
            break
        for lane in replies:
            del waiting[lane]
        if running and not replies:
            raise PtxError(f"{kernel.name}: lanes wait for each other forever")
    return block.trace
