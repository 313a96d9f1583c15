import array
import ctypes
import gc
import weakref

import numpy
import pytest

import warpverbs


class OnlyDlpack:
    """A tensor without the buffer protocol, as torch's are."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, stream=None):
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class CudaArray:
    """An array that tells its place as those of GPUs do."""

    def __init__(self, array, strides=None):
        self._array = array
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "strides": strides, "version": 3,
                                         "data": (array.ctypes.data, False)}


def numpy_array():
    array = numpy.zeros((3, 5), numpy.float64)
    return array, array.ctypes.data, 120


def python_array():
    memory = array.array("d", [0.0] * 15)
    return memory, memory.buffer_info()[0], 120


def ctypes_buffer():
    memory = ctypes.create_string_buffer(120)
    return memory, ctypes.addressof(memory), 120


def byte_array():
    memory = bytearray(120)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory)), 120


def dlpack_tensor():
    array, address, size = numpy_array()
    return OnlyDlpack(array), address, size


def part_of_dlpack_tensor():
    array, address, _ = numpy_array()
    return OnlyDlpack(array[1:]), address + 40, 80


def cuda_array():
    array, address, size = numpy_array()
    return CudaArray(array), address, size


def torch_tensor():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.zeros(3, 5, dtype=torch.float64)
    return tensor, tensor.data_ptr(), 120


@pytest.mark.parametrize("make", [numpy_array, python_array, ctypes_buffer, byte_array, dlpack_tensor, part_of_dlpack_tensor,
                                  cuda_array, torch_tensor])
def test_region_has_the_memory_of(nic, make):
    memory, address, size = make()
    with warpverbs.Region(nic, memory, remote_write=True) as region:
        assert (region.address, region.nbytes, len(region), region.method) == (address, size, size, "host memory")


@pytest.mark.parametrize("memory", [numpy.zeros((4, 4))[:, :2], OnlyDlpack(numpy.zeros((4, 4))[:, :2]),
                                    CudaArray(numpy.zeros((4, 2)), strides=(32, 8))])
def test_region_refuses_elements_with_gaps(nic, memory):
    with pytest.raises(ValueError, match="not contiguous"):
        warpverbs.Region(nic, memory)


def test_region_refuses_what_shows_no_memory(nic):
    with pytest.raises(TypeError, match="type dict: it shows no memory"):
        warpverbs.Region(nic, {})


def test_region_of_read_only_memory_lets_no_nic_write(nic):
    assert warpverbs.Region(nic, b"constant", remote_read=True).nbytes == 8
    with pytest.raises(ValueError, match="they are read-only"):
        warpverbs.Region(nic, b"constant", remote_write=True)


def test_region_of_no_bytes_is_refused(nic):
    for make in (lambda: warpverbs.Region(nic, bytearray()), lambda: warpverbs.Region.at(nic, 4096, 0)):
        with pytest.raises(ValueError, match="Cannot register an empty object"):
            make()


def test_region_gives_parts(nic):
    region = warpverbs.Region(nic, bytearray(100), remote_write=True)
    assert region.local(10, 20)[:2] == (region.address + 10, 20)
    assert region.remote(90)[:2] == (region.address + 90, 10)
    assert region.remote(10).part(5, 6)[:2] == (region.address + 15, 6)
    for offset, nbytes in ((0, 101), (101, None), (-1, 1), (1, -1)):
        for part in (region.local, region.remote, region.remote().part):
            with pytest.raises(ValueError, match="Cannot take"):
                part(offset, nbytes)


def test_region_at_an_address_keeps_its_owner(nic):
    owner = numpy.zeros(64, numpy.uint8)
    kept = weakref.ref(owner)
    region = warpverbs.Region.at(nic, owner.ctypes.data, 64, owner, remote_read=True)
    del owner
    gc.collect()
    assert kept() is not None
    region.close()
    assert kept() is None


@pytest.mark.parametrize("wrap", [lambda array: array, OnlyDlpack, CudaArray])
def test_region_keeps_its_memory(nic, wrap):
    memory = numpy.zeros(64, numpy.uint8)
    kept = weakref.ref(memory)
    region = warpverbs.Region(nic, wrap(memory))
    del memory
    gc.collect()
    assert kept() is not None
    del region
    gc.collect()
    assert kept() is None


def test_region_keeps_a_bytearray_at_its_place(nic):
    memory = bytearray(64)
    region = warpverbs.Region(nic, memory)
    with pytest.raises(BufferError):
        memory.extend(b"more")
    region.close()
    memory.extend(b"more")


def test_region_checks_the_direction_of_a_flush(nic):
    region = warpverbs.Region(nic, bytearray(64))
    region.flush("gpu")
    region.flush("nic")
    with pytest.raises(ValueError, match="Cannot flush to 'host'"):
        region.flush("host")
