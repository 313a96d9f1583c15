"""What users see: names, docstrings and type hints."""

import ast
import inspect
import pathlib

import pytest

import warpverbs
import warpverbs.transport
from warpverbs import _core

HINTS = pathlib.Path(warpverbs.__file__).parent / "_core.pyi"
PUBLIC = {name: one for module in (warpverbs, warpverbs.transport) for name, one in vars(module).items()
          if not name.startswith("_") and (inspect.isclass(one) or inspect.isroutine(one))
          and getattr(one, "__module__", "").startswith("warpverbs")}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_has_a_docstring(name):
    assert inspect.getdoc(PUBLIC[name])


def test_hints_are_those_of_the_module():
    """Each name of _core.pyi exists, and each public name of the module is in it."""
    for node in ast.parse(HINTS.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            assert hasattr(_core, node.name)
        elif isinstance(node, ast.ClassDef) and node.name != "_Closeable":
            hinted = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
            # pybind11 2.13 adds a name of its own, with one underscore.
            bound = {name for name in vars(getattr(_core, node.name)) if not name.startswith("_")}
            assert {name for name in hinted if not name.startswith("_")} == bound - {"close", "closed"}
    hinted = {node.name for node in ast.parse(HINTS.read_text()).body if hasattr(node, "name")}
    assert {name for name in vars(_core) if not name.startswith("_")} <= hinted


def test_package_is_marked_as_typed():
    assert HINTS.with_name("py.typed").exists()
