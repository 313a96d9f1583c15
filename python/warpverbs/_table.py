"""Finds the files of the device library, and reads the table of its functions.

The modules for kernels (triton, numba, cupy, kernels) are made from the table, so a function of warpverbs/device_abi.h has the
same name in all of them: `wv_write_block_shared_system` is `write_block_shared_system`. Its short form is `write`: it has the
group, sharing and scope of a module, and defaults for what most calls leave out.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import pathlib
import re
import sys
import sysconfig
import types
from collections.abc import Callable

from . import __version__

TABLE = "warpverbs_device.json"
FOREVER = 2**64 - 1  # a deadline that no wait reaches

GROUPS = ("thread", "warp", "block", "lanes")
SHARINGS = ("exclusive", "shared", "relaxed")
SCOPES = ("gpu", "system")
NAME = re.compile(rf"wv_(\w+?)(?:_({'|'.join(GROUPS)}))?(?:_({'|'.join(SHARINGS)}))?(?:_({'|'.join(SCOPES)}))?")


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of the library, with types as in C."""

    name: str
    result: str
    arguments: tuple[tuple[str, str], ...]  # types and names

    @property
    def python_name(self) -> str:
        return self.name.removeprefix("wv_")

    @functools.cached_property
    def parts(self) -> tuple[str, str | None, str | None, str | None]:
        """Operation, group, sharing and scope; None for what its name leaves out."""
        match = NAME.fullmatch(self.name)
        assert match
        return match.groups()

    @property
    def operation(self) -> str:
        return self.parts[0]

    @property
    def argument_names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.arguments)

    @functools.cached_property
    def defaults(self) -> dict[str, int]:
        """The arguments that the short form may leave out."""
        names = self.argument_names
        found = {"flags": table().constants["WV_CQE_ALWAYS"], "deadline_ns": FOREVER, "abort_word": 0, "submit": 1, "poster": 0}
        if "fetched" in names and "lkey" in names:  # an atomic that need not fetch the old value
            found |= {"fetched": 0, "lkey": 0}
        if self.operation == "receive_post":
            found |= {"local2": 0, "bytes2": 0, "lkey2": 0}
        return {name: found[name] for name in sorted(names, key="poster".__eq__) if name in found}


@dataclasses.dataclass(frozen=True)
class Table:
    """Everything that warpverbs/device_abi.h declares."""

    version: str
    constants: dict[str, int]
    functions: dict[str, Function]

    def select(self, group: str, sharing: str, scope: str) -> dict[str, Function]:
        """Returns the function for each operation.

        What has no function for lanes is called by each lane as a thread.

        Raises ValueError for a group, sharing or scope that does not exist.
        """
        for what, value, values in (("group", group, GROUPS), ("sharing", sharing, SHARINGS), ("scope", scope, SCOPES)):
            if value not in values:
                raise ValueError(f"Cannot select calls: {what} {value!r} is none of {', '.join(values)}. Pass one of these.")
        chosen = {}
        for groups in ("thread", group) if group == "lanes" else (group,):
            for function in self.functions.values():
                operation, *rest = function.parts
                if all(part in (None, wanted) for part, wanted in zip(rest, (groups, sharing, scope))):
                    chosen[operation] = function
        return chosen


def folders() -> list[pathlib.Path]:
    """Returns the folders in which the library may be, the first one best.

    These are the one that WARPVERBS_DEVICE_LIBRARY names; or else the package's, that of the build that it belongs to, those of
    the system that it is installed in, and the builds of the source tree that it belongs to, the newest first.
    """
    if named := os.environ.get("WARPVERBS_DEVICE_LIBRARY"):
        return [pathlib.Path(named)]
    package = pathlib.Path(__file__).resolve().parent
    kinds = [f"lib/{sysconfig.get_config_var('MULTIARCH')}", "lib", "lib64"]
    bundled = [package / "sdk" / kind / "warpverbs" for kind in kinds]
    prefixes = [*package.parents, pathlib.Path(sys.prefix), pathlib.Path("/usr/local"), pathlib.Path("/usr")]
    installed = [prefix / kind / "warpverbs" for prefix in prefixes for kind in kinds]
    own = pathlib.Path(__file__).absolute().parents[2] / "src/device"  # in a build tree, the package has links
    tables = (package.parents[1] / "build").glob(f"*/src/device/{TABLE}")
    built = [path.parent for path in sorted(tables, key=lambda path: -path.stat().st_mtime)]
    return list(dict.fromkeys([package, *bundled, own, *installed, *built]))


