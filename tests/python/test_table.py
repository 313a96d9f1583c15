"""The table of the device library, and where its files are found."""

import pathlib

import pytest

from warpverbs import _table

try:
    _table.folder()
except FileNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)


def test_every_function_has_a_unique_name_in_python():
    functions = _table.table().functions.values()
    assert len({function.python_name for function in functions}) == len(functions)
    assert all(function.name == "wv_" + function.python_name for function in functions)


def test_every_function_is_a_short_form_of_some_selection():
    selected = set()
    for group in _table.GROUPS:
        for sharing in _table.SHARINGS:
            for scope in _table.SCOPES:
                functions = _table.table().select(group, sharing, scope)
                assert all(operation == function.operation for operation, function in functions.items())
                selected |= {function.name for function in functions.values()}
    assert selected == set(_table.table().functions)


def test_selections_have_the_same_operations():
    selections = [set(_table.table().select(group, "shared", "system")) for group in _table.GROUPS]
    assert all(selection == selections[0] for selection in selections)


def test_lanes_call_as_threads_what_has_no_function_for_lanes():
    lanes = _table.table().select("lanes", "exclusive", "gpu")
    assert lanes["write"].name == "wv_write_lanes_exclusive_gpu"
    assert lanes["wait"].name == "wv_wait_thread"


@pytest.mark.parametrize("choice", [("grid", "shared", "system"), ("block", "private", "system"), ("block", "shared", "host")])
def test_selection_refuses_what_does_not_exist(choice):
    with pytest.raises(ValueError, match="^Cannot select calls: "):
        _table.table().select(*choice)


def test_short_form_passes_all_arguments_in_the_order_of_c():
    for function in _table.table().select("block", "shared", "system").values():
        passed = []
        short = _table.short_form(function, lambda *arguments: passed.append(arguments))
        values = {name: number for number, name in enumerate(function.argument_names, 100)}
        short(**values)
        required = {name: value for name, value in values.items() if name not in function.defaults}
        short(*required.values())
        assert passed == [tuple(values.values()), tuple(({**function.defaults, **required})[name] for name in values)]


def test_short_form_of_a_write_needs_what_it_writes():
    function = _table.table().functions["wv_write_block_shared_system"]
    assert function.defaults == {"flags": 8, "deadline_ns": _table.FOREVER, "abort_word": 0, "poster": 0}


def test_variable_names_the_only_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("WARPVERBS_DEVICE_LIBRARY", str(tmp_path))
    assert _table.folders() == [tmp_path]
    _table.folder.cache_clear()
    try:
        with pytest.raises(FileNotFoundError, match="^Cannot find the device library: .*set WARPVERBS_DEVICE_LIBRARY"):
            _table.folder()
    finally:
        _table.folder.cache_clear()


def test_library_of_another_version_is_refused(monkeypatch):
    _table.table.cache_clear()
    monkeypatch.setattr(_table, "__version__", "0.0.1")
    try:
        with pytest.raises(RuntimeError, match="^Cannot use the device library in .*the package is 0.0.1"):
            _table.table()
    finally:
        _table.table.cache_clear()


def test_package_and_its_build_come_before_the_system_and_the_system_before_the_source_tree(monkeypatch):
    monkeypatch.delenv("WARPVERBS_DEVICE_LIBRARY", raising=False)
    package = pathlib.Path(_table.__file__).resolve().parent
    searched = _table.folders()
    assert searched[0] == package
    assert all(package / "sdk" in path.parents for path in searched[1:4])
    build = package.parents[1] / "build"
    own = pathlib.Path(_table.__file__).absolute().parents[2] / "src/device"
    assert searched.index(own) < searched.index(pathlib.Path("/usr/lib/warpverbs"))
    trees = [number for number, path in enumerate(searched) if build in path.parents and path != own]
    assert trees == list(range(len(searched) - len(trees), len(searched)))
    assert pathlib.Path("/usr/lib/warpverbs") in searched


def test_missing_file_names_the_page_that_says_what_makes_it():
    with pytest.raises(FileNotFoundError, match="^Cannot find libwarpverbs_device_sm10.bc: .*docs/device-library.md"):
        _table.file("libwarpverbs_device_sm10.bc")
