"""The C++ part of the package. Its classes are public where warpverbs exports them."""

from typing import Any, List, Optional, Tuple, Type, TypeVar

from warpverbs._types import (Capabilities, EndpointCounters, Event, Gid, NicChoice, PoolUsage, Port, QueueError, Topology)

__version__: str

_Self = TypeVar("_Self", bound="_Closeable")

class _Closeable:
    def close(self) -> None:
        """Ends the use of the object. What still uses it goes on; any later call raises ClosedError."""
    @property
    def closed(self) -> bool: ...
    def __enter__(self: _Self) -> _Self: ...
    def __exit__(self, *exception: Any) -> None: ...

def device_names() -> List[str]:
    """Names the ConnectX of this machine, shorter names first. May be empty.

    Raises Error: the kernel refuses to list them.
    """

def first_active_device() -> str:
    """Names the first device with an active port.

    Raises Error: no device exists, none can be opened, or none has an active port.
    """

def topology(sysfs: str = "/sys") -> Topology:
    """Reads which GPUs and NICs this machine has, and how far they are apart."""

def assign_nics(nics_per_gpu: int = 1, sysfs: str = "/sys") -> List[NicChoice]:
    """Shares the NICs out to all GPUs of the machine: each GPU the nearest, as evenly as can be.

    Raises Error: no NIC can be used, and says why of each.
    """

class Device(_Closeable):
    """An open ConnectX. What is made on it keeps it open.

    Args:
        name: one of device_names(); None: the first with an active port.

    Raises Error: the device does not exist, or the kernel refuses to open it.
    """
    def __init__(self, name: Optional[str] = None) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def capabilities(self) -> Capabilities: ...
    def ports(self) -> List[Port]:
        """Queries all ports."""
    def gids(self, port: int = 0) -> List[Gid]:
        """Reads the addresses of a port; 0: of the first active one.

        Raises Error: the port does not exist or is not active.
        """

class Gpu:
    """An NVIDIA GPU, as the CUDA runtime counts them. Loads the driver.

    Raises Error: there is no driver, or the GPU does not exist.
    """
    def __init__(self, ordinal: int = 0) -> None: ...
    @staticmethod
    def count() -> int:
        """How many there are; 0 also without a driver."""
    @property
    def ordinal(self) -> int: ...
    @property
    def name(self) -> str:
        """Name: "cuda:0"."""
    @property
    def model(self) -> str: ...
    @property
    def pci_address(self) -> str: ...

class EventThread(_Closeable):
    """A thread that listens for ports that go down and devices that fail: see EndpointConfig.events.

    Args:
        port_down_grace: seconds without link until the waits of the port's endpoints are aborted; None: never.
    """
    def __init__(self, port_down_grace: Optional[float] = 1.0) -> None: ...
    @property
    def wakeups(self) -> int:
        """How often the thread has woken up."""

class PeerTable(_Closeable):
    """A word for each peer, which tells kernels whether it can be reached: see EndpointConfig.peers.

    Args:
        gpu: GPU whose kernels read it; None: threads of the processor do.
    """
    def __init__(self, count: int, gpu: Optional[Gpu] = None) -> None: ...
    def __len__(self) -> int: ...
    def state(self, rank: int) -> str:
        """Returns "disconnected", "connected" or "failed". Raises IndexError: no peer has the rank."""
    @property
    def peers(self) -> int:
        """Address of the table's view, for kernels."""

class QueuePool(_Closeable):
    """Memory and doorbells that many endpoints share: see EndpointConfig.pool."""
    def __init__(self, device: Device, chunk_bytes: int = ..., endpoints_per_register: int = ...) -> None: ...
    def usage(self) -> PoolUsage: ...

class SharedCompletions(_Closeable):
    """One ring of completions for the send queues of several endpoints: see EndpointConfig.completions.

    Args:
        depth: in completions, at least the sum of the queues' depths.
        max_queues: endpoints at a time.
        gpu: GPU whose kernels post to all the queues; None: threads of the processor do.

    Raises Error: a setting is out of range, or the device does not say which queue a completion is of.
    """
    def __init__(self, device: Device, depth: int = 1024, max_queues: int = 8, gpu: Optional[Gpu] = None) -> None: ...
    @property
    def cqn(self) -> int: ...
    @property
    def depth(self) -> int: ...
    def recover(self) -> None:
        """Takes the ring from a kernel that was killed while it held its lock. No kernel may use any of the queues.

        Raises Error: a poster uses it nevertheless.
        """

class Region(_Closeable):
    def __init__(self, device: Device, address: int, nbytes: int, owner: Any, rights: dict) -> None: ...
    @property
    def view(self) -> Tuple[int, int, int, int]: ...
    @property
    def method(self) -> str:
        """How the NIC reaches it: "host memory", "dma-buf", "peer memory"."""
    def _flush(self, to_nic: bool, timeout: Optional[float], stream: int) -> None: ...

