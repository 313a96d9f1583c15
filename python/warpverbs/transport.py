"""Asynchronous transfers by host programs: futures, and `await`.

    transport = Transport()
    memory = transport.register(array)
    ...                                    # send transport.bind() and memory.remote() to the peer, by any means
    transport.connect(url_of_the_peer)
    await transport.write(memory, remote, notify=True)     # or transport.write(...).result()
    await transport.wait_for_write(timeout=5)

docs/transport.md describes what an operation guarantees, and docs/python.md how Python waits for it.
"""

import asyncio
import atexit
import concurrent.futures
import dataclasses
import functools
import itertools
import os
import threading
import weakref
from typing import Any, Callable, Dict, Generator, List, NamedTuple, Optional

from warpverbs import _core
from warpverbs._errors import (Error, TransportAborted, TransportAccessDenied, TransportError, TransportInvalid,
                               TransportTimeout)
from warpverbs._memory import place_of
from warpverbs._types import part_of

if not hasattr(_core, "Transport"):
    raise ImportError("Cannot import warpverbs.transport: the package was built without it. Build it with Asio's headers and "
                      "-DWARPVERBS_BUILD_TRANSPORT=ON.")

_ERRORS = {"timeout": TransportTimeout, "aborted": TransportAborted, "invalid call": TransportInvalid,
           "access denied": TransportAccessDenied}


def supported() -> bool:
    """Says whether this machine has a ConnectX with an active port. Never raises."""
    return _core.transport_supported()


def _error(code: str, sentence: str, step: str = "transfer") -> TransportError:
    reason = sentence[len(code) + 2:] if sentence.startswith(code + ": ") else sentence
    return _ERRORS.get(code, TransportError)(sentence, step=step, reason=reason)


def _check(code: str, sentence: str, step: str) -> None:
    if code != "success":
        raise _error(code, sentence, step)


class Operation(concurrent.futures.Future):
    """A write, a read or a wait under way: a future of concurrent.futures that can also be awaited.

    Its result is None, or a TransportError. Cancelling it only ends the interest in it: the NIC goes on. No
    notification is lost by that. Callbacks run on the thread of all transports, so they must not block.
    """

    def __init__(self, notifications: "Optional[_Notifications]" = None) -> None:
        super().__init__()
        self._end = threading.Lock()  # is for the one that ends it: the thread, or cancel()
        self._notifications = notifications  # where a wait's notification comes from

    def __await__(self) -> Generator[Any, None, None]:
        try:
            return (yield from asyncio.wrap_future(self).__await__())
        except (asyncio.CancelledError, GeneratorExit):
            self._give_back()
            raise

    def _give_back(self) -> None:
        """Gives back the notification that it has taken if the task that awaited it was cancelled before it knew."""
        if not self.cancel() and self.exception() is None:
            notifications, self._notifications = self._notifications, None
            if notifications is not None:
                notifications.put()

    def cancel(self) -> bool:
        """Cancels it, unless it has ended. Returns whether it is cancelled."""
        if self._claim():
            super().cancel()
            self.set_running_or_notify_cancel()  # for concurrent.futures.wait() and as_completed()
        return self.cancelled()

    def _claim(self) -> bool:
        """Says whether the caller may end it. Only the first one may."""
        return self._end.acquire(blocking=False)

    def _finish(self, code: str, sentence: str) -> None:
        """Ends it. Needs _claim()."""
        self.set_running_or_notify_cancel()
        if code == "success":
            self.set_result(None)
        else:
            self.set_exception(_error(code, sentence))


class _Wait:
    """A wait of the library, and the operation that it is for: one that has ended if the wait is for none any more."""

    def __init__(self, operation: Operation, timed: bool) -> None:
        self.operation = operation
        self.timed = timed

    @property
    def is_free(self) -> bool:
        return self.operation._end.locked()


