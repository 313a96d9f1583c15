"""Builds the wheel: CMake builds the extension module, and installs headers and the CMake package beside it.

CMAKE_ARGS has further options of CMake.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).parent.resolve()


class BuildByCmake(build_ext):
    """Builds the extension by CMake, with the libraries inside."""

    def build_extension(self, extension):
        build = pathlib.Path(self.build_temp).resolve()
        module = pathlib.Path(self.get_ext_fullpath(extension.name)).resolve()
        off = [f"-DWARPVERBS_BUILD_{part}=OFF" for part in ("TESTS", "EXAMPLES", "PROGRAMS", "SOFTHCA", "GPUIO")]
        subprocess.run(["cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_UNITY_BUILD=ON", "-DBUILD_SHARED_LIBS=OFF",
                        "-DWARPVERBS_RDMACM=OFF", "-DWARPVERBS_MPI=OFF", *off, "-DWARPVERBS_BUILD_PYTHON=ON",
                        f"-DWARPVERBS_PYTHON={sys.executable}", "-DCMAKE_INSTALL_LIBDIR=lib",
                        *shlex.split(os.environ.get("CMAKE_ARGS", ""))], check=True)
        subprocess.run(["cmake", "--build", build, "--parallel", str(len(os.sched_getaffinity(0)))], check=True)
        module.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(build / "python/warpverbs" / module.name, module)
        if not self.inplace:
            for component in ("development", "libraries"):  # the device library for threads is a shared one
                subprocess.run(["cmake", "--install", build, "--component", component, "--prefix", module.parent / "sdk"],
                               check=True)


def version():
    text = (ROOT / "include/warpverbs/version.hpp").read_text()
    return ".".join(re.findall(r"#define WARPVERBS_VERSION_\w+ (\d+)", text))


setup(version=version(), packages=["warpverbs"], package_dir={"": "python"},
      package_data={"warpverbs": ["*.pyi", "py.typed"]}, ext_modules=[Extension("warpverbs._core", sources=[])],
      cmdclass={"build_ext": BuildByCmake})
