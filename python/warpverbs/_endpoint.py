"""Queue pairs, and how they are connected."""

import dataclasses
import ipaddress
import itertools
import threading
import weakref
from typing import Any, Dict, Optional, Sequence, Union

from warpverbs import _core
from warpverbs._errors import OperationTimeout
from warpverbs._memory import Region
from warpverbs._types import EndpointCounters, Event, LocalMemory, QueueError, Received, RemoteMemory

_SECONDS = 30.0


@dataclasses.dataclass(frozen=True)
class EndpointConfig:
    """Settings of an endpoint. The defaults work on any fabric."""

    depth: int = 128  #: send queue, in slots of 64 bytes; rounded up to a power of two, at most 32768
    receive_depth: int = 0  #: in receives, rounded up as depth is. 0: no receive queue
    receive_scatter: int = 1  #: buffers for each receive
    gpu: Optional[_core.Gpu] = None  #: GPU whose kernels post; None: threads of the processor post
    placement: str = "probe"  #: memory of the queues: "gpu", "host", or "probe": the GPU's if the NIC reaches it
    doorbell: str = "auto"  #: "gpu": the poster rings; "host_proxy": a host thread does; "host_posts": it also posts
    cq_mode: str = "ring"  #: "ring" keeps the cause of an error; "collapsed" takes less memory
    cq_depth: int = 0  #: completions that the ring keeps; 0: as many as depth
    contended: bool = False  #: for warps of many blocks of a C++ kernel; kernels in Python are refused (WV_SHARING)
    wait_on_cq: bool = False  #: kernels may post a wait for a completion queue
    over_pcie: bool = False  #: the NIC reaches queues in GPU memory over PCIe
    completions: Optional[_core.SharedCompletions] = None  #: ring that several endpoints share; overrides cq_mode
    pool: Optional[_core.QueuePool] = None  #: shares memory and doorbells among many endpoints
    events: Optional[_core.EventThread] = None  #: ends waits when a port or device fails
    peers: Optional[_core.PeerTable] = None  #: tells kernels whether the peer is connected
    peer_rank: int = 0  #: place of the peer in that table
    port: int = 0  #: from 1; 0: the first active one
    gid_index: int = -1  #: -1: the best
    peer_gid: Optional[str] = None  #: an address of the peer, if it is known: "10.0.0.2"
    pkey_index: int = 0  #: partition on InfiniBand
    psn: Optional[int] = None  #: number of the first packet; None: random
    remote_read: bool = True  #: the peer may read; a region's rights must allow it, too
    remote_write: bool = True
    remote_atomic: bool = True
    traffic_class: int = 0  #: its upper six bits are the DSCP
    service_level: int = 0  #: 0 to 7 on Ethernet, 0 to 15 on InfiniBand
    hop_limit: int = 64
    max_mtu: int = 4096  #: bytes: 256, 512, 1024, 2048 or 4096
    udp_source_port: int = 0  #: 0: automatic
    ack_timeout: int = 18  #: 4.096 us * 2^n until a retry; 18: 1.07 s; 0: forever
    retry_count: int = 7  #: 0 to 7
    rnr_retry: int = 7  #: retries while the peer has posted no receive; 7: forever
    min_rnr_timer: int = 12  #: pause that this side asks for then; 12: 0.64 ms

    def replace(self, **settings: Any) -> "EndpointConfig":
        """Returns a copy with other settings."""
        return dataclasses.replace(self, **settings)


def _settings(config: EndpointConfig) -> dict:
    settings = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    if config.peer_gid is None:
        del settings["peer_gid"]
    else:
        address = ipaddress.ip_address(config.peer_gid)
        settings["peer_gid"] = (b"\0" * 10 + b"\xff\xff" if address.version == 4 else b"") + address.packed
    if config.psn is None:
        del settings["psn"]
    return settings


