import asyncio
import concurrent.futures
import gc
import json
import threading
import time
import weakref

import numpy
import pytest

import warpverbs
from conftest import SOON, Background, in_child, interrupted

transport = pytest.importorskip("warpverbs.transport")


class Sides:
    """Two connected transports, and memory of each."""

    def __init__(self, **settings):
        self.a, self.b = transport.Transport(**settings), transport.Transport(**settings)
        self.source = numpy.arange(5000, dtype=numpy.uint8)
        self.target = numpy.zeros(5000, numpy.uint8)
        self.local, self.landing = self.a.register(self.source), self.b.register(self.target)
        self.connect()

    def connect(self):
        urls = self.a.bind(), self.b.bind()
        self.a.connect(urls[1])
        self.b.connect(urls[0])

    def close(self):
        self.a.close(), self.b.close()


@pytest.fixture
def sides():
    sides = Sides()
    yield sides
    sides.close()


def test_machine_is_supported():
    assert transport.supported()


def test_write_and_notification_arrive(sides):
    sides.a.write(sides.local, sides.landing.remote(), notify=True).result(SOON)
    sides.b.wait_for_write(timeout=SOON).result()
    assert (sides.target == sides.source).all()


def test_part_is_written(sides):
    to = transport.RemoteBuffer(*json.loads(json.dumps(sides.landing.remote(100, 50))))
    sides.a.write(sides.local, to, offset=10, nbytes=20).result(SOON)
    assert (sides.target[100:120] == sides.source[10:30]).all() and not sides.target[120:].any()


def test_read_fetches(sides):
    sides.target[:] = 9
    sides.a.read(sides.local, sides.landing.remote(), nbytes=100).result(SOON)
    assert (sides.source[:100] == 9).all()


def test_operations_are_awaited(sides):
    async def main():
        writes = [sides.a.write(sides.local, sides.landing.remote(), notify=True) for _ in range(10)]
        await asyncio.gather(*writes)
        for _ in range(10):
            await asyncio.wait_for(sides.b.wait_for_write(), SOON)

    asyncio.run(main())
    assert (sides.target == sides.source).all()


def test_cancelled_wait_loses_no_notification(sides):
    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(sides.b.wait_for_write(), 0.01)
        task = asyncio.ensure_future(sides.b.wait_for_write())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        for _ in range(3):
            await sides.a.write(sides.local, sides.landing.remote(), notify=True)
        for _ in range(3):
            await asyncio.wait_for(sides.b.wait_for_write(), SOON)
        with pytest.raises(transport.TransportTimeout):
            await sides.b.wait_for_write(timeout=0.01)

    asyncio.run(main())


def test_notification_of_a_cancelled_wait_goes_to_the_next_one(sides):
    first, second, third = (sides.b.wait_for_write() for _ in range(3))
    assert first.cancel()
    sides.a.write(sides.local, sides.landing.remote(), notify=True).result(SOON)
    second.result(SOON)
    assert not third.done()
    sides.a.write(sides.local, sides.landing.remote(), notify=True).result(SOON)
    third.result(SOON)


def test_task_that_is_cancelled_before_it_knows_gives_its_notification_back(sides):
    async def main():
        taken = sides.b.wait_for_write()
        task = asyncio.ensure_future(asyncio.wait_for(taken, SOON))
        while not taken._done_callbacks:  # the task awaits it
            await asyncio.sleep(0)
        sides.a.write(sides.local, sides.landing.remote(), notify=True).result(SOON)
        assert taken.result(SOON) is None  # and the loop has not run since
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await asyncio.wait_for(sides.b.wait_for_write(), SOON)
        with pytest.raises(transport.TransportTimeout):
            await sides.b.wait_for_write(timeout=0.01)

    asyncio.run(main())


def test_notification_that_is_given_back_goes_to_the_oldest_wait(sides):
    async def main():
        taken, second, third = (sides.b.wait_for_write() for _ in range(3))
        task = asyncio.ensure_future(asyncio.wait_for(taken, SOON))
        while not taken._done_callbacks:
            await asyncio.sleep(0)
        sides.a.write(sides.local, sides.landing.remote(), notify=True).result(SOON)
        taken.result(SOON)
        task.cancel()
        await asyncio.wait([task])
        second.result(SOON)
        assert not third.done()

    asyncio.run(main())