class Endpoint(_Closeable):
    def __init__(self, device: Device, settings: dict) -> None: ...
    @property
    def qpn(self) -> int:
        """Number of the queue pair."""
    @property
    def port(self) -> int:
        """Number of the port, from 1."""
    @property
    def on_gpu(self) -> bool:
        """The queues are in memory of EndpointConfig.gpu."""
    @property
    def send_cqn(self) -> int:
        """Number of the completion queue, which a wait_cq of a kernel names."""
    @property
    def connected(self) -> bool:
        """Connected since the last reset()."""
    @property
    def queue(self) -> int:
        """Address of the view of the send queue, for kernels: what the device library calls `queue`.

        Valid until the endpoint is closed. In memory of EndpointConfig.gpu, or of the host without one.
        """
    @property
    def receives(self) -> int:
        """Address of the view of the receive queue, for kernels. Raises Error: the endpoint has none."""
    @property
    def abort_word(self) -> int:
        """Address of the word that ends the waits of kernels, for their `abort_word`."""
    @property
    def needs_system_scope(self) -> bool:
        """Kernels must use the functions of scope `system`; data in host memory need them in any case."""
    @property
    def state(self) -> str:
        """State of the queue pair: "RESET", "RTS", "ERR" ... Asks the firmware."""
    def info(self) -> str:
        """Returns what the peer needs for its connect(), as one word of text."""
    def connect(self, peer: str) -> None:
        """Connects to the endpoint whose info() this is; once between resets. Sends nothing to the peer.

        Raises Error: the peer cannot be reached, or this is a second call.
        """
    def check_peer(self, peer: str) -> None:
        """Checks whether connect() could reach a peer. Raises Error: it could not, and why."""
    def disconnect(self) -> None:
        """Ends the connection. Outstanding work completes as flushed."""
    def reset(self) -> None:
        """Restores a new endpoint's state: empty queues, no error. Then both sides connect again.

        No kernel may use the queues.
        """
    def abort(self) -> None:
        """Ends the waits of kernels that were given `abort_word`, and of write() and read(), until reset()."""
    def describe(self) -> str:
        """Describes in lines of text what was chosen and why."""
    def last_error(self) -> Optional[QueueError]: ...
    def last_event(self) -> Optional[Event]: ...
    def counters(self) -> Optional[EndpointCounters]: ...
    def _write(self, local: Tuple[int, int, int], remote: int, rkey: int, imm: Optional[int],
               timeout: Optional[float]) -> None: ...
    def _read(self, local: Tuple[int, int, int], remote: int, rkey: int, timeout: Optional[float]) -> None: ...
    def _send(self, local: Tuple[int, int, int], imm: Optional[int], timeout: Optional[float]) -> None: ...
    def _atomic(self, remote: int, rkey: int, compare: Optional[int], value: int, timeout: Optional[float]) -> int: ...
    def _post_receive(self, local: Tuple[int, int, int]) -> int: ...
    def _receive(self, timeout: Optional[float]) -> Tuple[int, int, Optional[int], bool]: ...

class CompletionChannel(_Closeable):
    def __init__(self, device: Device) -> None: ...
    def fileno(self) -> int: ...
    def _watch(self, endpoint: Endpoint, cookie: int) -> None: ...
    def _take(self) -> Optional[int]: ...
    @staticmethod
    def _arm(endpoint: Endpoint) -> None: ...
    @staticmethod
    def _announced(endpoint: Endpoint) -> None: ...

class TcpExchange(_Closeable):
    def __init__(self, other: TcpExchange) -> None: ...
    @staticmethod
    def connect(host: str, port: int, timeout: Optional[float] = 30.0) -> TcpExchange: ...
    def swap(self, mine: bytes, what: str = "a message", timeout: Optional[float] = 30.0) -> bytes:
        """Sends a message, and returns the peer's. Raises Error: the deadline passed, or the peer has gone."""
    @property
    def peer_name(self) -> str:
        """Names the peer: "10.0.0.2 port 18517"."""

class TcpListener(_Closeable):
    def __init__(self, host: str = "", port: int = 0) -> None: ...
    def accept(self, timeout: Optional[float] = 30.0) -> TcpExchange: ...
    @property
    def port(self) -> int:
        """Port that it listens on."""

def connect_all(endpoints: List[Endpoint], exchange: Any, timeout: Optional[float] = 30.0, round_trip: bool = False) -> None: ...
def read_dlpack(capsule: Any) -> Tuple[int, int, int, int]: ...
def address_of(view: memoryview) -> int: ...
def transport_supported() -> bool: ...

class EventLoop(_Closeable):
    @property
    def fd(self) -> int: ...
    def wake(self) -> None: ...
    def take(self) -> List[Tuple[int, str, str]]: ...

class TransportMemory(_Closeable):
    def __init__(self, address: int, nbytes: int, owner: Any, device: int, max_nics: int, writable: bool) -> None: ...
    @property
    def writable(self) -> bool:
        """NICs may write to it."""
    @property
    def _owner(self) -> Any: ...
    def _remote(self) -> Tuple[int, int, str]: ...

class Transport(_Closeable):
    def __init__(self, device: int, loop: EventLoop, settings: dict) -> None: ...
    @property
    def connected(self) -> bool:
        """connect() has succeeded, and nothing has failed since."""
    def describe(self) -> str:
        """Describes in lines of text what was chosen and why."""
    def _bind(self) -> Tuple[str, str, str]: ...
    def _connect(self, url: str) -> Tuple[str, str]: ...
    def _reset(self) -> Tuple[str, str]: ...
    def _status(self) -> Tuple[str, str]: ...
    def _write(self, operation: int, memory: TransportMemory, offset: int, nbytes: int, remote: Tuple[int, int, str],
               notify: bool, timeout: Optional[float]) -> None: ...
    def _read(self, operation: int, memory: TransportMemory, offset: int, nbytes: int, remote: Tuple[int, int, str],
              timeout: Optional[float]) -> None: ...
    def _wait_for_write(self, operation: int, timeout: Optional[float]) -> None: ...