class _Notifications:
    """The notifications of a transport from one reset to the next, and the waits for them.

    The library cannot cancel a wait, so a wait without a timeout whose operation was cancelled is used again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: List[_Wait] = []  # as the library has them, oldest first
        self._spare = 0  # notifications that no operation has taken

    def wait(self, timed: bool, start: Callable[[Callable[[str, str], None]], None]) -> Operation:
        """Returns an operation that takes a notification. Calls `start` if the library has to wait for it."""
        operation = Operation(self)
        with self._lock:
            if self._spare:
                self._spare -= 1
                operation._claim()
            elif timed or not self._adopt(operation):
                wait = _Wait(operation, timed)
                start(functools.partial(self._end, wait))
                self._waits.append(wait)
                return operation
            else:
                return operation
        operation._finish("success", "")
        return operation

    def put(self) -> None:
        """Gives a notification to the oldest operation that waits, or keeps it."""
        with self._lock:
            operation = self._take_oldest(None)
        if operation is not None:
            operation._finish("success", "")

    def _end(self, wait: _Wait, code: str, sentence: str) -> None:
        """Ends a wait of the library."""
        with self._lock:
            if code == "success":
                operation = self._take_oldest(wait)
            else:
                operation = wait.operation if wait.operation._claim() else None
            self._waits.remove(wait)
        if operation is not None:
            operation._finish(code, sentence)

    def _take_oldest(self, ended: Optional[_Wait]) -> Optional[Operation]:
        """Returns the oldest operation for a notification, or keeps that. Its wait is then for the operation of `ended`."""
        for wait in self._waits:
            operation = wait.operation
            if operation._claim():
                if ended is not None:
                    wait.operation = ended.operation
                return operation
        self._spare += 1
        return None

    def _adopt(self, operation: Operation) -> bool:
        """Gives a free wait to an operation, so that the waits of all operations stay in order. Returns False without one."""
        untimed = self._waits
        for index, wait in enumerate(self._waits):
            if wait.timed:
                untimed = self._waits[index + 1:]
        for index, wait in enumerate(untimed):
            if wait.is_free:
                for earlier, later in zip(untimed[index:], untimed[index + 1:]):
                    earlier.operation = later.operation
                untimed[-1].operation = operation
                return True
        return False


class _Completions:
    """The loop of all transports of this process, and the thread that ends their operations."""

    def __init__(self) -> None:
        self.loop = _core.EventLoop()
        self.transports: "weakref.WeakSet[Transport]" = weakref.WeakSet()
        self._numbers = itertools.count()
        self._pending: Dict[int, Callable[[str, str], None]] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="warpverbs.transport", daemon=True)
        self._thread.start()

    def start(self, call: Callable[[int], None], finish: Callable[[str, str], None]) -> None:
        """Starts an operation by its number; `finish` gets its code and sentence, on the thread."""
        number = next(self._numbers)
        self._pending[number] = finish
        try:
            call(number)
        except BaseException:
            del self._pending[number]
            raise

    def stop(self) -> None:
        """Closes all transports, and ends the thread once their operations have ended."""
        for transport in list(self.transports):
            transport.close()
        self._stopping = True
        self.loop.wake()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=10)
            self.loop.close()

    def _run(self) -> None:
        fd = self.loop.fd
        while not (self._stopping and not self._pending):
            os.read(fd, 8)
            for number, code, sentence in self.loop.take():
                try:
                    self._pending.pop(number)(code, sentence)
                except Exception:  # of a future's callback: the other operations must end, too
                    concurrent.futures._base.LOGGER.exception("exception of a callback of warpverbs.transport")


_completions: Optional[_Completions] = None
_lock = threading.Lock()


def _get_completions() -> _Completions:
    global _completions
    with _lock:
        if _completions is None:
            _completions = _Completions()
        return _completions


def _forget_after_fork() -> None:
    """A child has neither the loop's thread nor ours: its transports get new ones."""
    global _completions, _lock
    _abandoned.append(_completions)
    _completions = None
    _lock = threading.Lock()