class Endpoint(_core.Endpoint):
    """A reliable-connected queue pair, whose queues kernels or threads of the processor drive.

    Keeps the device, and what its settings name. Any thread may call it: calls exclude each other. Close it,
    and forget it, only when no kernel uses its queues.

    Args:
        device: the NIC.
        config: settings.
        settings: fields of EndpointConfig, which replace those of `config`.

    Raises:
        Error: names the step and the firmware's syndrome.
        ValueError, TypeError: a setting is unknown or out of range.
    """

    def __init__(self, device: _core.Device, config: Optional[EndpointConfig] = None, **settings: Any) -> None:
        super().__init__(device, _settings(dataclasses.replace(config or EndpointConfig(), **settings)))
        self._receiving: Dict[int, Any] = {}  # memory of receives that are posted
        self._posting = threading.RLock()  # a receive may be done before the thread that posted it has stored its memory

    def write(self, local: Union[Region, LocalMemory], remote: Union[RemoteMemory, Sequence[int]], *, imm: Optional[int] = None,
              timeout: Optional[float] = _SECONDS) -> None:
        """Writes memory of this side to the peer, by a thread of the processor, and waits until it is there.

        For control and tests. Kernels post by warpverbs.triton and its like, host programs that move many data
        by warpverbs.transport.

        Args:
            remote: memory of the peer; also the list of three numbers as which it comes by Exchange.swap_json().
            imm: 32 bits that the peer's receive() gets; the write takes a receive of the peer. None: it does not.

        Raises:
            OperationError: the queue failed; says what the NIC reported. Call reset() on both sides.
            OperationTimeout: the NIC may still read the memory until reset().
            ValueError: the remote memory is too small.
            TypeError: `remote` is no remote memory.
        """
        own, remote = _local(local), _remote(remote)
        _check_fits(own, remote)
        self._write(own, remote.address, remote.rkey, _immediate(imm), timeout)

    def read(self, local: Union[Region, LocalMemory], remote: Union[RemoteMemory, Sequence[int]], *, timeout: Optional[float] = _SECONDS) -> None:
        """Reads the peer's memory into memory of this side, and waits for it. Otherwise like write()."""
        own, remote = _local(local), _remote(remote)
        _check_fits(own, remote)
        self._read(own, remote.address, remote.rkey, timeout)

    def send(self, local: Union[Region, LocalMemory], *, imm: Optional[int] = None,
             timeout: Optional[float] = _SECONDS) -> None:
        """Sends a message into the memory of the peer's next receive, and waits until it is there.

        The message waits while the peer has posted no receive. Otherwise like write().

        Args:
            imm: 32 bits that the peer's receive() gets, too.
        """
        self._send(_local(local), _immediate(imm), timeout)

    def post_receive(self, local: Union[Region, LocalMemory]) -> None:
        """Posts memory for one message of the peer. Messages take receives in the order of posting.

        The endpoint keeps a region until the message has come, or reset().

        Raises:
            OperationError: EndpointConfig.receive_depth receives are posted.
            Error: the endpoint has no receive queue, or kernels use it.
        """
        with self._posting:
            self._receiving[self._post_receive(_local(local))] = local

    def receive(self, *, timeout: Optional[float] = _SECONDS) -> Received:
        """Waits for the next message, or the next write with immediate data. Other threads may send meanwhile.

        Raises:
            OperationError: the queue failed; says what the NIC reported.
            OperationTimeout: nothing came.
        """
        index, nbytes, imm, written = self._receive(timeout)
        with self._posting:
            return Received(self._receiving.pop(index, None), nbytes, imm, written)

    def try_receive(self) -> Optional[Received]:
        """Returns the next message, or None if none has come. Raises as receive() does."""
        try:
            return self.receive(timeout=0)
        except OperationTimeout:
            return None

    def fetch_add(self, remote: Union[RemoteMemory, Sequence[int]], addend: int, *, timeout: Optional[float] = _SECONDS) -> int:
        """Adds to a word of 8 bytes of the peer, modulo 2^64, and returns its old value. No other atomic comes between.

        Raises as write() does; ValueError: the word is not at a multiple of 8.
        """
        remote = _remote(remote)
        return self._atomic(_word(remote), remote.rkey, None, addend % 2**64, timeout)

    def compare_swap(self, remote: Union[RemoteMemory, Sequence[int]], compare: int, swap: int, *, timeout: Optional[float] = _SECONDS) -> int:
        """Replaces a word of 8 bytes of the peer by `swap` if it equals `compare`, and returns its old value.

        Raises as fetch_add() does.
        """
        remote = _remote(remote)
        return self._atomic(_word(remote), remote.rkey, compare % 2**64, swap % 2**64, timeout)

    def reset(self) -> None:
        """Restores a new endpoint's state: empty queues, no error. Then both sides connect again.

        No kernel may use the queues.
        """
        super().reset()
        self._receiving.clear()

    # What C++ implements, for documentation and type checkers.
    def last_error(self) -> Optional[QueueError]:
        """Returns why the send or the receive queue failed; None if neither is known to have failed.

        Asks the firmware if nothing is reported, so do not poll by this.
        """
        return super().last_error()

    def last_event(self) -> Optional[Event]:
        """Returns the newest event since the last reset(); None without EndpointConfig.events."""
        return super().last_event()

    def counters(self) -> Optional[EndpointCounters]:
        """Returns how far the queues are; None if they are in memory of a GPU."""
        return super().counters()


