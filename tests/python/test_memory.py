import array
import ctypes
import gc
import pickle
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


@pytest.mark.parametrize("name", [b"used_dltensor", b"dltensor_versioned"])
def test_region_refuses_a_tensor_that_was_taken_or_has_another_version(nic, name):
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.argtypes, new_capsule.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object

    class Other(OnlyDlpack):
        def __dlpack__(self, stream=None):
            return new_capsule(self._array.ctypes.data, name, None)

    with pytest.raises(TypeError, match=f"its capsule is named '{name.decode()}', and not 'dltensor'"):
        warpverbs.Region(nic, Other(numpy.zeros(8)))


def test_region_refuses_what_shows_no_memory(nic):
    with pytest.raises(TypeError, match="type dict: it shows no memory"):
        warpverbs.Region(nic, {})


def test_region_refuses_python_objects(nic):
    class Objects:
        __cuda_array_interface__ = {"shape": (1,), "typestr": "|O8", "version": 3, "data": (4096, False)}

    fields = numpy.zeros(2, [("number", "f8"), ("thing", object)])
    for memory in (numpy.array([{}, None], object), fields, Objects()):
        with pytest.raises(TypeError, match="its elements are Python objects"):
            warpverbs.Region(nic, memory)
    assert warpverbs.Region(nic, numpy.zeros(2, [("O", "f8")])).nbytes == 16


class Unshown(OnlyDlpack):
    """A tensor whose elements other packages do not know, as torch's of 8 bits are."""

    @property
    def __cuda_array_interface__(self):
        raise KeyError("float8")


class UnshownAtAll(Unshown):
    def __dlpack__(self, stream=None):
        raise BufferError("float8 is not supported")


class Elsewhere(OnlyDlpack):
    def __dlpack_device__(self):
        return 8, 0


def test_region_asks_for_the_next_interface_where_one_fails(nic):
    memory = numpy.zeros(64, numpy.uint8)
    assert warpverbs.Region(nic, Unshown(memory)).address == memory.ctypes.data
    with pytest.raises(ValueError, match=r"UnshownAtAll: it does not show its memory: float8 .*view\(torch.uint8\)"):
        warpverbs.Region(nic, UnshownAtAll(memory))
    with pytest.raises(TypeError, match="is of the kind 8 of DLPack"):
        warpverbs.Region(nic, Elsewhere(memory))


def test_region_keeps_memory_that_its_tensor_has_given_up(nic):
    """As torch does for `parameter.data = ...`."""
    array = numpy.zeros(64, numpy.uint8)
    kept = weakref.ref(array)
    tensor = CudaArray(array)
    tensor.__dlpack__, tensor.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__
    region = warpverbs.Region(nic, tensor)
    del tensor._array, tensor.__dlpack__, tensor.__dlpack_device__, array
    gc.collect()
    assert kept() is not None
    region.close()
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("register", [lambda nic, memory: warpverbs.Region(nic, memory),
                                      lambda nic, memory: pytest.importorskip("warpverbs.transport").Memory(memory)])
def test_memory_that_has_its_registration_is_collected(nic, register):
    class Array(numpy.ndarray):
        pass

    memory = numpy.zeros(64, numpy.uint8).view(Array)
    memory.registered = register(nic, memory)
    kept = weakref.ref(memory)
    gc.collect()
    assert not memory.registered.closed
    del memory
    gc.collect()
    assert kept() is None


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


@pytest.mark.parametrize("part_of", [lambda region: region.local(8), lambda region: region.remote(),
                                     lambda region: region.remote().part(8, 8)])
def test_parts_keep_their_region(nic, part_of):
    region = warpverbs.Region(nic, bytearray(64), remote_write=True)
    alive = weakref.ref(region)
    part = part_of(region)
    del region
    gc.collect()
    assert alive() is not None and not alive().closed
    assert type(part)(*part) == part
    copy = pickle.loads(pickle.dumps(part))
    assert copy == part and type(copy) is type(part) and copy.region is None
    del part
    gc.collect()
    assert alive() is None


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
