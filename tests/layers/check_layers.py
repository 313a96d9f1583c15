#!/usr/bin/env python3
"""Enforces the includes that each layer may have, and that processor conditionals stay in arch/. Prints every violation."""

import pathlib
import re
import sys

# A layer may include itself and these.
MAY_INCLUDE = {
    "mlx5": set(),
    "arch": {"mlx5"},
    "device": {"arch", "mlx5"},
    "sync": set(),
    "host": {"device", "arch", "mlx5", "sync"},
    "rdmacm": {"host"},
    "transport": {"host", "device", "arch", "sync"},
    "gpuio": {"transport", "host"},
    "programs": {"transport", "host", "device", "arch", "mlx5"},
    "softhca": {"mlx5", "sync"},
}
# The same for the folders of src/softhca.
SOFTHCA_MAY_INCLUDE = {
    "dma": set(),
    "core": {"dma"},
    "wire": {"core", "dma"},
    "cm": {"wire", "core"},
    "faults": {"wire", "core"},
    "observe": {"wire", "core"},
    "uverbs": {"wire", "core", "dma"},
    "ucma": {"uverbs", "cm", "wire", "core"},
    "setup": {"observe", "faults", "wire", "core"},
    "cli": {"setup", "observe", "faults", "wire", "core"},
    "preload": {"ucma", "uverbs", "setup", "observe", "faults", "cm", "wire", "core", "dma"},
    "control": {"preload", "core"},
}
# Kernels embed these: they need nothing but a compiler.
NO_DEPENDENCY = {"mlx5", "arch", "device"}
ROOTS = ("include/warpverbs", "src")
DEVICE_ABI = "include/warpverbs/device_abi.h"  # belongs to device/
VERSION = "include/warpverbs/version.hpp"
MAX_PROCESSOR_FILES = 2

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
PROCESSOR = re.compile(r"^\s*#\s*(?:el)?if.*__(?:CUDA|NVCC|HIP|AMDGCN)", re.MULTILINE)
DEPENDENCY = re.compile(r"^(infiniband|rdma|spdlog|fmt|CLI|nlohmann)/")


def layer_of(root, path):
    """Returns the layer of a file; None for a file outside and for version.hpp, which every layer may include."""
    if path == root / DEVICE_ABI:
        return "device"
    for folder in ROOTS:
        if path.is_relative_to(root / folder) and path != root / VERSION:
            return path.relative_to(root / folder).parts[0]
    return None


def softhca_folder(root, path):
    """Returns the folder of softhca that a file belongs to, or None."""
    if not path.is_relative_to(root / "src/softhca"):
        return None
    return path.relative_to(root / "src/softhca").parts[0]


def included_file(root, path, name):
    """Returns the file of ours that `path` includes as `name`, or None."""
    own = layer_of(root, path)
    for folder in (path.parent, root / "include", root / "src" / own, root / "src"):
        target = (folder / name).resolve()
        if target.is_file():
            return target
    return None


def violations(root):
    """Returns a line for each rule that a file breaks."""
    root = pathlib.Path(root).resolve()
    found = []
    processor_files = []
    files = (f for folder in ROOTS for f in sorted((root / folder).rglob("*")) if f.suffix in (".hpp", ".cpp", ".cu"))
    for path in files:
        layer = layer_of(root, path)
        where = path.relative_to(root)
        if path == root / VERSION:
            if INCLUDE.search(path.read_text()):
                found.append(f"{where}: includes a file, but every layer includes it: it includes nothing")
            continue
        if layer not in MAY_INCLUDE:
            found.append(f"{where}: {layer}/ is not a layer; the layers are {', '.join(MAY_INCLUDE)}")
            continue
        text = path.read_text()
        for quote, name in INCLUDE.findall(text):
            target = included_file(root, path, name)
            other = layer_of(root, target) if target else None
            if other is not None and other != layer and other not in MAY_INCLUDE[layer]:
                allowed = ", ".join(sorted(MAY_INCLUDE[layer])) or "nothing of ours"
                found.append(f"{where}: includes {name}, but {layer}/ may include {allowed}")
            folder, target_folder = softhca_folder(root, path), softhca_folder(root, target) if target else None
            if target_folder not in (None, folder) and target_folder not in SOFTHCA_MAY_INCLUDE.get(folder, set()):
                allowed = ", ".join(sorted(SOFTHCA_MAY_INCLUDE.get(folder, set()))) or "nothing of softhca"
                found.append(f"{where}: includes {name}, but softhca/{folder}/ may include {allowed}")
            if layer in NO_DEPENDENCY and DEPENDENCY.match(name):
                found.append(f"{where}: includes {name}, but {layer}/ needs nothing but a compiler")
        if PROCESSOR.search(text):
            processor_files.append(where)
            if layer not in ("arch", "mlx5"):
                found.append(f"{where}: asks for the processor in an #if; that belongs in arch/ or mlx5/endian.hpp")
    if len(processor_files) > MAX_PROCESSOR_FILES:
        found.append(f"{len(processor_files)} files ask for the processor in an #if, {MAX_PROCESSOR_FILES} may: "
                     + ", ".join(map(str, processor_files)))
    return found


if __name__ == "__main__":
    problems = violations(sys.argv[1])
    print("\n".join(problems) or "every include follows the layers")
    sys.exit(1 if problems else 0)
