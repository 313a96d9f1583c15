"""Registered memory, of any package that shows where its memory is."""

import re
from typing import Any, NamedTuple, Optional, Union

from warpverbs import _core
from warpverbs._types import LocalMemory, RemoteMemory, part_of

_DLPACK_GPUS = {2, 10}  # CUDA, ROCm
_DLPACK_HOST = {1, 3, 11, 13}  # also pinned and managed memory: the library says what it cannot register


class Place(NamedTuple):
    """Where the memory of an object is."""

    address: int
    nbytes: int
    readonly: bool
    owner: Any  #: keeps the memory at its address


def place_of(memory: Any) -> Place:
    """Returns where the memory of an object is.

    Asks for `__cuda_array_interface__`, the buffer protocol and `__dlpack__`, in this order. Does not wait for
    work of a GPU on it.

    Raises TypeError if the object has none of them, ValueError if its elements have gaps.
    """
    try:
        interface = getattr(memory, "__cuda_array_interface__", None)
    except Exception:  # torch has none for some types of elements, and for tensors with gradients
        interface = None
    if interface is not None:
        return _from_cuda_interface(memory, interface)
    try:
        view = memoryview(memory)
    except (TypeError, BufferError):
        view = None
    if view is not None:
        if not view.contiguous:
            raise ValueError("Cannot register an array: its elements are not contiguous in memory. "
                             "Register a contiguous copy.")
        if "O" in re.sub(":[^:]*:", "", view.format):  # without the names of fields
            raise _objects(memory)
        return Place(_core.address_of(view), view.nbytes, view.readonly, view)
    if hasattr(memory, "__dlpack__"):
        return _from_dlpack(memory)
    raise TypeError(f"Cannot register an object of type {type(memory).__name__}: it shows no memory. Pass an object with "
                    "the buffer protocol, __cuda_array_interface__ or __dlpack__, or use Region.at().")


def _objects(memory: Any) -> TypeError:
    return TypeError(f"Cannot register an object of type {type(memory).__name__}: its elements are Python objects. Register an "
                     "array of numbers.")


def _from_cuda_interface(memory: Any, interface: dict) -> Place:
    address, readonly = interface["data"]
    if interface["typestr"][1] == "O":
        raise _objects(memory)
    itemsize = int(interface["typestr"][2:])
    if interface["typestr"][1] == "t":
        itemsize = (itemsize + 7) // 8
    nbytes = itemsize
    strides = interface.get("strides")
    for axis in range(len(interface["shape"]) - 1, -1, -1):
        length = interface["shape"][axis]
        if strides is not None and length > 1 and strides[axis] != nbytes:
            raise ValueError("Cannot register an array: its elements are not contiguous in memory. "
                             "Register a contiguous copy.")
        nbytes *= length
    try:
        capsule = _export(memory)  # keeps the memory of a tensor that is given other memory
    except Exception:
        capsule = None
    return Place(address, nbytes, readonly, (capsule, memory))


def _export(memory: Any) -> Any:
    """Returns the capsule of an object with `__dlpack__`."""
    kind = int(memory.__dlpack_device__()[0])
    if kind not in _DLPACK_GPUS | _DLPACK_HOST:
        raise TypeError(f"Cannot register an object of type {type(memory).__name__}: its memory is of the kind {kind} of DLPack. "
                        "Pass memory of the host, of CUDA or of ROCm.")
    # -1: the producer makes no stream wait. A region is registered for later, and no work on it is done now.
    return memory.__dlpack__(stream=-1) if kind in _DLPACK_GPUS else memory.__dlpack__()


def _from_dlpack(memory: Any) -> Place:
    try:
        capsule = _export(memory)
    except TypeError:
        raise
    except Exception as error:
        raise ValueError(f"Cannot register an object of type {type(memory).__name__}: it does not show its memory: {error}. "
                         "Register tensor.detach() or tensor.view(torch.uint8), or use Region.at().") from error
    try:
        address, nbytes, _, _ = _core.read_dlpack(capsule)
    except BufferError as error:
        raise ValueError(str(error)) from None
    return Place(address, nbytes, False, (capsule, memory))


