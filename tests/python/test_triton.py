"""The functions for Triton kernels, by a stand-in for Triton that records what they call; and by Triton where it is installed."""

import importlib
import importlib.util
import inspect
import sys
import types

import pytest

import warpverbs
from warpverbs import _table

try:
    _table.folder()
except FileNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)


class Tensor:
    def __init__(self, dtype, value):
        self.dtype, self.value = dtype, value


class Jit:
    def __init__(self, function, **options):
        self.function, self.options, self.runs = function, options, []

    def run(self, *arguments, **options):
        self.runs.append((arguments, options))
        return "ran"


class Constexpr:
    def __init__(self, value):
        self.value = value


def stand_in(target):
    """Returns modules with as much of Triton as the package uses."""
    core = types.ModuleType("triton.language.core")
    calls = []

    def extern(function):
        def builtin(*arguments, **options):
            assert options.get("_semantic") == "semantic", "called outside of a kernel"
            return function(*arguments, **options)

        builtin.__triton_builtin__ = True
        builtin.__wrapped__ = function
        return builtin

    def cast(value, dtype, *, _semantic):
        assert _semantic == "semantic"
        return Tensor(dtype, value.value if isinstance(value, (Tensor, Constexpr)) else value)

    def extern_elementwise(name, path, arguments, symbols, *, is_pure, _semantic):
        assert (name, path, is_pure, _semantic) == ("", "", False, "semantic")
        symbol, result = symbols[tuple(argument.dtype for argument in arguments)]
        calls.append((symbol, [(argument.dtype, argument.value) for argument in arguments], result))
        return Tensor(result, 0)

    core.extern, core.cast, core.extern_elementwise, core.constexpr, core.dtype = extern, cast, extern_elementwise, Constexpr, str
    triton, language, runtime = (types.ModuleType(name) for name in ("triton", "triton.language", "triton.runtime"))
    triton.language, triton.runtime, language.core, runtime.JITFunction = language, runtime, core, Jit
    runtime.driver = types.SimpleNamespace(active=types.SimpleNamespace(get_current_target=lambda: target))
    modules = {"triton": triton, "triton.language": language, "triton.language.core": core, "triton.runtime": runtime}
    return modules, calls


@pytest.fixture
def wv(monkeypatch):
    """The package's module, and a list of the external calls that it made."""
    modules, calls = stand_in(types.SimpleNamespace(backend="cuda", arch=90))
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "warpverbs.triton", raising=False)
    module = importlib.import_module("warpverbs.triton")
    yield module, calls
    # The next import makes the module again, with Triton itself.
    sys.modules.pop("warpverbs.triton", None)
    del warpverbs.triton


def test_every_function_is_called_with_the_types_of_the_table(wv):
    module, calls = wv
    for function in _table.table().functions.values():
        values = range(100, 100 + len(function.arguments))
        result = getattr(module, function.python_name)(*values, _semantic="semantic")
        symbol, arguments, returned = calls.pop()
        assert symbol == function.name
        assert arguments == [(type_name.removesuffix("_t"), value) for (type_name, _), value in zip(function.arguments, values)]
        assert returned == result.dtype == function.result.removesuffix("_t")


def test_every_short_form_calls_the_function_of_a_block(wv):
    module, calls = wv
    for operation, function in _table.table().select("block", "shared", "system").items():
        given = {name: number for number, name in enumerate(function.argument_names, 100) if name not in function.defaults}
        getattr(module, operation)(**given, _semantic="semantic")
        symbol, arguments, _ = calls.pop()
        assert symbol == function.name
        assert [value for _, value in arguments] == [({**function.defaults, **given})[name] for name in function.argument_names]


def test_calls_of_other_groups_are_modules_as_kernels_need_them(wv):
    module, calls = wv
    lanes = module.calls("lanes", "exclusive", "gpu")
    assert type(lanes) is types.ModuleType
    lanes.write(1, 2, 3, 4, 5, 6, _semantic="semantic")
    assert calls.pop()[0] == "wv_write_lanes_exclusive_gpu"
    assert lanes.CQE_ALWAYS.value == module.CQE_ALWAYS.value == 8


def test_compiler_sees_builtins_that_take_its_semantic(wv):
    module, _ = wv
    for name in ("write", "write_block_shared_system", "now_ns"):
        function = getattr(module, name)
        assert function.__triton_builtin__
        assert "_semantic" in inspect.signature(function).parameters


def test_wrong_number_of_arguments_names_them(wv):
    module, _ = wv
    with pytest.raises(TypeError, match="takes 5 arguments: signal, compare, value, deadline_ns, abort_word"):
        module.signal_wait_block(1, _semantic="semantic")


def bitcode_of_nvidia():
    """Returns the library's bitcode; where no compiler was found that makes it, the test is skipped."""
    try:
        return str(_table.file("libwarpverbs_device_sm80.bc"))
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_kernel_is_linked_with_the_bitcode(wv):
    module, _ = wv
    bitcode = bitcode_of_nvidia()

    @module.jit
    def kernel(queue):
        pass

    @module.jit(noinline=True)
    def other(queue):
        pass

    assert kernel.run(1, grid=(1,)) == "ran"
    assert kernel.runs == [((1,), {"grid": (1,), "extern_libs": {"warpverbs": bitcode}})]
    other.run(extern_libs={"mine": "mine.bc"})
    assert other.runs == [((), {"extern_libs": {"warpverbs": bitcode, "mine": "mine.bc"}})]
    assert other.options == {"noinline": True}


@pytest.mark.parametrize(
    ("backend", "arch", "name"),
    [("cuda", 80, "sm80"), ("cuda", 100, "sm80"), ("hip", "gfx942:sramecc+:xnack-", "gfx942"), ("hip", "gfx1101", "gfx1100")],
)
def test_bitcode_is_that_of_the_gpu(wv, monkeypatch, backend, arch, name):
    module, _ = wv
    monkeypatch.setattr(_table, "file", lambda wanted: wanted)
    target = types.SimpleNamespace(backend=backend, arch=arch)
    assert module.libraries(target) == {"warpverbs": f"libwarpverbs_device_{name}.bc"}


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_triton_links_a_kernel_without_a_gpu():
    bitcode_of_nvidia()
    import triton
    from triton.backends.compiler import GPUTarget
    from triton_kernel import put

    from warpverbs import triton as wv

    target = GPUTarget("cuda", 90, 32)
    signature = {"queue": "u64", "remote": "u64", "rkey": "u32", "local": "u64", "lkey": "u32", "result": "*u64"}
    source = triton.compiler.ASTSource(fn=put, signature=signature)
    compiled = triton.compile(source, target=target, options={"extern_libs": wv.libraries(target)})
    assert "st.mmio" in compiled.asm["ptx"]  # the doorbell
    assert not [line for line in compiled.asm["ptx"].splitlines() if ".extern" in line and "wv_" in line]
