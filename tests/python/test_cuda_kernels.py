"""What Numba-CUDA and CuPy compile and link, by stand-ins for them and by clang where it is installed."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import types

import pytest

from warpverbs import _ptx, _table

try:
    _table.folder()
except FileNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)

CLANG = shutil.which("clang++-16")


def fresh(monkeypatch, name, modules):
    for module_name, module in modules.items():
        monkeypatch.setitem(sys.modules, module_name, module)
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    return module


PTX = """\
//
.version 9.0
.weak .shared .align 8 .u64 shared_word;
.func (.param .b64 r) _internal$1
(
	.param .b64 p
)
;
.func  (.param .b64 func_retval0) helper(
	.param .b64 helper_param_0
)
{
	ret;

}
	// .globl	wv_code
.visible .func  (.param .b32 func_retval0) wv_code(
	.param .b64 wv_code_param_0
)
{
	{ // callseq 0, 0
	call.uni (retval0),
	_internal$1,
	} // callseq 0
	ret;

}
.visible .func wv_now_ns()
{
	ret;

}
.weak .func (.param .b64 r) _internal$1(
	.param .b64 p
)
{
	call.uni helper, (p);

}
"""


def functions_of(ptx):
    return re.findall(r"^(?:\.\w+ )*\.func\s+(?:\(.*?\) ?)?([\w$]+)", ptx, re.MULTILINE)


@pytest.fixture
def files(monkeypatch, tmp_path):
    """The library with stand-ins for what nvcc makes: each of its functions returns."""
    bodies = "".join(f".visible .func {name}()\n{{\n\tret;\n}}\n" for name in _table.table().functions)

    def file(name):
        path = tmp_path / name
        path.write_text(f"// {name}\n{bodies}")
        return path

    monkeypatch.setattr(_table, "file", file)
    _ptx.library.cache_clear()
    yield
    _ptx.library.cache_clear()


def test_ptx_of_a_function_has_what_it_calls_in_the_order_of_the_file():
    library = _ptx.Library(PTX)
    assert functions_of(library.select(["wv_code"])) == ["_internal$1", "helper", "wv_code", "_internal$1"]
    assert functions_of(library.select(["wv_now_ns"])) == ["wv_now_ns"]
    assert functions_of(library.select([])) == []
    for chosen in ([], ["wv_code"]):
        assert library.select(chosen).startswith("//\n.version 9.0\n.weak .shared")
    everything = library.select(["wv_code", "wv_now_ns"])
    assert sorted(everything.splitlines()) == sorted([*PTX.splitlines(), *[""] * (everything.count("\n") - PTX.count("\n"))])
    with pytest.raises(KeyError):
        library.select(["wv_nothing"])


@pytest.mark.parametrize("sm", [80, 90])
def test_ptx_of_the_library_has_every_function(sm):
    """Each is in one part alone: Numba links the parts of several functions."""
    try:
        library = _ptx.library(sm)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    for name in list(_table.table().functions)[::40]:
        assert [one for one in functions_of(library.select([name])) if one.startswith("wv_")] == [name]


@pytest.fixture
def numba(monkeypatch, files):
    """The package's module for Numba, and a list of what it declared."""
    declared = []

    def declare_device(name, signature, link):
        declared.append((name, signature, link))
        return lambda *arguments: (name, arguments)

    cuda = types.SimpleNamespace(
        CUSource=lambda text, name: (name, text),
        PTXSource=lambda text, name: (name, text),
        declare_device=declare_device,
        get_current_device=lambda: types.SimpleNamespace(compute_capability=(9, 0)),
        jit=lambda function, device: function if device else None,
    )
    numba = types.ModuleType("numba")
    numba.cuda = cuda
    return fresh(monkeypatch, "warpverbs.numba", {"numba": numba, "numba.cuda": cuda}), declared


def test_numba_declares_every_function_with_the_types_of_the_table(numba):
    module, declared = numba
    for function in _table.table().functions.values():
        getattr(module, function.python_name)
        name, signature, (source, library) = declared.pop()
        assert name == f"numba_{function.name}"
        types_of_arguments = ", ".join(type_name.removesuffix("_t") for type_name, _ in function.arguments)
        assert signature == f"{function.result.removesuffix('_t')}({types_of_arguments})"
        assert source == (f"{function.name}.cu", module.declarations(function))
        assert library[0] == f"{function.name}.ptx"
        assert library[1].startswith(b"// libwarpverbs_device_sm90.ptx") and functions_of(library[1].decode()) == [function.name]


def test_numba_short_form_calls_the_function_of_a_thread(numba):
    module, _ = numba
    name, arguments = module.write(1, 2, 3, 4, 5, 6)
    assert name == "numba_wv_write_thread_shared_system"
    assert arguments == (1, 0, 2, 3, 4, 5, 6, 8, _table.FOREVER, 0)
    assert module.calls("block").flush(1)[0] == "numba_wv_flush_block"


