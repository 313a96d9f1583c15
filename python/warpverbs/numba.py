"""The device library for Numba-CUDA kernels.

    from numba import cuda
    from warpverbs import numba as wv

    @cuda.jit
    def kernel(queue, remote, rkey, local, size, lkey, signal):
        posted = wv.put_signal_add(queue, remote, rkey, local, size, lkey, signal, rkey, 1)
        result = wv.wait(queue, posted)

The short forms are calls of a thread; calls() makes those of other groups. `wv_write_block_shared_system` of
warpverbs/device_abi.h is `wv.write_block_shared_system`, with the arguments of C. Numba links what a kernel calls by itself.
An unsigned number and a signed one make a floating-point one there: add numpy.uint64 to times of wv.now_ns().
"""

from __future__ import annotations

import functools
import types

from numba import cuda

from . import _ptx, _table

__all__ = ["calls", "declarations"]

_TYPES = {"uint8_t": "unsigned char", "uint16_t": "unsigned short", "uint32_t": "unsigned int", "uint64_t": "unsigned long long"}


def declarations(function: _table.Function) -> str:
    """Returns C++ that calls a function of the library as Numba calls one: it returns a status, and the result by a pointer."""
    parameters = [f"{_TYPES[type_name]} {name}" for type_name, name in function.arguments]
    result, place = _TYPES[function.result], "numba_result"  # arguments have other names, `result` among them
    return (
        f'extern "C" __device__ {result} {function.name}({", ".join(parameters)});\n'
        f'extern "C" __device__ int numba_{function.name}({", ".join([f"{result}* {place}", *parameters])}) {{\n'
        f"  *{place} = {function.name}({', '.join(function.argument_names)});\n"
        f"  return 0;\n"
        f"}}\n"
    )


@functools.cache
def _compute_capability() -> int:
    major, minor = cuda.get_current_device().compute_capability
    if major < 8:
        raise RuntimeError(f"Cannot link the device library: it needs compute capability 8.0, and the GPU has {major}.{minor}. Run "
                           "on another GPU.")  # fmt: skip
    return 10 * major + minor


@functools.cache  # each one brings code, which may be linked only once
def _extern(function: _table.Function):
    types_of_arguments = ", ".join(type_name.removesuffix("_t") for type_name, _ in function.arguments)
    signature = f"{function.result.removesuffix('_t')}({types_of_arguments})"
    source = cuda.CUSource(declarations(function), name=f"{function.name}.cu")
    library = cuda.PTXSource(_ptx.library(_compute_capability()).select([function.name]).encode(), name=f"{function.name}.ptx")
    return cuda.declare_device(f"numba_{function.name}", signature, link=[source, library])


def _short_form(function: _table.Function):
    return cuda.jit(_table.short_form(function, _extern(function)), device=True)


def calls(group: str = "thread", sharing: str = "shared", scope: str = "system") -> types.ModuleType:
    """Returns the short forms of the library's functions for a group ("thread", "warp", "block" or "lanes"), a sharing of the
    queue ("exclusive", "shared" or "relaxed") and a scope ("gpu" or "system"). Assign them to a global variable: kernels read
    its attributes.
    """
    return _table.calls(__name__, _short_form, group, sharing, scope)


__getattr__, __dir__ = _table.attributes(globals(), _extern, calls())
