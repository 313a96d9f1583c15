"""Messages to a peer before RDMA works."""

import json
import time
from abc import ABC, abstractmethod
from typing import Any, Optional

from warpverbs import _core
from warpverbs._errors import Error

_SECONDS = 30.0


def _pause(deadline: Optional[float], pause: float, what: str, peer: str) -> float:
    """Sleeps a little, and returns how long to sleep next. Raises Error if the deadline has passed."""
    if deadline is not None and time.monotonic() >= deadline:
        raise Error(f"Cannot swap {what} with {peer}: no message came in time. See what holds the peer up, or wait longer.",
                    step="swap", object=f"{what} with {peer}", reason="no message came in time",
                    remedy="See what holds the peer up, or wait longer")
    time.sleep(pause)
    return min(2 * pause, 0.01)


def _deadline(timeout: Optional[float]) -> Optional[float]:
    return None if timeout is None else time.monotonic() + timeout


class Exchange(ABC):
    """A way to one peer before RDMA works. Implement swap() over what your program has.

    Both sides swap equally often and in the same order. An implementation delivers messages whole, once and in
    order, or raises an exception.
    """

    @abstractmethod
    def swap(self, mine: bytes, what: str = "a message", timeout: Optional[float] = _SECONDS) -> bytes:
        """Sends a message, and returns the peer's.

        Args:
            mine: may be empty. Sending must not wait until the peer reads: it may be sending, too.
            what: name of the message in errors.
            timeout: seconds for both directions; None: no end.
        """

    @property
    def peer_name(self) -> str:
        """Names the peer, for the middle of a sentence."""
        return "the peer"

    def swap_json(self, mine: Any, what: str = "a value", timeout: Optional[float] = _SECONDS) -> Any:
        """Swaps values that JSON has: numbers, texts, lists, dicts. A named tuple arrives as a list.

        Raises Error as swap() does, and if the peer's message is not JSON: it made another call. TypeError: JSON does not
        have `mine`.
        """
        theirs = self.swap(json.dumps(mine).encode(), what, timeout)
        try:
            return json.loads(theirs)
        except ValueError:  # also bytes that are not text
            raise Error(f"Cannot swap {what} with {self.peer_name}: its message is not JSON. Make the same calls in the same "
                        "order on both sides.", step="swap", object=f"{what} with {self.peer_name}",
                        reason="its message is not JSON", remedy="Make the same calls in the same order on both sides") from None


class TcpExchange(_core.TcpExchange):
    """Messages to one peer over TCP. Neither encrypts nor authenticates: for networks that trust each other.

    Make it by TcpExchange.connect() on one side, and by TcpListener.accept() on the other. C++ programs speak
    the same protocol. After a failed swap the connection is closed.
    """

    @classmethod
    def connect(cls, host: str, port: int, timeout: Optional[float] = _SECONDS) -> "TcpExchange":
        """Connects to a peer, which may start to listen a little later.

        Raises Error: nothing listens there in time, or the host is unknown.
        """
        return cls(_core.TcpExchange.connect(host, port, timeout))

    swap_json = Exchange.swap_json


Exchange.register(TcpExchange)


class _OtherExchange(Exchange):
    """An exchange that a failed swap ends: its message may still arrive, and would answer another one."""

    _failed = False

    def swap(self, mine: bytes, what: str = "a message", timeout: Optional[float] = _SECONDS) -> bytes:
        """Sends a message, and returns the peer's."""
        if self._failed:
            raise Error(f"Cannot swap {what} with {self.peer_name}: an earlier swap failed. Make a new exchange on both sides.",
                        step="swap", object=f"{what} with {self.peer_name}", reason="an earlier swap failed",
                        remedy="Make a new exchange on both sides")
        self._failed = True
        theirs = self._swap(bytes(mine), what, _deadline(timeout))
        self._failed = False
        return theirs

    @abstractmethod
    def _swap(self, mine: bytes, what: str, deadline: Optional[float]) -> bytes:
        """Swaps, or raises."""


