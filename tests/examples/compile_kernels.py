#!/usr/bin/env python3
"""Compiles the kernel templates of all examples for a GPU.

compile_kernels.py <arch> <folder of the examples> <compiler> <option>...
"""

import pathlib
import re
import subprocess
import sys
import tempfile

INCLUDE = re.compile(r"^#include .*\n", re.MULTILINE)
TEMPLATE = re.compile(r"^template <", re.MULTILINE)
KERNEL = re.compile(r"^WARPVERBS_DEVICE [\w:]+ (\w+)\(", re.MULTILINE)


def kernels_of(path, arch):
    """Returns the includes of an example, and its kernels with instantiations in a namespace of its own."""
    text = path.read_text().partition("int main(")[0]
    names = KERNEL.findall(text)
    if not names or len(names) != len(TEMPLATE.findall(text)):
        sys.exit(f"{path}: expected kernel templates, then main()")
    pointers = "".join(f"__attribute__((device)) auto* of_{name} = &{name}<{arch}>;\n" for name in names)
    return set(INCLUDE.findall(text)), f"namespace {path.stem}_example {{\n{INCLUDE.sub('', text)}{pointers}}}\n"


def main(arch, examples, *command):
    parts = [kernels_of(path, arch) for path in sorted(pathlib.Path(examples).glob("*.cpp"))]
    includes = sorted(set().union(*(includes for includes, _ in parts)))
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "kernels.cu")
        source.write_text("".join(includes) + "".join(kernels for _, kernels in parts))
        output = str(source.with_suffix(".out"))
        return subprocess.run([*command, f"-I{examples}", str(source), "-o", output], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
