import os
import pathlib
import queue
import signal
import socket
import threading
import time

import pytest

import warpverbs
from conftest import SOON, Background, interrupted


class Store:
    """A store as torch.distributed has them, for the threads of a process."""

    def __init__(self):
        self._values = {}

    def set(self, key, value):
        self._values[key] = value.encode()

    def check(self, keys):
        return all(key in self._values for key in keys)

    def get(self, key):
        return self._values[key]

    def delete_key(self, key):
        return self._values.pop(key, None) is not None


class OldStore(Store):
    """A store as that of torch 1, which cannot be asked whether a key is there."""

    check = property()

    def get(self, key):
        raise AssertionError("it would wait without Ctrl-C")

    def compare_set(self, key, expected, desired):
        if self._values.get(key, b"") == expected.encode():
            self._values[key] = desired.encode()
        return self._values[key]


class Communicator:
    """A communicator as mpi4py has them, for two threads of a process."""

    def __init__(self):
        self.queues = [queue.Queue(), queue.Queue()]

    def of(self, rank):
        return Rank(self.queues, rank)


class Request:
    """Of a message that has been sent when it is tested for the second time."""

    tests = 0

    def test(self):
        self.tests += 1
        return self.tests > 1, None


class Rank:
    def __init__(self, queues, rank):
        self._queues, self._rank = queues, rank

    def isend(self, message, dest, tag):
        self._queues[dest].put((tag, message))
        return Request()

    def iprobe(self, source, tag):
        return not self._queues[self._rank].empty()

    def recv(self, source, tag):
        return self._queues[self._rank].get()[1]


def store_pair(kind=Store):
    store = kind()
    return warpverbs.StoreExchange(store, 0, 1), warpverbs.StoreExchange(store, 1, 0)


def mpi_pair():
    communicator = Communicator()
    return warpverbs.MpiExchange(communicator.of(0), 1), warpverbs.MpiExchange(communicator.of(1), 0)


@pytest.fixture(params=["tcp", "store", "old store", "mpi"])
def exchanges(request, tcp_pair):
    makers = {"tcp": lambda: tcp_pair, "store": store_pair, "old store": lambda: store_pair(OldStore), "mpi": mpi_pair}
    return makers[request.param]()


def test_messages_are_swapped_in_order(exchanges):
    here, there = exchanges

    def other():
        return [there.swap(b"a", "a letter", SOON), there.swap(b"", "nothing", SOON), there.swap_json([1, {"two": "3"}])]

    thread = Background(other)
    mine = [here.swap(b"x" * 100000, "letters", SOON), here.swap(b"\0\xff", "bytes", SOON), here.swap_json(None)]
    assert mine == [b"a", b"", [1, {"two": "3"}]]
    assert thread.result() == [b"x" * 100000, b"\0\xff", None]
    assert isinstance(here, warpverbs.Exchange) and here.peer_name


def test_swap_ends_at_its_timeout(exchanges):
    with pytest.raises(warpverbs.Error, match="^Cannot swap a word with "):
        exchanges[0].swap(b"word", "a word", 0.01)


def test_failed_swap_ends_its_exchange(exchanges):
    """The peer has not answered it yet, and would answer the next one."""
    here, there = exchanges
    with pytest.raises(warpverbs.Error):
        here.swap(b"word", "a word", 0.01)
    for _ in range(2):
        with pytest.raises(warpverbs.Error, match="^Cannot swap a word with "):
            here.swap(b"word", "a word", SOON)


def test_message_that_is_not_sent_ends_its_swap_at_the_timeout(monkeypatch):
    monkeypatch.setattr(Request, "test", lambda self: (False, None))
    here, there = mpi_pair()
    there._communicator.isend(b"answer", dest=0, tag=0)
    with pytest.raises(warpverbs.Error, match="^Cannot swap a word with rank 1"):
        here.swap(b"word", "a word", 0.01)


def test_next_exchange_of_a_store_reads_no_old_message():
    store = Store()
    for word in (b"first", b"second"):
        here, there = warpverbs.StoreExchange(store, 0, 1), warpverbs.StoreExchange(store, 1, 0)
        thread = Background(there.swap, word, "a word", SOON)
        assert here.swap(b"", "a word", SOON) == word
        thread.result()
    assert not store._values


def wait_for_message_to(port):
    """Waits until a connection of a local port has bytes that nobody has read."""
    until = time.monotonic() + SOON
    while time.monotonic() < until:
        for row in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, _, state, queues = row.split()[:5]
            if (int(local.split(":")[1], 16), state) == (port, "01") and int(queues.split(":")[1], 16) > 0:
                return
        time.sleep(0.001)
    raise AssertionError(f"no message came to port {port}")


def test_handler_may_not_use_the_connection_that_it_interrupts(tcp_pair):
    here = tcp_pair[0]
    before = signal.signal(signal.SIGUSR1, lambda *_: here.swap(b"", "another word", SOON))

    def interrupt():
        wait_for_message_to(int(here.peer_name.split()[-1]))  # so the swap is under way
        os.kill(os.getpid(), signal.SIGUSR1)

    try:
        interrupting = Background(interrupt)
        with pytest.raises(warpverbs.Error, match="this thread is in another call of it"):
            here.swap(b"word", "a word", SOON)
        interrupting.result()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_swap_does_not_wait_for_another_beyond_its_timeout(tcp_pair):
    here, there = tcp_pair
    swapping = Background(here.swap, b"word", "a word", SOON)
    wait_for_message_to(int(here.peer_name.split()[-1]))
    with pytest.raises(warpverbs.OperationTimeout, match="calls of other threads did not end in time"):
        here.swap(b"", "another word", 0.01)
    assert there.swap(b"answer", "a word", SOON) == b"word" and swapping.result() == b"answer"


