#!/usr/bin/env python3
"""Writes the docstrings of the type hints (_core.pyi) as a C++ source, so that they are written once.

docstrings.py PYI OUTPUT
"""

import ast
import inspect
import pathlib
import sys


def docstrings(text):
    """Yields name and docstring of the classes, functions and methods that have one."""
    for node in ast.parse(text).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            yield node.name, ast.get_docstring(node)
        for member in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(member, ast.FunctionDef) and ast.get_docstring(member):
                yield f"{node.name}.{member.name}", inspect.cleandoc(ast.get_docstring(member))


def main():
    source, output = map(pathlib.Path, sys.argv[1:])
    entries = "".join(f'      {{"{name}", R"doc({text})doc"}},\n' for name, text in docstrings(source.read_text()))
    output.write_text(f"""// Written by docstrings.py.
#include <stdexcept>
#include <string>

#include "binding.hpp"

namespace warpverbs::python {{

const char* Doc(std::string_view name) {{
  static constexpr std::pair<std::string_view, const char*> kAll[] = {{
{entries}  }};
  for (const auto& [one, text] : kAll) {{
    if (one == name) return text;
  }}
  throw std::logic_error("_core.pyi has no docstring of " + std::string(name));
}}

}}  // namespace warpverbs::python
""")


if __name__ == "__main__":
    main()