class CompletionChannel(_core.CompletionChannel):
    """A file that becomes readable when a message has come: for select(), for asyncio, for threads that sleep until then.

        channel.watch(endpoint)
        loop.add_reader(channel, on_message)    # or select.select([channel], [], [])

        def on_message():
            while endpoint := channel.take():
                while message := endpoint.try_receive():
                    ...
                channel.arm(endpoint)           # it tells of the next message only if asked

    An endpoint keeps the channel that watches it.

    Raises Error: the device or the kernel has no such channels.
    """

    def __init__(self, device: _core.Device) -> None:
        super().__init__(device)
        self._watched: "weakref.WeakValueDictionary[int, Endpoint]" = weakref.WeakValueDictionary()
        self._cookies = itertools.count(1)

    def fileno(self) -> int:
        """Returns the file, for select() and the like, and for nothing else."""
        return super().fileno()

    def watch(self, endpoint: Endpoint) -> None:
        """Tells of an endpoint's messages from now on, as long as the endpoint lives. The first one is asked for.

        Raises Error: the endpoint has no receive queue, its queues are on a GPU, or a channel watches it already.
        """
        cookie = next(self._cookies)
        self._watch(endpoint, cookie)
        self._watched[cookie] = endpoint
        self._arm(endpoint)

    def arm(self, endpoint: Endpoint) -> None:
        """Asks for the next message of an endpoint, once all that came were taken. One that came meanwhile is told of at once.

        Raises Error: no channel watches the endpoint.
        """
        self._arm(endpoint)

    def take(self) -> Optional[Endpoint]:
        """Returns an endpoint that has messages; None: there is none. Does not wait.

        Raises Error: the device has gone.
        """
        while (cookie := self._take()) is not None:
            endpoint = self._watched.get(cookie)
            if endpoint is not None and not endpoint.closed:
                self._announced(endpoint)
                return endpoint
        return None


def _local(local: Union[Region, LocalMemory]) -> LocalMemory:
    if isinstance(local, _core.Region):
        return local.local()
    if isinstance(local, LocalMemory):
        return local
    raise TypeError(f"Cannot use an object of type {type(local).__name__} as local memory: it is not registered. Pass a Region "
                    "of it, or what Region.local() returned.")


def _remote(remote: Any) -> RemoteMemory:
    """Returns remote memory, also from the list that it has become on its way."""
    if isinstance(remote, RemoteMemory):
        return remote
    if type(remote) in (list, tuple) and len(remote) == 3 and all(isinstance(number, int) for number in remote):
        return RemoteMemory(*remote)
    raise TypeError(f"Cannot use an object of type {type(remote).__name__} as remote memory: it is no RemoteMemory. Pass what "
                    "the peer's Region.remote() returned.")


def _check_fits(local: LocalMemory, remote: RemoteMemory) -> None:
    if local.nbytes > remote.nbytes:
        raise ValueError(f"Cannot transfer {local.nbytes} bytes: the remote memory has {remote.nbytes}. Pass a part of "
                         "the local memory, and see whether the elements of both sides have one type.")


def _immediate(imm: Optional[int]) -> Optional[int]:
    if imm is not None and not 0 <= imm < 2**32:
        raise ValueError(f"Cannot pass {imm} as immediate data: it has 32 bits. Pass a value of 0 to {2**32 - 1}.")
    return imm


def _word(remote: RemoteMemory) -> int:
    if remote.address % 8 or remote.nbytes < 8:
        raise ValueError(f"Cannot change a word in {remote.nbytes} bytes at 0x{remote.address:x} of the peer: a word has 8 bytes "
                         "at a multiple of 8. Pass such a part.")
    return remote.address


def connect_all(endpoints: Sequence[Endpoint], exchange: Any, *, timeout: Optional[float] = _SECONDS,
                round_trip: bool = False) -> None:
    """Connects endpoints to as many of the peer, which does the same: the first to its first, and so on.

    When it returns, those of both sides are ready. When it fails on either side, it fails on both, and all
    endpoints are as after reset().

    Args:
        exchange: the way to the peer: a TcpExchange, another Exchange, or an object with a method swap().
        timeout: seconds for all of it; None: no end.
        round_trip: each endpoint writes 64 bytes to its peer and checks what came.

    Raises Error: this side's failure, or the peer's, in its own words.
    """
    if isinstance(endpoints, _core.Endpoint) or hasattr(endpoints, "swap"):
        raise TypeError(f"Cannot connect an object of type {type(endpoints).__name__}: it is not a list of endpoints. Pass "
                        "[endpoint], then the exchange.")
    _core.connect_all(list(endpoints), exchange, timeout, round_trip)