def test_message_of_another_call_is_refused_as_json(tcp_pair):
    here, there = tcp_pair
    thread = Background(there.swap, b"\0\xfe", "the description", SOON)
    with pytest.raises(warpverbs.Error, match="^Cannot swap the target with .*: its message is not JSON. Make the same calls"):
        here.swap_json(1, "the target")
    thread.result()


def test_swap_ends_by_a_signal(exchanges):
    interrupted(exchanges[0].swap, b"word", "a word")


@pytest.mark.parametrize("round_trip", [False, True])
def test_endpoints_are_connected(nic, exchanges, round_trip):
    here, there = ([warpverbs.Endpoint(nic) for _ in range(3)] for _ in range(2))
    thread = Background(warpverbs.connect_all, there, exchanges[1], timeout=SOON, round_trip=round_trip)
    warpverbs.connect_all(here, exchanges[0], timeout=SOON, round_trip=round_trip)
    thread.result()
    for mine, theirs in zip(here, there):
        assert mine.connected and f"to QP {theirs.qpn}" in mine.describe()


def test_both_sides_know_why_connecting_failed(nic, tcp_pair):
    there = Background(warpverbs.connect_all, [warpverbs.Endpoint(nic)], tcp_pair[1], timeout=SOON)
    here = warpverbs.Endpoint(nic)
    with pytest.raises(warpverbs.Error, match="two sides disagree"):
        warpverbs.connect_all([here, warpverbs.Endpoint(nic)], tcp_pair[0], timeout=SOON)
    with pytest.raises(warpverbs.Error, match="two sides disagree|The peer|the peer"):
        there.result()
    assert here.state == "RESET"


def test_connecting_ends_by_a_signal(nic, exchanges):
    endpoint = warpverbs.Endpoint(nic)
    interrupted(warpverbs.connect_all, [endpoint], exchanges[0])
    assert endpoint.state == "RESET"


def test_accepting_and_connecting_end_by_a_signal():
    with warpverbs.TcpListener("127.0.0.1") as listener:
        interrupted(listener.accept)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # without listen() it refuses, and no other program gets its port
        interrupted(warpverbs.TcpExchange.connect, "127.0.0.1", silent.getsockname()[1])


def test_accepting_ends_at_its_timeout():
    with pytest.raises(warpverbs.Error, match="no peer connected within"):
        warpverbs.TcpListener("127.0.0.1").accept(timeout=0.01)


def test_port_that_is_taken_is_refused():
    with warpverbs.TcpListener("127.0.0.1") as listener:
        with pytest.raises(warpverbs.Error, match="^Cannot listen"):
            warpverbs.TcpListener("127.0.0.1", listener.port)


@pytest.mark.parametrize("error", [ValueError("of the exchange"), KeyboardInterrupt()])
def test_exception_of_an_exchange_arrives(nic, error):
    class Failing(warpverbs.Exchange):
        def swap(self, mine, what="a message", timeout=None):
            raise error

    endpoint = warpverbs.Endpoint(nic)
    with pytest.raises(type(error)):
        warpverbs.connect_all([endpoint], Failing())
    assert endpoint.state == "RESET"


@pytest.mark.parametrize("answer", [b"", b"no message of this library", None, 7])
def test_wrong_answer_of_an_exchange_is_refused(nic, answer):
    class Wrong:
        def swap(self, mine, what, timeout):
            return answer

    with pytest.raises((warpverbs.Error, TypeError, RuntimeError)):
        warpverbs.connect_all([warpverbs.Endpoint(nic)], Wrong(), timeout=SOON)


def test_exchange_may_not_use_the_endpoint_that_it_connects(nic):
    endpoint = warpverbs.Endpoint(nic)

    class Curious:
        def swap(self, mine, what, timeout):
            endpoint.reset()

    with pytest.raises(warpverbs.Error, match="this thread is in another call of it"):
        warpverbs.connect_all([endpoint], Curious())


def test_what_is_no_exchange_is_refused(nic, tcp_pair):
    for endpoints in (warpverbs.Endpoint(nic), tcp_pair[0]):
        with pytest.raises(TypeError, match=r"not a list of endpoints. Pass \[endpoint\]"):
            warpverbs.connect_all(endpoints, tcp_pair[0])
    with pytest.raises(TypeError, match="it has no method swap"):
        warpverbs.connect_all([warpverbs.Endpoint(nic)], object())
    with pytest.raises(TypeError):
        warpverbs.connect_all([None], object())


def test_threads_connect_the_same_endpoints_in_any_order(nic):
    """Neither waits for the other with half of the endpoints locked."""
    endpoints = [warpverbs.Endpoint(nic) for _ in range(2)]
    in_turn = threading.Lock()

    class Refusing:
        def swap(self, mine, what, timeout):
            with in_turn:
                raise ConnectionError("refused")

    def connect(order):
        for _ in range(20):
            with pytest.raises(ConnectionError):
                warpverbs.connect_all(order, Refusing(), timeout=SOON)

    for thread in [Background(connect, order) for order in (endpoints, endpoints[::-1])]:
        thread.result()


@pytest.mark.parametrize("timeout", [-1, float("nan"), "soon"])
def test_wrong_timeout_is_refused(tcp_pair, timeout):
    with pytest.raises((ValueError, RuntimeError, TypeError)):
        tcp_pair[0].swap(b"", "a word", timeout)