class Region(_core.Region):
    """Memory that the NIC may reach. Closing it, or forgetting it and what it returned, ends that.

    The region keeps `memory` alive, and memory with the buffer protocol at its address: a bytearray cannot be
    resized meanwhile. Grant only the rights that are needed.

    Args:
        device: the NIC.
        memory: an array, tensor or buffer of contiguous elements: of numpy, torch, cupy, jax ..., of the host
            or of a GPU. Memory of a GPU must be one allocation's.
        local_write: the local NIC may write: reads, receives. By default where the memory is writable.
        remote_read: the peer may read.
        remote_write: the peer may write. Implies local_write.
        remote_atomic: the peer may use atomics. Implies local_write.
        relaxed_ordering: writes may pass each other. Not for flags, signals and atomics.
        over_pcie: NICs reach memory of a GPU over PCIe. See docs/memory.md.

    Raises:
        Error: says whose memory it is, and why each way to register it failed.
        TypeError, ValueError: the object shows no memory or is empty, or its elements are not contiguous, or it
            is read-only and the rights let a NIC write.
    """

    def __init__(self, device: _core.Device, memory: Any, *, local_write: Optional[bool] = None, remote_read: bool = False,
                 remote_write: bool = False, remote_atomic: bool = False, relaxed_ordering: bool = False,
                 over_pcie: bool = False) -> None:
        place = memory if isinstance(memory, Place) else place_of(memory)
        if place.nbytes == 0:
            raise ValueError("Cannot register an empty object: it has no memory. Register one with bytes.")
        if place.readonly and (local_write or remote_write or remote_atomic):
            raise ValueError(f"Cannot register {place.nbytes} bytes at 0x{place.address:x} for writing: they are read-only. "
                             "Register a writable copy, or leave the rights to write out.")
        if local_write is None:
            local_write = not place.readonly
        super().__init__(device, place.address, place.nbytes, place.owner,
                         dict(local_write=local_write, remote_read=remote_read, remote_write=remote_write,
                              remote_atomic=remote_atomic, relaxed_ordering=relaxed_ordering, over_pcie=over_pcie))

    @classmethod
    def at(cls, device: _core.Device, address: int, nbytes: int, owner: Any = None, **rights: bool) -> "Region":
        """Registers memory by its address.

        Args:
            owner: an object that keeps the memory allocated as long as it lives.
            rights: as for Region().
        """
        return cls(device, Place(address, nbytes, False, owner), **rights)

    @property
    def address(self) -> int:
        """Address of the first byte."""
        return self.view[0]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.view[1]

    def local(self, offset: int = 0, nbytes: Optional[int] = None) -> LocalMemory:
        """Returns the region, or `nbytes` of it from `offset` on, for operations of this side.

        Raises ValueError if the part is not inside.
        """
        address, size, lkey, _ = self.view
        part = LocalMemory(*part_of("the region", address, size, offset, nbytes), lkey)
        part.region = self
        return part

    def remote(self, offset: int = 0, nbytes: Optional[int] = None) -> RemoteMemory:
        """Returns the region, or a part of it, for operations of the peer.

        Raises ValueError if the part is not inside.
        """
        address, size, _, rkey = self.view
        part = RemoteMemory(*part_of("the region", address, size, offset, nbytes), rkey)
        part.region = self
        return part

    def flush(self, to: str = "gpu", *, timeout: Optional[float] = 10.0, stream: int = 0) -> None:
        """Makes what one side has written to memory of a GPU visible to the other. Other memory needs none.

        Args:
            to: "gpu", after a completion was seen: what is launched from now on sees what the NIC wrote.
                "nic", before the host posts: waits for what was launched until now.
            stream: the GPU's stream to wait for; 0: all of them.

        Raises Error: the timeout passed, or the driver cannot do it.
        """
        if to not in ("gpu", "nic"):
            raise ValueError(f"Cannot flush to {to!r}: it is unknown. Pass 'gpu' or 'nic'.")
        self._flush(to == "nic", timeout, stream)

    def __len__(self) -> int:
        return self.nbytes

    def __repr__(self) -> str:
        if self.closed:
            return "<warpverbs.Region, closed>"
        return f"<warpverbs.Region of {self.nbytes} bytes at 0x{self.address:x}>"


Memory = Union[Region, LocalMemory]