def test_cancelled_waits_are_used_again(sides):
    """They keep their order, and each notification ends one wait."""
    numbers = []
    start = sides.b._wait_for_write
    sides.b._wait_for_write = lambda *arguments: (numbers.append(arguments), start(*arguments))
    for _ in range(100):
        assert sides.b.wait_for_write().cancel()
    assert len(numbers) == 1
    first, second, third = (sides.b.wait_for_write() for _ in range(3))
    assert len(numbers) == 3 and first.cancel()
    fourth = sides.b.wait_for_write()
    assert len(numbers) == 3
    for wait in (second, third, fourth):
        assert not wait.done()
        sides.a.write(sides.local, sides.landing.remote(), notify=True).result(SOON)
        wait.result(SOON)
    with pytest.raises(transport.TransportTimeout):
        sides.b.wait_for_write(timeout=0.01).result(SOON)
    last = sides.b.wait_for_write()
    sides.b.close()
    with pytest.raises(transport.TransportAborted):
        last.result(SOON)


def test_reset_forgets_the_notifications_before_it(sides):
    """Also one that the library has given to a wait whose end Python has not seen yet."""
    finish = []
    sides.b._notifications.wait(False, finish.append).cancel()
    sides.a.reset(), sides.b.reset()
    sides.connect()
    finish[0]("success", "")
    with pytest.raises(transport.TransportTimeout):
        sides.b.wait_for_write(timeout=0.01).result(SOON)


def test_cancelled_operation_ends_for_concurrent_futures(sides):
    first, second = sides.b.wait_for_write(), sides.b.wait_for_write()
    assert first.cancel() and first.cancel() and first.cancelled()
    assert concurrent.futures.wait([first], SOON).done == {first}
    waiter = Background(concurrent.futures.wait, [second], SOON)
    assert second.cancel()
    assert waiter.result().done == {second}
    done = sides.a.write(sides.local, sides.landing.remote())
    done.result(SOON)
    assert not done.cancel() and not done.cancelled()


def test_cancelled_writes_arrive(sides):
    async def main():
        tasks = [asyncio.ensure_future(sides.a.write(sides.local, sides.landing.remote())) for _ in range(5)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())
    sides.a.write(sides.local, sides.landing.remote(), notify=True).result(SOON)
    sides.b.wait_for_write(timeout=SOON).result()
    assert (sides.target == sides.source).all()


def test_loop_that_has_ended_gets_no_result(sides):
    """The operation ends after the loop that awaited it."""

    async def main():
        asyncio.ensure_future(sides.b.wait_for_write())
        await asyncio.sleep(0)

    asyncio.run(main())
    sides.a.write(sides.local, sides.landing.remote(), notify=True).result(SOON)
    sides.b.wait_for_write(timeout=SOON).result()


def test_wait_times_out(sides):
    with pytest.raises(TimeoutError, match="timeout: ") as caught:
        sides.b.wait_for_write(timeout=0.01).result(SOON)
    assert isinstance(caught.value, warpverbs.TransportTimeout) and caught.value.reason


def gone(kept):
    """Waits until an object has gone: the thread of all transports forgets it in a moment."""
    end = time.monotonic() + SOON
    while kept() is not None and time.monotonic() < end:
        gc.collect()
    return kept() is None


@pytest.fixture
def lonely():
    """A transport whose peer never connects, so that its operations do not end."""
    one, peer = transport.Transport(), transport.Transport()
    one.bind()
    one.connect(peer.bind())
    yield one
    one.close(), peer.close()


@pytest.mark.parametrize("closes", [False, True])
def test_timed_out_write_keeps_its_memory_until_the_reset(lonely, closes):
    array = numpy.zeros(64, numpy.uint8)
    kept = weakref.ref(array)
    memory = lonely.register(array)
    with pytest.raises(transport.TransportTimeout):
        lonely.write(memory, memory.remote(), timeout=0.01).result(SOON)
    if closes:
        memory.close()
    del array, memory
    gc.collect()
    assert kept() is not None
    lonely.reset()
    assert gone(kept)


@pytest.mark.parametrize("cancels", [False, True])
def test_pending_operation_keeps_memory_that_was_closed(lonely, cancels):
    array = numpy.zeros(64, numpy.uint8)
    kept = weakref.ref(array)
    with lonely.register(array) as memory:
        operation = lonely.read(memory, memory.remote())
    if cancels:
        assert operation.cancel()
    del array, memory
    gc.collect()
    assert kept() is not None
    lonely.close()
    assert gone(kept)


def test_result_ends_by_a_signal(sides):
    wait = sides.b.wait_for_write()
    interrupted(wait.result)


