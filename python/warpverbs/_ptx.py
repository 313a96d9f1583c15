"""Takes functions out of the device library's PTX: linkers translate a whole file, and the library's has a thousand functions."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from . import _table

# A declaration ends with a semicolon at the begin of a line, a definition with a brace there.
_FUNCTION = re.compile(r"^(?:\.visible |\.weak )?\.func (?:.*\n)+?[;}]\n", re.MULTILINE)
_NAME = re.compile(r"\.func\s+(?:\([^)]*\)\s*)?([\w$]+)")
_WORD = re.compile(r"[\w$]+")


class Library:
    """The text of a PTX file, function by function."""

    def __init__(self, text: str) -> None:
        self._rest = _FUNCTION.sub("", text)  # version, target, and what all functions may use
        self._parts: list[tuple[str, str]] = []  # declarations and definitions: names and text
        for match in _FUNCTION.finditer(text):
            name = _NAME.search(match[0])
            assert name
            self._parts.append((name[1], match[0]))
        self._of: dict[str, list[str]] = {}
        for function, part in self._parts:
            self._of.setdefault(function, []).append(part)

    def select(self, names: Iterable[str]) -> str:
        """Returns PTX with these functions and all that they call.

        Raises KeyError: the library does not have one of them.
        """
        wanted: set[str] = set()
        found = list(names)
        while found:
            name = found.pop()
            if name in wanted:
                continue
            wanted.add(name)
            found += {word for part in self._of[name] for word in _WORD.findall(part)} & self._of.keys() - wanted
        # In the order of the file, in which each function is declared before another calls it.
        return "\n".join([self._rest, *(part for name, part in self._parts if name in wanted)])


@functools.cache
def library(sm: int) -> Library:
    """Returns the library's PTX for GPUs of a compute capability, 90 for 9.0, and later ones.

    Raises FileNotFoundError: the library was built without it.
    """
    return Library(_table.file(f"libwarpverbs_device_sm{90 if sm >= 90 else 80}.ptx").read_text())
