"""Values that the package returns: named tuples, so that they compare, print and unpack."""

from typing import Any, List, NamedTuple, Optional


class Capabilities(NamedTuple):
    """What a device can do."""

    firmware: str  #: "28.39.1002"
    max_depth: int  #: deepest send queue, in entries of 64 bytes
    max_cqes: int  #: deepest completion queue
    max_message_bytes: int
    max_reads_out: int  #: reads and atomics that a queue pair may have outstanding
    max_reads_in: int  #: reads and atomics that a queue pair serves at a time
    atomics: bool


class Port(NamedTuple):
    """A port of a device at the time of the call."""

    number: int  #: from 1
    active: bool
    state: str  #: "active", "down", "armed"
    link_layer: str  #: "Ethernet" or "InfiniBand"
    mtu: int  #: bytes
    lid: int  #: 0 on Ethernet


class Gid(NamedTuple):
    """One entry of a port's table of addresses."""

    index: int
    address: str  #: "192.168.1.2" or "fe80::1"
    type: str  #: "RoCE v2"


class NicPort(NamedTuple):
    """A port of a NIC, as sysfs shows it."""

    number: int
    active: bool
    state: str
    link_layer: str
    rate_gbps: float


class Nic(NamedTuple):
    """An RDMA device of this machine."""

    name: str
    pci_address: Optional[str]
    connectx: bool  #: this package can use it
    ports: List[NicPort]


class Topology(NamedTuple):
    """The GPUs and RDMA devices of this machine."""

    gpus: List[str]  #: PCI addresses
    nics: List[Nic]
    text: str

    def describe(self) -> str:
        """Returns a table of distances like that of `nvidia-smi topo -m`."""
        return self.text


class NicChoice(NamedTuple):
    """A NIC that a GPU should use."""

    gpu: str  #: PCI address
    name: str  #: name for Device()
    port: int  #: what EndpointConfig.port takes
    distance: str  #: "PIX", "PXB", "PHB", "NODE", "SYS" or "?"
    reason: str  #: one sentence


class _LocalFields(NamedTuple):
    address: int
    nbytes: int
    lkey: int  #: in wire order, as kernels pass it


class LocalMemory(_LocalFields):
    """Memory of this side, as kernels and Endpoint.write() name it: its address, nbytes and lkey.

    Keeps the region that returned it registered.
    """

    region: Any = None

    def part(self, offset: int, nbytes: Optional[int] = None) -> "LocalMemory":
        """Returns a part of it.

        Raises ValueError if the part is not inside.
        """
        part = LocalMemory(*part_of("local memory", self.address, self.nbytes, offset, nbytes), self.lkey)
        part.region = self.region
        return part

    def __reduce__(self) -> tuple:  # without the region, which another process cannot have
        return LocalMemory, tuple(self)


class _RemoteFields(NamedTuple):
    address: int
    nbytes: int
    rkey: int  #: in wire order, as kernels pass it


class RemoteMemory(_RemoteFields):
    """Memory of the peer, as kernels and Endpoint.write() name it: its address, nbytes and rkey.

    Send it to the peer by Exchange.swap_json(). On the side whose memory it is, it keeps the region registered.
    """

    region: Any = None

    def part(self, offset: int, nbytes: Optional[int] = None) -> "RemoteMemory":
        """Returns a part of it.

        Raises ValueError if the part is not inside.
        """
        part = RemoteMemory(*part_of("remote memory", self.address, self.nbytes, offset, nbytes), self.rkey)
        part.region = self.region
        return part

    def __reduce__(self) -> tuple:
        return RemoteMemory, tuple(self)


class PoolUsage(NamedTuple):
    """What a QueuePool has, and what of it endpoints use."""

    chunks: int
    bytes: int
    used_bytes: int
    registers: int


class Event(NamedTuple):
    """An asynchronous event of a device."""

    name: str  #: name in the verbs: "IBV_EVENT_PORT_ERR"
    device: str
    port: int  #: 0: it concerns no single port
    qpn: int  #: 0: it concerns no single queue pair
    text: str

    def describe(self) -> str:
        """Describes what happened and what to do about it, in sentences."""
        return self.text


class QueueError(NamedTuple):
    """Why a send or a receive queue failed."""

    qpn: int
    receiving: bool
    syndrome: int  #: of the verbs; 0: no completion has failed
    vendor_syndrome: int
    operation: str  #: "RDMA write"; meaningless if `receiving`
    wqe_index: int
    event: Optional[Event]  #: what aborted the endpoint's waits
    disconnected: bool  #: disconnect() was called
    stopped: bool  #: the queue pair stopped without a completion: usually it refused a request of the peer
    text: str

    def describe(self) -> str:
        """Describes which operation to which peer failed and why, then what to check."""
        return self.text


class Received(NamedTuple):
    """A message that has arrived, or a write of the peer with immediate data."""

    memory: Any  #: what post_receive() got; a write leaves it untouched
    nbytes: int  #: bytes that arrived, in `memory` or where the write went
    imm: Optional[int]  #: immediate data; None without
    written: bool  #: a write came


class EndpointCounters(NamedTuple):
    """How far the queues of an endpoint are, modulo 2^32, since its last reset()."""

    sends_posted: int  #: in slots of 64 bytes; most operations take one
    receives_posted: int
    receives_taken: int


def part_of(what, address, size, offset, nbytes):
    """Returns address and bytes of a part, or raises ValueError."""
    if nbytes is None:
        nbytes = size - offset
    if offset < 0 or nbytes < 0 or offset + nbytes > size:
        raise ValueError(f"Cannot take {nbytes} bytes at offset {offset} of {what}: it has {size} bytes. "
                         "Pass a part that is inside.")
    return address + offset, nbytes
