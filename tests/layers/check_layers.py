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
    "gpuio": {"transport", "host", "sync"},
    "python": {"transport", "host", "device", "arch", "mlx5"},
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
# The same for the folders of src/gpuio.
GPUIO_MAY_INCLUDE = {
    "protocol": set(),
    "files": {"protocol"},
    "server": {"protocol"},
    "mount": {"files", "protocol"},
    "ring": set(),
    "control": {"ring", "protocol"},
    "api": {"ring", "control"},
    "daemon": {"ring", "control", "files", "mount", "protocol"},
    "programs": {"daemon", "mount", "server", "files", "control", "protocol"},
}
FOLDERS_MAY_INCLUDE = {"softhca": SOFTHCA_MAY_INCLUDE, "gpuio": GPUIO_MAY_INCLUDE}
# Layers that one folder may include, beyond those of its layer.
FOLDER_MAY_ALSO_INCLUDE = {("gpuio", "programs"): {"programs"}}
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


def folder_of(root, path):
    """Returns the layer and the folder of a file in a layer whose folders have rules, or None."""
    for layer in FOLDERS_MAY_INCLUDE:
        if path.is_relative_to(root / "src" / layer):
            return layer, path.relative_to(root / "src" / layer).parts[0]
    return None


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
            may_include = MAY_INCLUDE[layer] | FOLDER_MAY_ALSO_INCLUDE.get(folder_of(root, path), set())
            if other is not None and other != layer and other not in may_include:
                allowed = ", ".join(sorted(may_include)) or "nothing of ours"
                found.append(f"{where}: includes {name}, but {layer}/ may include {allowed}")
            folder, target_folder = folder_of(root, path), folder_of(root, target) if target else None
            if folder and target_folder and folder[0] == target_folder[0] and folder != target_folder:
                may = FOLDERS_MAY_INCLUDE[layer].get(folder[1], set())
                if target_folder[1] not in may:
                    allowed = ", ".join(sorted(may)) or f"nothing of {layer}"
                    found.append(f"{where}: includes {name}, but {layer}/{folder[1]}/ may include {allowed}")
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