@functools.cache
def folder() -> pathlib.Path:
    """Returns the folder of the library.

    Raises FileNotFoundError if it is in none of folders().
    """
    for path in folders():
        if (path / TABLE).is_file():
            return path
    named = os.environ.get("WARPVERBS_DEVICE_LIBRARY")
    places = f"in {named}" if named else "in the package, in its build, or in the system's folders"
    raise FileNotFoundError(
        f"Cannot find the device library: {TABLE} is not {places}. Build without -DWARPVERBS_BUILD_DEVICE_LIBRARY=OFF, install "
        "libwarpverbs-dev, or set WARPVERBS_DEVICE_LIBRARY to the folder that has it."
    )


@functools.cache
def file(name: str) -> pathlib.Path:
    """Returns a file of the library. A shared library may have a version behind its name, and be a folder further up.

    Raises FileNotFoundError if the library was built without it.
    """
    patterns = [name, name + ".*"] if name.endswith(".so") else [name]
    for where, pattern in itertools.product((folder(), folder().parent), patterns):
        for path in sorted(where.glob(pattern)):
            if path.is_file():  # a link may lead nowhere
                return path
    raise FileNotFoundError(
        f"Cannot find {name}: the device library in {folder()} was built without it. See docs/device-library.md for the compiler "
        "that makes it, and build the library again."
    )


@functools.cache
def table() -> Table:
    """Reads the table of the library.

    Raises RuntimeError if the library is of another version than the package: their views differ.
    """
    content = json.loads((folder() / TABLE).read_text())
    if content["version"] != __version__:
        raise RuntimeError(
            f"Cannot use the device library in {folder()}: it is version {content['version']}, and the package is {__version__}. "
            "Install both of one version, or set WARPVERBS_DEVICE_LIBRARY to the folder of the package's."
        )
    functions = (
        Function(row["name"], row["result"], tuple((type_name, name) for type_name, name in row["arguments"]))
        for row in content["functions"]
    )
    return Table(content["version"], content["constants"], {function.name: function for function in functions})


def constants() -> dict[str, int]:
    """Returns the library's constants by their names in Python: WV_OK is OK."""
    return {name.removeprefix("WV_"): value for name, value in table().constants.items()} | {"FOREVER": FOREVER}


def short_form(function: Function, call: Callable, *, extra: str = "") -> Callable:
    """Returns a Python function with the arguments of a short form, which passes `call` all arguments in C's order.

    `extra`: a keyword that is passed on.
    """
    required = [name for name in function.argument_names if name not in function.defaults]
    optional = [f"{name}={value}" for name, value in function.defaults.items()]
    parameters = [*required, *optional, *([f"{extra}=None"] if extra else [])]
    arguments = [*function.argument_names, *([f"{extra}={extra}"] if extra else [])]
    lines = f"def {function.operation}({', '.join(parameters)}):\n    return call({', '.join(arguments)})\n"
    namespace = {"call": call}
    exec(compile(lines, f"<{function.name}>", "exec"), namespace)
    made = namespace[function.operation]
    made.__doc__ = f"Calls {function.name}() of warpverbs/device_abi.h."
    return made


def calls(package: str, make: Callable[[Function], object], group: str, sharing: str, scope: str,
          values: dict[str, object] | None = None) -> types.ModuleType:  # fmt: skip
    """Returns a module with constants, and with what `make` returns for each function of a group, sharing and scope by its
    short name. A module, since compilers of kernels look for functions in nothing else.

    `values`: the constants, by default constants().
    """
    functions = table().select(group, sharing, scope)
    module = types.ModuleType(f"{package}.{group}_{sharing}_{scope}", f"Calls of a {group} on {sharing} queues, scope {scope}.")
    module.__dict__.update(constants() if values is None else values)

    def get(name: str) -> object:
        if name not in functions:
            raise AttributeError(f"module {module.__name__} has no attribute {name}")
        setattr(module, name, made := make(functions[name]))
        return made

    module.__getattr__ = get
    module.__dir__ = lambda: sorted({*module.__dict__, *functions})
    return module


def attributes(globals_: dict[str, object], make: Callable[[Function], object], short_forms: types.ModuleType) -> tuple:
    """Returns __getattr__ and __dir__ of a module that has each function of the library without its wv_, and short forms."""
    functions = {function.python_name: function for function in table().functions.values() if any(function.parts[1:])}

    def get(name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(f"module {globals_['__name__']} has no attribute {name}")
        made = make(functions[name]) if name in functions else getattr(short_forms, name)
        return globals_.setdefault(name, made)

    return get, lambda: sorted({*globals_, *functions, *dir(short_forms)})