def _stop_at_exit() -> None:
    if _completions is not None:
        _completions.stop()


_abandoned: List[Any] = []
os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(_stop_at_exit)


class RemoteBuffer(NamedTuple):
    """Memory of the peer, from its Memory.remote(). Passes as JSON or any other way."""

    address: int
    nbytes: int
    key: str  #: one printable word

    def part(self, offset: int, nbytes: Optional[int] = None) -> "RemoteBuffer":
        """Returns a part of it. Raises ValueError if the part is not inside."""
        return RemoteBuffer(*part_of("remote memory", self.address, self.nbytes, offset, nbytes), self.key)


class Memory(_core.TransportMemory):
    """Memory that transports of a device write from, read into, and let peers reach.

    Keeps the object that owns the memory. Transport.register() makes one that suits the transport.

    Args:
        memory: an array, tensor or buffer: see warpverbs.Region.
        device: as for Transport.
        max_nics: TransportConfig.max_nics of the transports that use it.
        writable: NICs may write to it. By default where the memory is writable.

    Raises:
        Error: names the kind of memory, each method that was tried, and the cause.
        TypeError, ValueError: the object shows no memory, or it has gaps, or is read-only.
    """

    def __init__(self, memory: Any, *, device: int = 0, max_nics: int = 1, writable: Optional[bool] = None) -> None:
        place = place_of(memory)
        if place.readonly and writable:
            raise ValueError(f"Cannot register {place.nbytes} bytes at 0x{place.address:x} for writing: they are read-only. "
                             "Register a writable copy, or pass writable=False.")
        super().__init__(place.address, place.nbytes, place.owner, device, max_nics,
                         not place.readonly if writable is None else writable)

    def remote(self, offset: int = 0, nbytes: Optional[int] = None) -> RemoteBuffer:
        """Returns the memory, or a part of it, as the peer names it. Raises ValueError if it is not inside."""
        return RemoteBuffer(*self._remote()).part(offset, nbytes)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._remote()[1]


@dataclasses.dataclass(frozen=True)
class TransportConfig:
    """Settings of a transport. Both sides should choose alike."""

    max_nics: int = 1  #: NICs to spread over, nearest first; 1 to 8
    queue_pairs: int = 2  #: on each NIC; on all together at most 32
    depth: int = 128  #: pieces that each send queue holds
    receive_depth: int = 256  #: notifications that each queue pair receives between two polls
    piece_bytes: int = 1 << 20  #: largest piece of a transfer
    connect_timeout: float = 30.0  #: seconds from connect() until the peer must have connected
    spin: float = 20e-6  #: seconds that the loop polls after a completion, before it sleeps
    traffic_class: int = 0
    ack_timeout: int = 16  #: 4.096 us * 2^n until a retry
    retry_count: int = 7


