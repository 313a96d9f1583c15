"""What Numba-CUDA and CuPy compile and link, by stand-ins for them and by clang where it is installed."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import types

import pytest

from warpverbs import _table

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


@pytest.fixture
def files(monkeypatch, tmp_path):
    """The library with empty files for what nvcc makes."""
    table = _table.folder() / _table.TABLE

    def file(name):
        path = tmp_path / name
        path.write_bytes(f"// {name}".encode())
        return path

    monkeypatch.setattr(_table, "file", file)
    assert table.is_file()


@pytest.fixture
def numba(monkeypatch, files):
    """The package's module for Numba, and a list of what it declared."""
    declared = []

    def declare_device(name, signature, link):
        declared.append((name, signature, link))
        return lambda *arguments: (name, arguments)

    cuda = types.SimpleNamespace(
        CUSource=lambda text, name: (name, text),
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
        assert library.endswith("libwarpverbs_device_sm90.ptx")


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
    nvrtc.getPTX = lambda program: b"ptx\0"
    nvrtc.getProgramLog = lambda program: "line 1: a mistake"
    nvrtc.destroyProgram = lambda program: done.append(("destroy",))
    cuda, cupy = types.ModuleType("cupy.cuda"), types.ModuleType("cupy")
    cuda.nvrtc, cuda.Device = nvrtc, lambda: types.SimpleNamespace(compute_capability="80")
    cuda.function = types.SimpleNamespace(LinkState=LinkState, Module=Module)
    cupy.cuda = cuda
    modules = {"cupy": cupy, "cupy.cuda": cuda, "cupy.cuda.nvrtc": nvrtc}
    return fresh(monkeypatch, "warpverbs.cupy", modules), done


def test_cupy_links_the_ptx_of_the_gpu(cupy):
    module, done = cupy
    raw = module.RawModule("code", options=("-DX",))
    assert raw.get_function("kernel") == "function kernel"
    assert done == [
        ("compile", module.declarations() + "#line 1\ncode", ("-std=c++17", "-rdc=true", "-arch=compute_80", "-DX")),
        ("destroy",),
        ("link", "kernels.ptx", b"ptx\0"),
        ("link", "warpverbs.ptx", b"// libwarpverbs_device_sm80.ptx\0"),
        ("load", b"cubin"),
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
    shims = "".join(map(numba[0].declarations, list(_table.table().functions.values())[::97]))
    command = [CLANG, "-x", "cuda", "--cuda-gpu-arch=sm_80", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-feature=+ptx78", "-fsyntax-only",
               "-Wno-unknown-cuda-version", "-Werror", "-D__device__=__attribute__((device))",
               "-D__global__=__attribute__((global))"]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    for name, text in {"cupy": cupy[0].declarations() + kernel, "numba": shims}.items():
        source = tmp_path / f"{name}.cu"
        source.write_text(text)
        subprocess.run([*command, str(source)], check=True, env=environment, timeout=100)
