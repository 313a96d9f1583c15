"""The device library for kernels in CUDA C++ that CuPy compiles.

    from warpverbs import cupy as wv

    module = wv.RawModule(r'''
    extern "C" __global__ void kernel(uint64_t queue, uint64_t remote, uint32_t rkey, uint64_t local, uint32_t lkey) {
      uint64_t result = wv_write_thread_shared_system(queue, 0, remote, rkey, local, 1024, lkey, WV_CQE_ALWAYS, WV_FOREVER, 0);
      result = wv_wait_thread(queue, 0, result, WV_FOREVER, 0);
    }
    ''')
    module.get_function("kernel")((1,), (1,), (...))

The code needs no include folder: it follows declarations(), which has the functions and constants of warpverbs/device_abi.h.
"""

from __future__ import annotations

import functools
import re

import cupy
from cupy.cuda import nvrtc

from . import _ptx, _table

__all__ = ["RawModule", "declarations"]

# NVRTC has no stdint.h. A type of another header may have the name, too, as long as it is the same one.
_PROLOGUE = """\
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef struct { uint64_t words[4]; } wv_poster;
typedef struct { uint64_t words[8]; } wv_batch;
typedef struct { uint32_t index, bytes, imm, flags; } wv_received;
"""


@functools.cache
def declarations() -> str:
    """Returns the functions, types and constants of warpverbs/device_abi.h in CUDA C++."""
    lines = [_PROLOGUE, f"static const uint64_t WV_FOREVER = {_table.FOREVER}ull;"]
    lines += [f"enum {{ {name} = {value} }};" for name, value in _table.table().constants.items()]
    for function in _table.table().functions.values():
        parameters = ", ".join(f"{type_name} {name}" for type_name, name in function.arguments)
        lines.append(f'extern "C" __device__ {function.result} {function.name}({parameters});')
    return "\n".join(lines) + "\n"


def _compile(code: str, sm: int, options: tuple[str, ...]) -> str:
    """Returns the PTX of code that calls functions of the library."""
    program = nvrtc.createProgram(declarations() + "#line 1\n" + code, "kernels.cu", (), ())
    try:
        nvrtc.compileProgram(program, ("-std=c++17", "-rdc=true", f"-arch=compute_{sm}", *options))
        ptx = nvrtc.getPTX(program)
        return ptx.rstrip(b"\0").decode() if isinstance(ptx, bytes) else ptx
    except nvrtc.NVRTCError as error:
        raise ValueError(f"Cannot compile the kernels: {nvrtc.getProgramLog(program)}. Mend the code.") from error
    finally:
        nvrtc.destroyProgram(program)


class RawModule:
    """Kernels that are linked with the device library. Like cupy.RawModule, for the current GPU.

    `code`: CUDA C++, whose kernels are extern "C". `options`: of the compiler, NVRTC.

    Raises ValueError with the compiler's messages if the code has errors; FileNotFoundError if the library was built without PTX.
    """

    def __init__(self, code: str, *, options: tuple[str, ...] = ()) -> None:
        sm = int(cupy.cuda.Device().compute_capability)
        kernels = _compile(code, sm, options)
        library = _ptx.library(sm).select(set(re.findall(r"\bwv_\w+", kernels)) & _table.table().functions.keys())
        linker = cupy.cuda.function.LinkState()
        for name, ptx in (("kernels.ptx", kernels), ("warpverbs.ptx", library)):
            linker.add_ptr_data(ptx.encode() + b"\0", name)
        self._module = cupy.cuda.function.Module()
        self._module.load(linker.complete())

    def get_function(self, name: str):
        """Returns a kernel, which is launched as kernel(grid, block, arguments)."""
        return self._module.get_function(name)