class Transport(_core.Transport):
    """A connection to one peer over RDMA: writes to its memory, reads from it, and notifications.

    Each side binds, sends its URL to the other by any means, and connects with the other's URL, in any order.
    Operations return at once. Any thread may call any method. Pending operations end as aborted when the
    transport is closed or forgotten.

    Args:
        device: ordinal of a GPU, whose nearest NICs are used; on a machine without GPUs, index of the first
            NIC among those with an active port.
        config: settings.
        settings: fields of TransportConfig, which replace those of `config`.

    Raises Error: the device does not exist, or a setting is out of range.
    """

    def __init__(self, device: int = 0, config: Optional[TransportConfig] = None, **settings: Any) -> None:
        self._config = dataclasses.replace(config or TransportConfig(), **settings)
        self._device = device
        self._completions = _get_completions()
        self._notifications = _Notifications()
        self._in_use: List[Any] = []  # owners of memory of transfers that timed out
        super().__init__(device, self._completions.loop, dataclasses.asdict(self._config))
        self._completions.transports.add(self)

    def register(self, memory: Any, *, writable: Optional[bool] = None) -> Memory:
        """Registers memory for this transport: see Memory."""
        return Memory(memory, device=self._device, max_nics=self._config.max_nics, writable=writable)

    def bind(self) -> str:
        """Creates the queue pairs, once. Returns the URL, one printable word, valid on any machine.

        Raises TransportError: bound before, or the device refuses.
        """
        code, sentence, url = self._bind()
        _check(code, sentence, "bind")
        return url

    def connect(self, url: str) -> None:
        """Connects to the transport that returned the URL, once. The end of an operation shows that the peer has, too.

        Raises TransportError: not bound, connected before, or the URL is invalid or cannot be reached.
        """
        _check(*self._connect(url), "connect")

    def reset(self) -> None:
        """Makes the transport unbound again, also a broken one. Pending operations end as aborted.

        Then bind() and connect() connect it to any transport that is new or reset as well.
        """
        _check(*self._reset(), "reset")
        self._notifications = _Notifications()
        self._in_use.clear()

    def check(self) -> None:
        """Raises the TransportError that has broken the transport, if one has."""
        _check(*self._status(), "use the transport")

    def write(self, memory: Memory, remote: RemoteBuffer, *, offset: int = 0, nbytes: Optional[int] = None,
              notify: bool = False, timeout: Optional[float] = None) -> Operation:
        """Writes memory to the peer. Keeps it registered and alive until the operation has ended.

        The bytes must stay unchanged until then.

        Args:
            remote: where to; a RemoteBuffer, or a list or tuple of its fields.
            offset, nbytes: the part of `memory` to write; by default all from `offset` on.
            notify: ends one wait_for_write() of the peer after all bytes have arrived.
            timeout: seconds; None: none. After it the NIC may still read the memory, so the transport keeps it
                until reset() or close().
        """
        return self._transfer(memory, remote, offset, nbytes, timeout,
                              lambda *place: self._write(*place, notify, timeout))

    def read(self, memory: Memory, remote: RemoteBuffer, *, offset: int = 0, nbytes: Optional[int] = None,
             timeout: Optional[float] = None) -> Operation:
        """Reads the peer's memory into a part of `memory`. Otherwise like write()."""
        return self._transfer(memory, remote, offset, nbytes, timeout, lambda *place: self._read(*place, timeout))

    def wait_for_write(self, *, timeout: Optional[float] = None) -> Operation:
        """Waits for a notified write of the peer, all bytes of which have arrived when the wait ends.

        Waits take notifications in order, one each. Those that arrive before a wait are kept, and so is that of
        a wait which was cancelled.
        """
        self._status()  # raises if it is closed, or of another process
        return self._notifications.wait(timeout is not None, lambda finish: self._completions.start(
            lambda number: self._wait_for_write(number, timeout), finish))

    def close(self) -> None:
        """Closes the connection. Pending operations end as aborted; the NIC uses no memory any more."""
        super().close()
        self._in_use.clear()

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def _transfer(self, memory: Memory, remote: RemoteBuffer, offset: int, nbytes: Optional[int],
                  timeout: Optional[float], call: Callable[..., None]) -> Operation:
        if not isinstance(memory, Memory):
            raise TypeError(f"Cannot transfer an object of type {type(memory).__name__}: it is not registered. "
                            "Pass what register() returned.")
        remote = RemoteBuffer(*remote)
        _, nbytes = part_of("the memory", 0, memory.nbytes, offset, nbytes)
        operation, in_use, owner = Operation(), self._in_use, memory._owner  # the program may close `memory` at once

        def finish(code: str, sentence: str) -> None:
            if code == "timeout":
                in_use.append(owner)
            if operation._claim():
                operation._finish(code, sentence)

        self._completions.start(lambda number: call(number, memory, offset, nbytes, tuple(remote)), finish)
        return operation