class TcpListener(_core.TcpListener):
    """Accepts connections of any number of peers.

    Args:
        host: an address of this machine; "": any.
        port: 0: a free one, which `port` then tells.

    Raises Error: not an address of this machine, or the port is taken.
    """

    def __init__(self, host: str = "", port: int = 0) -> None:
        super().__init__(host, port)

    def accept(self, timeout: Optional[float] = _SECONDS) -> TcpExchange:
        """Waits for the next peer. Refuses connections of other programs, and waits on.

        Raises Error: no peer came in time.
        """
        return TcpExchange(super().accept(timeout))


class MpiExchange(_OtherExchange):
    """Messages to another rank by mpi4py. For one thread at a time.

    After a failed swap it refuses others. Keep it until the program ends, since MPI may still send its message, and
    give new exchanges another tag.

    Args:
        communicator: of mpi4py, such as MPI.COMM_WORLD. It stays the program's.
        peer: the other rank.
        tag: nothing else may use it between the two ranks.
    """

    def __init__(self, communicator: Any, peer: int, tag: int = 18517) -> None:
        self._communicator = communicator
        self._peer = peer
        self._tag = tag

    def _swap(self, mine: bytes, what: str, deadline: Optional[float]) -> bytes:
        pause = 1e-5
        self._sending = self._communicator.isend(mine, dest=self._peer, tag=self._tag)  # MPI's own while it is under way
        while not self._communicator.iprobe(source=self._peer, tag=self._tag):
            pause = _pause(deadline, pause, what, self.peer_name)
        theirs = self._communicator.recv(source=self._peer, tag=self._tag)
        while not self._sending.test()[0]:
            pause = _pause(deadline, pause, what, self.peer_name)
        return theirs

    @property
    def peer_name(self) -> str:
        """Names the peer, for the middle of a sentence."""
        return f"rank {self._peer}"


class StoreExchange(_OtherExchange):
    """Messages to another rank by a store of torch.distributed, or any object with set(), get() and check().

    A store without check(), as those of torch 1 are, needs compare_set().

    For one thread at a time. Deletes what it has read if the store has delete_key(). After a failed swap it refuses
    others.

    Args:
        store: a torch.distributed.TCPStore, FileStore, ...
        rank: this rank.
        peer: the other rank.
        name: of the pair's keys in the store; two exchanges of one pair need two names, and so does one
            after a failed swap, or on a store without delete_key().
    """

    def __init__(self, store: Any, rank: int, peer: int, name: str = "warpverbs") -> None:
        self._store = store
        self._rank = rank
        self._peer = peer
        self._name = name
        self._swaps = 0

    def _swap(self, mine: bytes, what: str, deadline: Optional[float]) -> bytes:
        pause = 1e-4
        number, self._swaps = self._swaps, self._swaps + 1
        self._store.set(f"{self._name}/{self._rank}/{self._peer}/{number}", "=" + mine.hex())  # stores may take text only
        theirs = f"{self._name}/{self._peer}/{self._rank}/{number}"
        while not (answer := self._look(theirs)):
            pause = _pause(deadline, pause, what, self.peer_name)
        if hasattr(self._store, "delete_key"):  # the next exchange of that name must not read it
            self._store.delete_key(theirs)
        return bytes.fromhex((answer.decode() if isinstance(answer, bytes) else answer)[1:])

    def _look(self, key: str) -> Any:
        """Returns a value, or nothing if it has not been set. get() would wait for it, and not for Ctrl-C."""
        if hasattr(self._store, "check"):
            return self._store.get(key) if self._store.check([key]) else None
        return self._store.compare_set(key, "", "")  # sets what is missing to nothing

    @property
    def peer_name(self) -> str:
        """Names the peer, for the middle of a sentence."""
        return f"rank {self._peer}"
