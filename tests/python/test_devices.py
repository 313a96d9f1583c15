import pytest

import warpverbs


def test_device_tells_what_it_is(nic):
    assert nic.name in warpverbs.device_names()
    assert warpverbs.first_active_device() == nic.name
    assert nic.capabilities.max_depth >= 128
    assert nic.capabilities.atomics
    assert nic.name in repr(nic)


def test_device_lists_ports_and_addresses(nic):
    port = nic.ports()[0]
    assert (port.number, port.active, port.state, port.link_layer, port.mtu) == (1, True, "active", "Ethernet", 4096)
    assert "RoCE v2" in {gid.type for gid in nic.gids()}


def test_unknown_device_is_named():
    with pytest.raises(warpverbs.Error, match="^Cannot open .*mlx5_77.*") as caught:
        warpverbs.Device("mlx5_77")
    error = caught.value
    assert error.step == "open" and "mlx5_77" in error.object and error.reason and error.remedy
    assert str(error).startswith(f"Cannot {error.step} {error.object}: ")


def test_topology_has_the_device(nic):
    topology = warpverbs.topology()
    assert nic.name in {one.name for one in topology.nics}
    assert nic.name in topology.describe()


def test_nics_are_assigned_to_gpus(tmp_path):
    with pytest.raises(warpverbs.Error, match="Cannot "):
        warpverbs.assign_nics(nics_per_gpu=0)
    assert warpverbs.topology(str(tmp_path)).nics == []


def test_version_is_that_of_the_library():
    assert warpverbs.__version__.count(".") == 2


def test_gpus_are_counted_without_a_driver():
    if warpverbs.Gpu.count() == 0:
        with pytest.raises(warpverbs.Error, match="Cannot "):
            warpverbs.Gpu(0)
    else:
        assert warpverbs.Gpu(0).name == "cuda:0"


def test_folders_of_the_headers_are_named_if_missing():
    try:
        folder = warpverbs.include_dir()
    except warpverbs.Error as error:
        assert "libwarpverbs-dev" in str(error)
    else:
        assert folder.endswith("include") and warpverbs.cmake_dir()
