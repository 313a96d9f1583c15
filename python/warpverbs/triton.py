"""The device library for Triton kernels.

    from warpverbs import triton as wv

    @wv.jit
    def kernel(queue, remote, rkey, local, size, lkey, signal):
        posted = wv.put_signal_add(queue, remote, rkey, local, size, lkey, signal, rkey, 1)
        result = wv.wait(queue, posted)

    kernel[(1,)](endpoint_view, ...)

Every thread of a Triton program executes a scalar call. So the short forms are calls of a block: one operation is posted, and
all threads get its result. calls() makes those of other groups, for tensor arguments, which make a call for each element; where
a tensor has fewer elements than the block has threads, Triton repeats elements, and each repetition posts. Addresses are integers
or pointers. `wv_write_block_shared_system` of warpverbs/device_abi.h is `wv.write_block_shared_system`, with the arguments of C.
"""

from __future__ import annotations

import functools
import inspect
import types

import triton
from triton.language import core

from . import _table

__all__ = ["calls", "jit", "libraries"]



def libraries(target=None) -> dict[str, str]:
    """Returns the launch option extern_libs that links the device library into a kernel.

    `target`: a triton.backends.compiler.GPUTarget; None: the current GPU's.

    Raises FileNotFoundError if the library was not built for that GPU.
    """
    target = target or triton.runtime.driver.active.get_current_target()
    if target.backend == "cuda":
        name = "sm80"
    else:
        family = str(target.arch).partition(":")[0]
        name = "gfx1100" if family.startswith("gfx11") else family
    return {"warpverbs": str(_table.file(f"libwarpverbs_device_{name}.bc"))}


class _Kernel(triton.runtime.JITFunction):
    """A kernel that is linked with the device library."""

    def run(self, *arguments, **options):
        options["extern_libs"] = libraries() | dict(options.get("extern_libs") or {})
        return super().run(*arguments, **options)


def jit(function=None, **options):
    """Compiles a function as @triton.jit does, and links it with the device library when it is launched.

    Functions that such a kernel calls can be of @triton.jit.
    """
    if function is None:
        return functools.partial(jit, **options)
    return _Kernel(function, **options)


def _extern(function: _table.Function):
    """Returns a builtin of Triton for a function of the library, with the arguments of C."""
    dtypes = tuple(core.dtype(type_name.removesuffix("_t")) for type_name, _ in function.arguments)
    symbols = {dtypes: (function.name, core.dtype(function.result.removesuffix("_t")))}

    def call(*arguments, _semantic=None):
        if len(arguments) != len(dtypes):
            raise TypeError(f"{function.python_name}() takes {len(dtypes)} arguments: {', '.join(function.argument_names)}")
        typed = [core.cast(argument, dtype, _semantic=_semantic) for argument, dtype in zip(arguments, dtypes)]
        return core.extern_elementwise("", "", typed, symbols, is_pure=False, _semantic=_semantic)

    call.__name__ = call.__qualname__ = function.python_name
    call.__doc__ = f"Calls {function.name}({', '.join(function.argument_names)}) of warpverbs/device_abi.h."
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in function.argument_names]
    keyword = inspect.Parameter("_semantic", inspect.Parameter.KEYWORD_ONLY, default=None)
    call.__signature__ = inspect.Signature([*parameters, keyword])
    return core.extern(call)


def _short_form(function: _table.Function):
    return core.extern(_table.short_form(function, _extern(function), extra="_semantic"))


def calls(group: str = "block", sharing: str = "shared", scope: str = "system") -> types.ModuleType:
    """Returns the short forms of the library's functions for a group ("thread", "warp", "block" or "lanes"), a sharing of the
    queue ("exclusive", "shared" or "relaxed") and a scope ("gpu" or "system"). Assign them to a global variable: kernels read
    its attributes.
    """
    values = {name: core.constexpr(value) for name, value in _table.constants().items()}
    return _table.calls(__name__, _short_form, group, sharing, scope, values)


__getattr__, __dir__ = _table.attributes(globals(), _extern, calls())