def test_numba_refuses_a_gpu_that_is_too_old(numba, monkeypatch):
    module, _ = numba
    module.cuda.get_current_device = lambda: types.SimpleNamespace(compute_capability=(7, 5))
    with pytest.raises(RuntimeError, match="needs compute capability 8.0, and the GPU has 7.5"):
        module.write


@pytest.fixture
def cupy(monkeypatch, files):
    """The package's module for CuPy, and a list of what was compiled, linked and loaded."""
    done = []

    class NVRTCError(Exception):
        pass

    class LinkState:
        def add_ptr_data(self, data, name):
            done.append(("link", name, data))

        def complete(self):
            return b"cubin"

    class Module:
        def load(self, cubin):
            done.append(("load", cubin))

        def get_function(self, name):
            return f"function {name}"

    def compile_program(program, options):
        done.append(("compile", program, options))
        if "mistake" in program:
            raise NVRTCError

    nvrtc = types.ModuleType("cupy.cuda.nvrtc")
    nvrtc.createProgram = lambda source, name, headers, names: source
    nvrtc.compileProgram, nvrtc.NVRTCError = compile_program, NVRTCError
    nvrtc.getPTX = lambda program: b"call wv_code, wv_nothing; call wv_write_thread_shared_system;\0"
    nvrtc.getProgramLog = lambda program: "line 1: a mistake"
    nvrtc.destroyProgram = lambda program: done.append(("destroy",))
    cuda, cupy = types.ModuleType("cupy.cuda"), types.ModuleType("cupy")
    cuda.nvrtc, cuda.Device = nvrtc, lambda: types.SimpleNamespace(compute_capability="80")
    cuda.function = types.SimpleNamespace(LinkState=LinkState, Module=Module)
    cupy.cuda = cuda
    modules = {"cupy": cupy, "cupy.cuda": cuda, "cupy.cuda.nvrtc": nvrtc}
    return fresh(monkeypatch, "warpverbs.cupy", modules), done


def test_cupy_links_what_the_kernels_call(cupy):
    module, done = cupy
    raw = module.RawModule("code", options=("-DX",))
    assert raw.get_function("kernel") == "function kernel"
    assert done.pop() == ("load", b"cubin")
    step, name, library = done.pop()
    assert (step, name) == ("link", "warpverbs.ptx")
    assert library.startswith(b"// libwarpverbs_device_sm80.ptx") and library.endswith(b"\0")
    assert sorted(functions_of(library.decode())) == ["wv_code", "wv_write_thread_shared_system"]
    assert done == [
        ("compile", module.declarations() + "#line 1\ncode", ("-std=c++17", "-rdc=true", "-arch=compute_80", "-DX")),
        ("destroy",),
        ("link", "kernels.ptx", b"call wv_code, wv_nothing; call wv_write_thread_shared_system;\0"),
    ]


def test_cupy_shows_the_messages_of_the_compiler(cupy):
    module, done = cupy
    with pytest.raises(ValueError, match="^Cannot compile the kernels: line 1: a mistake"):
        module.RawModule("mistake")
    assert done[-1] == ("destroy",)


def test_cupy_declares_the_whole_table(cupy):
    module, _ = cupy
    text = module.declarations()
    found = {name: (result, arguments) for result, name, arguments in
             re.findall(r'extern "C" __device__ (\w+) (wv_\w+)\((.*)\);', text)}  # fmt: skip
    assert found == {
        function.name: (function.result, ", ".join(f"{type_name} {name}" for type_name, name in function.arguments))
        for function in _table.table().functions.values()
    }
    assert dict(re.findall(r"enum { (\w+) = (\d+) };", text)) == {
        name: str(value) for name, value in _table.table().constants.items()
    }


@pytest.mark.skipif(CLANG is None, reason="clang++-16 is not installed")
def test_compiler_accepts_the_declarations_of_both(cupy, numba, tmp_path):
    kernel = """
extern "C" __global__ void kernel(uint64_t queue, uint64_t* result) {
  *result = wv_write_block_shared_system(queue, 0, 1, 2, 3, 4, 5, WV_CQE_ALWAYS, WV_FOREVER, 0);
  *result = wv_wait_block(queue, 0, *result, WV_FOREVER, 0);
}
"""
    shims = "".join(map(numba[0].declarations, _table.table().functions.values()))
    command = [CLANG, "-x", "cuda", "--cuda-gpu-arch=sm_80", "--cuda-device-only", "-nocudainc", "-nocudalib", "-fsyntax-only",
               "-Wno-unknown-cuda-version", "-Werror", "-D__device__=__attribute__((device))",
               "-D__global__=__attribute__((global))"]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    for name, text in {"cupy": cupy[0].declarations() + kernel, "numba": shims}.items():
        source = tmp_path / f"{name}.cu"
        source.write_text(text)
        subprocess.run([*command, str(source)], check=True, env=environment, timeout=100)