def test_wrong_key_breaks_the_transport_until_its_reset(sides):
    wrong = transport.RemoteBuffer(sides.landing.remote().address, 5000, sides.local.remote().key)
    sides.landing.close()
    with pytest.raises(warpverbs.TransportError) as caught:
        sides.a.write(sides.local, wrong).result(SOON)
    assert str(caught.value)
    with pytest.raises(warpverbs.TransportError):
        sides.a.check()
    sides.a.reset(), sides.b.reset()
    sides.landing = sides.b.register(sides.target)
    sides.connect()
    sides.a.write(sides.local, sides.landing.remote()).result(SOON)
    sides.a.check()
    assert (sides.target == sides.source).all()


def test_invalid_calls_are_refused(sides):
    with pytest.raises(transport.TransportInvalid):
        sides.a.bind()
    with pytest.raises(transport.TransportInvalid):
        sides.a.connect(sides.b.bind.__name__)
    for offset, nbytes in ((0, 5001), (-1, 1), (5001, None)):
        with pytest.raises(ValueError, match="Cannot take"):
            sides.a.write(sides.local, sides.landing.remote(), offset=offset, nbytes=nbytes)
    with pytest.raises(ValueError):
        sides.a.write(sides.local, sides.landing.remote(0, 10)).result(SOON)
    with pytest.raises(warpverbs.Error):
        sides.a.write(sides.local, (0, 5000, "no key"))
    with pytest.raises(TypeError):
        sides.a.write(sides.local, (0,))
    with pytest.raises(TypeError):
        sides.a.write(sides.source, sides.landing.remote())
    sides.a.write(sides.local, sides.landing.remote()).result(SOON)


def test_read_only_memory_is_not_written(sides):
    constant = sides.a.register(b"constant")
    sides.a.write(constant, sides.landing.remote()).result(SOON)
    assert sides.target[:8].tobytes() == b"constant"
    with pytest.raises(ValueError):
        sides.a.read(constant, sides.landing.remote())
    with pytest.raises(ValueError, match="read-only"):
        transport.Memory(b"constant", writable=True)


def test_settings_are_checked():
    with pytest.raises(warpverbs.Error):
        transport.Transport(queue_pairs=99)
    with pytest.raises(ValueError):
        transport.Transport(depth=-1)
    with pytest.raises(TypeError):
        transport.Transport(colour=1)


def test_close_aborts_what_is_pending(sides):
    waits = [sides.b.wait_for_write() for _ in range(3)]
    sides.b.close()
    for wait in waits:
        with pytest.raises(transport.TransportAborted):
            wait.result(SOON)
    for call in (sides.b.bind, sides.b.check, sides.b.describe, sides.b.wait_for_write, lambda: sides.b.connected,
                 lambda: sides.b.write(sides.landing, sides.local.remote())):
        with pytest.raises(warpverbs.ClosedError):
            call()
    sides.b.close()
    assert sides.b.closed


def test_transport_that_is_forgotten_ends(sides):
    wait = sides.b.wait_for_write()
    sides.b = transport.Transport()
    gc.collect()
    with pytest.raises(transport.TransportAborted):
        wait.result(SOON)


def test_closed_memory_is_refused(sides):
    sides.local.close()
    with pytest.raises(warpverbs.ClosedError):
        sides.a.write(sides.local, sides.landing.remote())


def test_callback_may_close_its_transport(sides):
    closed = threading.Event()

    def close(_):
        sides.a.close()
        closed.set()

    sides.a.write(sides.local, sides.landing.remote()).add_done_callback(close)
    assert closed.wait(SOON)


def test_threads_share_a_transport(sides):
    def write():
        for _ in range(50):
            sides.a.write(sides.local, sides.landing.remote(), notify=True).result(SOON)

    def wait():
        for _ in range(50):
            sides.b.wait_for_write(timeout=SOON).result()

    for thread in [Background(function) for function in (write, wait) * 4]:
        thread.result()


def test_child_makes_its_own_transports(sides):
    def child():
        for call in (sides.a.check, sides.a.wait_for_write, sides.local.remote):
            with pytest.raises(warpverbs.ForkError):
                call()
        sides.close()
        sides.local.close()
        own = Sides()
        own.a.write(own.local, own.landing.remote()).result(SOON)
        assert (own.target == own.source).all()

    in_child(child)
    sides.a.write(sides.local, sides.landing.remote()).result(SOON)


def test_many_transports_leave_nothing():
    def once():
        sides = Sides()
        sides.a.write(sides.local, sides.landing.remote()).result(SOON)
        sides.close()

    for _ in range(5):
        once()
    gc.collect()
    threads, objects = len(threading.enumerate()), len(gc.get_objects())
    for _ in range(50):
        once()
    gc.collect()
    assert len(threading.enumerate()) == threads
    assert len(gc.get_objects()) - objects < 100
