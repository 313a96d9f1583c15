"""Parses the PTX of nvcc and clang for integer code."""

import dataclasses
import re

PARAMETERS = 0x7000_0000_0000  # address of the parameters
SHARED = 0x6000_0000_0000  # address of a block's shared memory
LOCAL = 0x5000_0000_0000  # address of a thread's local memory, which the interpreter lacks


class PtxError(Exception):
    """The program uses something that the interpreter does not support, or is wrong."""


@dataclasses.dataclass(frozen=True)
class Instruction:
    guard: str | None  # "%p1" or "!%p1"
    name: str
    operands: list

    def parts(self):
        return self.name.split(".")


class Kernel:
    """An entry function: its instructions, and the positions of its labels, parameters and variables."""

    def __init__(self, name, parameters, body):
        self.name = name
        self.instructions, self.labels, self.parameters, self.shared, self.locals = [], {}, {}, {}, {}
        self.shared_bytes = 0
        self._scopes = []  # for the current line: unique names of the registers in each scope
        end = 0
        for align, width, parameter, count in re.findall(
                r"\.param (?:\.align (\d+) )?\.[bus](\d+) (\w+)(?:\[(\d+)\])?", parameters):
            size = int(width) // 8 * int(count or 1)
            align = int(align or size)
            start = (end + align - 1) // align * align
            self.parameters[parameter] = (PARAMETERS + start, size)
            end = start + size
        for line in re.sub(r"call\.[^;]*;", lambda call: " ".join(call[0].split()), body).splitlines():
            self._parse(line.split("//")[0].strip())

    def _parse(self, line):
        if line == "{":
            self._scopes.append({})
        elif line == "}":
            self._scopes.pop()
        elif register := self._scopes and re.fullmatch(r"\.reg \.\w+\s+(%\w+);", line):
            self._scopes[-1][register[1]] = f"{register[1]}_{len(self._scopes)}_{len(self.instructions)}"
        elif line and not re.match(r"\.(reg|pragma|loc|file|param)\b", line):
            self._parse_statement(re.sub(r"%\w+", self._in_scope, line))

    def _in_scope(self, register):
        return next((scope[register[0]] for scope in reversed(self._scopes) if register[0] in scope), register[0])

    def _parse_statement(self, line):
        if variable := re.fullmatch(r"\.shared \.align (\d+) \.[bus](\d+) (\w+)(?:\[(\d+)\])?;", line):
            align, width, name, count = variable.groups()
            start = (self.shared_bytes + int(align) - 1) // int(align) * int(align)
            self.shared[name] = SHARED + start
            self.shared_bytes = start + int(width) // 8 * int(count or 1)
        elif variable := re.fullmatch(r"\.local \.align \d+ \.b8\s+(\w+)\[\d+\];", line):
            self.locals[variable[1]] = LOCAL
        elif label := re.fullmatch(r"(\$?\w+):", line):
            self.labels[label[1]] = len(self.instructions)
        elif parts := re.fullmatch(r"(?:@(!?%?\w+)\s+)?([a-z][\w.]*)\s*(.*?);", line):
            # Commas separate operands, except within {a, b}. PTX writes a result of two registers as a|b.
            operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s|]+", parts[3])
            self.instructions.append(Instruction(parts[1], parts[2], operands))
        else:
            raise PtxError(f"{self.name}: cannot read: {line}")


def parse(text):
    """Returns the kernels of a PTX file by name."""
    entries = re.findall(r"\.entry (\w+)\((.*?)\)[^{]*\n\{\n(.*?)\n\}", text, re.DOTALL)
    return {name: Kernel(name, parameters, body) for name, parameters, body in entries}
