#!/usr/bin/env python3
"""Links the device library's bitcode for NVIDIA GPUs into kernels, and compares their operations with those of the headers.

usage: check_library.py CLANG LLVM_FOLDER BITCODE INCLUDE OPTION...

The options are those that choose the GPU for the bitcode.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import ptx
from goldens import Goldens

MAX_RATIO = 1.06  # of the instructions of a post through the library to those of the headers; either varies by one or two
CUDA = ["--cuda-device-only", "-std=c++20", "-O3", "-DWARPVERBS_ONE_WAY_FENCES", "-D__global__=__attribute__((global))",
        "-emit-llvm", "-c"]  # fmt: skip
KERNELS = ("PostExclusive", "PostShared", "PostRelaxedShared", "BatchExclusive", "BatchShared", "WarpExclusive", "WarpShared")


class Tools:
    """A clang, LLVM's tools of its version, and the library."""

    def __init__(self, clang, llvm, bitcode, include, *gpu):
        self.clang, self.llvm, self.bitcode, self.include, self.gpu = clang, pathlib.Path(llvm), bitcode, include, gpu

    def run(self, tool, *arguments):
        subprocess.run([str(self.llvm / tool), *map(str, arguments)], check=True)

    def ptx(self, scope):
        """Compiles the kernels as a kernel compiler does: links what they need of the library, optimises, and generates PTX."""
        arch = {"gpu": "Cuda", "system": "CudaSystem"}[scope]
        with tempfile.TemporaryDirectory() as folder:
            kernels, linked, optimised, text = (pathlib.Path(folder) / name for name in ("kernels", "linked", "optimised", "text"))
            command = [self.clang, *self.gpu, *CUDA, f"-I{self.include}", "-include", "warpverbs/arch/cuda.hpp", f"-DARCH={arch}",
                       f"-DSCOPE={scope}", str(pathlib.Path(__file__).with_name("library_kernels.cu")), "-o", str(kernels)]  # fmt: skip
            subprocess.run(command, check=True)
            self.run("llvm-link", kernels, "--only-needed", "--internalize", self.bitcode, "-o", linked)
            self.run("opt", "-O3", "-mtriple=nvptx64-nvidia-cuda", "-mcpu=sm_80", linked, "-o", optimised)
            self.run("llc", "-O3", "-mcpu=sm_80", "-mattr=+ptx70", optimised, "-o", text)
            return text.read_text()


class LibraryGoldens(Goldens):
    """The goldens of the headers, for the kernels that post through the library."""

    def _run(self, kernel, queue, count, lanes=1):
        return ptx.run(self.program["Library" + kernel], [queue.job(count), queue.poster()], queue, lanes)


class DataPathCost(unittest.TestCase):
    """Runs the kernels in the interpreter, which knows no calls: a post that needs the slow path is an error."""

    tools: Tools

    @classmethod
    def setUpClass(cls):
        texts = {"gpu": cls.tools.ptx("gpu"), "sys": cls.tools.ptx("system")}
        cls.library = {scope: LibraryGoldens(text, scope) for scope, text in texts.items()}
        cls.headers = {scope: Goldens(text, scope) for scope, text in texts.items()}

    def test_posts_are_those_of_the_headers(self):
        for scope, goldens in self.library.items():
            for golden in ("post_exclusive", "post_shared", "post_relaxed_shared", "batch_exclusive", "batch_shared",
                           "warp_exclusive", "warp_shared"):  # fmt: skip
                with self.subTest(golden, scope=scope):
                    getattr(goldens, golden)()

    def test_posts_execute_about_as_many_instructions_as_the_headers(self):
        for scope, goldens in self.library.items():
            headers = self.headers[scope].figures(KERNELS)
            for kernel, figure in goldens.figures(KERNELS).items():
                with self.subTest(kernel, scope=scope):
                    print(f"{kernel}, scope {scope}: {figure:.0f} instructions a WQE, by the headers {headers[kernel]:.0f}")
                    self.assertLessEqual(figure, headers[kernel] * MAX_RATIO)


if __name__ == "__main__":
    DataPathCost.tools = Tools(*sys.argv[1:])
    unittest.main(argv=sys.argv[:1], verbosity=2)
