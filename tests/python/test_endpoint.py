import asyncio
import gc
import select
import threading
import time
import weakref

import numpy
import pytest

import warpverbs
from conftest import SOON, Background, Pair, in_child, interrupted


def test_remote_memory_may_be_the_list_that_came_from_the_peer(pair):
    remote = list(pair.remote.remote())
    pair.a.write(pair.local, remote, timeout=SOON)
    assert (pair.target == pair.source).all()
    pair.a.read(pair.local, tuple(remote), timeout=SOON)
    for wrong in (None, pair.remote, pair.remote.local(), remote[:2], [*remote[:2], "key"]):
        with pytest.raises(TypeError, match="as remote memory: it is no RemoteMemory. Pass what the peer"):
            pair.a.write(pair.local, wrong)
        with pytest.raises(TypeError, match="as remote memory"):
            pair.a.fetch_add(wrong, 1)


def test_parts_of_memory_are_inside(pair):
    part = pair.local.local(100, 50).part(10, 20)
    assert part == pair.local.local(110, 20) and part.region is pair.local
    with pytest.raises(ValueError, match="Cannot take 21 bytes at offset 30 of local memory: it has 50"):
        pair.local.local(100, 50).part(30, 21)


def test_write_reaches_the_peer(pair):
    pair.a.write(pair.local, pair.remote.remote(), timeout=SOON)
    assert (pair.target == pair.source).all()
    pair.a.write(pair.local.local(100, 10), pair.remote.remote(200), timeout=SOON)
    assert (pair.target[200:210] == pair.source[100:110]).all()


def test_read_fetches_from_the_peer(pair):
    pair.target[:] = 7
    pair.a.read(pair.local, pair.remote.remote(), timeout=SOON)
    assert (pair.source == 7).all()


def test_transfer_larger_than_the_remote_memory_is_refused(pair):
    with pytest.raises(ValueError, match="Cannot transfer 1024 bytes: the remote memory has 100"):
        pair.a.write(pair.local, pair.remote.remote(0, 100))


def test_failed_write_says_why_and_reset_recovers(pair):
    with pytest.raises(warpverbs.OperationError, match="remote access error") as caught:
        pair.a.write(pair.local, pair.remote.remote()._replace(rkey=1), timeout=SOON)
    assert caught.value.syndrome == 0x13
    error = pair.a.last_error()
    assert (error.syndrome, error.operation, error.qpn) == (0x13, "RDMA write", pair.a.qpn)
    assert "rkey" in error.describe()
    for endpoint in (pair.a, pair.b):
        endpoint.reset()
    assert pair.a.last_error() is None and pair.a.state == "RESET" and not pair.a.connected
    pair.connect()
    pair.a.write(pair.local, pair.remote.remote(), timeout=SOON)
    assert (pair.target == pair.source).all()


def test_write_without_a_peer_times_out(nic):
    """The peer of `a` has not connected to it, so nothing answers."""
    a, b = warpverbs.Endpoint(nic, ack_timeout=0), warpverbs.Endpoint(nic)  # 0: never gives up
    a.connect(b.info())
    region = warpverbs.Region(nic, bytearray(64), remote_write=True)
    with pytest.raises(TimeoutError, match="Keep the memory until reset") as caught:
        a.write(region, region.remote(), timeout=0.01)
    assert isinstance(caught.value, warpverbs.OperationTimeout)
    interrupted(a.write, region, region.remote())


def test_call_does_not_wait_for_another_beyond_its_timeout(nic):
    a, b = warpverbs.Endpoint(nic, ack_timeout=0), warpverbs.Endpoint(nic)  # 0: never gives up
    a.connect(b.info())
    region = warpverbs.Region(nic, bytearray(64), remote_write=True, remote_atomic=True)
    writing = Background(a.write, region, region.remote(), timeout=3600)
    while a.counters().sends_posted == 0:
        time.sleep(0.001)
    calls = [lambda: a.write(region, region.remote(), timeout=0.01), lambda: a.fetch_add(region.remote(0, 8), 1, timeout=0.01),
             lambda: warpverbs.connect_all([a], NeverSwaps(), timeout=0.01)]
    for call in calls:
        with pytest.raises(warpverbs.OperationTimeout, match="Cannot use QP .*: calls of other threads did not end in time"):
            call()
    assert a.counters().sends_posted == 1
    a.abort()
    with pytest.raises(warpverbs.OperationError, match="aborted"):
        writing.result()


class NeverSwaps:
    def swap(self, mine, what, timeout):
        raise AssertionError("connect_all() went on")


def test_memory_that_is_not_registered_is_refused(pair):
    for call in (pair.a.write, pair.a.read):
        with pytest.raises(TypeError, match="of type ndarray as local memory: it is not registered. Pass a Region"):
            call(pair.source, pair.remote.remote())
    with pytest.raises(TypeError, match="not registered"):
        pair.a.send(pair.source)


def test_abort_ends_a_write(nic):
    a, b = warpverbs.Endpoint(nic, ack_timeout=0), warpverbs.Endpoint(nic)  # 0: never gives up
    a.connect(b.info())
    region = warpverbs.Region(nic, bytearray(64), remote_write=True)
    write = Background(a.write, region, region.remote(), timeout=3600)
    a.abort()
    with pytest.raises(warpverbs.OperationError, match="aborted"):
        write.result()


def test_write_needs_a_connection(nic):
    region = warpverbs.Region(nic, bytearray(64), remote_write=True)
    with pytest.raises(warpverbs.Error, match="not connected. Call connect"):
        warpverbs.Endpoint(nic).write(region, region.remote())


def test_endpoint_describes_what_was_chosen(pair):
    text = pair.a.describe()
    assert f"QP {pair.a.qpn} on {pair.nic.name}" in text and f"to QP {pair.b.qpn}" in text
    assert pair.a.state == "RTS" and pair.a.port == 1 and not pair.a.on_gpu and pair.a.connected
    assert str(pair.a.qpn) in repr(pair.a)


@pytest.mark.parametrize("contended", [False, True])
def test_counters_count_posts(nic, contended):
    pair = Pair(nic, contended=contended)
    before = pair.a.counters()
    for _ in range(3):
        pair.a.write(pair.local, pair.remote.remote(), timeout=SOON)
    assert pair.a.counters().sends_posted == before.sends_posted + 3
    assert (pair.target == pair.source).all()


def test_views_are_addresses_for_kernels(nic):
    endpoint = warpverbs.Endpoint(nic, receive_depth=16)
    assert endpoint.queue % 64 == 0 and endpoint.receives > endpoint.queue and endpoint.abort_word != 0
    with pytest.raises(warpverbs.Error, match="receive queue"):
        warpverbs.Endpoint(nic).receives


def test_settings_may_come_from_a_config(nic):
    config = warpverbs.EndpointConfig(depth=32, traffic_class=104, max_mtu=1024)
    text = warpverbs.Endpoint(nic, config, depth=200).describe()
    assert "256 WQEBBs (200 requested)" in text
    assert config.replace(depth=8).depth == 8 and config.depth == 32


@pytest.mark.parametrize("settings", [
    {"peer_gid": "127.83.0.32"}, {"peer_gid": "fe80::1"}, {"psn": 5}, {"doorbell": "host_proxy"}, {"cq_mode": "collapsed"},
    {"placement": "host"}, {"gid_index": 3}, {"receive_depth": 8, "receive_scatter": 2}])
def test_setting_is_accepted(nic, settings):
    warpverbs.Endpoint(nic, **settings)


@pytest.mark.parametrize("settings, error, text", [
    ({"depth": -1}, ValueError, "Cannot use -1 as depth.*0 to 4294967295"),
    ({"depth": "many"}, ValueError, "Cannot use 'many' as depth"),
    ({"depth": 1 << 20}, warpverbs.Error, "Cannot create"),
    ({"retry_count": 9}, warpverbs.Error, "retry count is out of range"),
    ({"traffic_class": 256}, ValueError, "traffic_class"),
    ({"placement": "moon"}, ValueError, "Pass one of 'probe', 'host', 'gpu'"),
    ({"max_mtu": 1500}, ValueError, "Pass one of '256'"),
    ({"peer_gid": "no address"}, ValueError, "no address"),
    ({"pool": 7}, TypeError, "Cannot use 7 as pool"),
    ({"colour": 1}, TypeError, "colour")])
def test_wrong_setting_is_named(nic, settings, error, text):
    with pytest.raises(error, match=text):
        warpverbs.Endpoint(nic, **settings)


@pytest.mark.parametrize("info", ["", "word", "é", "00" * 48])
def test_wrong_description_of_a_peer_is_refused(nic, info):
    endpoint = warpverbs.Endpoint(nic)
    for call in (endpoint.connect, endpoint.check_peer):
        with pytest.raises(warpverbs.Error, match="^Cannot "):
            call(info)
    assert endpoint.state == "RESET"


def test_second_connect_is_refused(pair):
    with pytest.raises(warpverbs.Error, match="reset|Reset"):
        pair.a.connect(pair.b.info())


def test_disconnect_is_reported(pair):
    pair.a.disconnect()
    with pytest.raises(warpverbs.OperationError, match="disconnected|Disconnect"):
        pair.a.write(pair.local, pair.remote.remote(), timeout=SOON)
    assert pair.a.last_error().disconnected


def test_events_and_peers_follow_the_connection(nic):
    events, peers = warpverbs.EventThread(port_down_grace=None), warpverbs.PeerTable(4)
    assert len(peers) == 4 and peers.peers != 0 and peers.state(3) == "disconnected"
    pair = Pair(nic, events=events, peers=peers, peer_rank=3)
    assert peers.state(3) == "connected" and pair.a.last_event() is None
    with pytest.raises(IndexError, match="4 peers"):
        peers.state(4)
    with pytest.raises(warpverbs.OperationError):
        pair.a.write(pair.local, pair.remote.remote()._replace(rkey=1), timeout=SOON)
    pair.a.last_error()
    assert peers.state(3) == "failed"
    assert events.wakeups >= 0


def test_pool_is_shared(nic):
    pool = warpverbs.QueuePool(nic)
    endpoints = [warpverbs.Endpoint(nic, pool=pool, depth=64) for _ in range(4)]
    usage = pool.usage()
    assert usage.registers == 1 and 0 < usage.used_bytes <= usage.bytes
    del endpoints
    assert pool.usage().used_bytes < usage.used_bytes


def test_threads_share_an_endpoint(pair):
    """Calls exclude each other, so nothing is lost and nothing crashes."""
    target = numpy.zeros((4, 8), numpy.uint8)
    remote = warpverbs.Region(pair.nic, target, remote_write=True)

    def write(thread):
        source = numpy.full(8, thread + 1, numpy.uint8)
        with warpverbs.Region(pair.nic, source) as local:
            for _ in range(50):
                pair.a.write(local, remote.remote(8 * thread, 8), timeout=SOON)
                pair.a.describe(), pair.a.last_error(), pair.a.counters()

    for thread in [Background(write, thread) for thread in range(4)]:
        thread.result()
    assert target.tolist() == [[thread + 1] * 8 for thread in range(4)]


def test_child_may_not_use_what_the_parent_made(pair):
    def child():
        for call in (pair.a.info, pair.nic.ports, pair.remote.remote, lambda: pair.a.write(pair.local, pair.remote.remote())):
            with pytest.raises((warpverbs.ForkError, RuntimeError), match="forked from the one that made it"):
                call()
        with pytest.raises(warpverbs.ForkError):
            warpverbs.Endpoint(pair.nic)
        pair.a.close(), pair.remote.close(), pair.nic.close()
        own = Pair(warpverbs.Device())
        own.a.write(own.local, own.remote.remote(), timeout=SOON)
        assert (own.target == own.source).all()

    in_child(child)
    pair.a.write(pair.local, pair.remote.remote(), timeout=SOON)
    assert (pair.target == pair.source).all()


@pytest.fixture
def receiver(nic):
    """Two endpoints, of which `b` receives."""
    pair = Pair(nic, receive_depth=4)
    return pair


def test_message_arrives_in_the_memory_of_a_receive(receiver):
    pair = receiver
    pair.b.post_receive(pair.remote)
    pair.a.send(pair.local.local(0, 100), timeout=SOON)
    assert pair.b.receive(timeout=SOON) == warpverbs.Received(pair.remote, 100, None, False)
    assert (pair.target[:100] == pair.source[:100]).all() and (pair.target[100:] == 0).all()


def test_messages_take_receives_in_the_order_of_posting(receiver):
    pair = receiver
    places = [pair.remote.local(256 * number, 256) for number in range(4)]
    for round_ in range(3):
        for place in places:
            pair.b.post_receive(place)
        for number in range(4):
            pair.a.send(pair.local.local(number, 8 + number), imm=2**32 - 1 - number, timeout=SOON)
        for number, place in enumerate(places):
            assert pair.b.receive(timeout=SOON) == (place, 8 + number, 2**32 - 1 - number, False)
    assert pair.b.counters().receives_taken == 12


def test_write_with_immediate_data_takes_a_receive(receiver):
    pair = receiver
    spare = warpverbs.Region(pair.nic, bytearray(b"-" * 64))
    pair.b.post_receive(spare)
    pair.a.write(pair.local, pair.remote.remote(), imm=0x01020304, timeout=SOON)
    assert pair.b.receive(timeout=SOON) == (spare, 1024, 0x01020304, True)
    assert (pair.target == pair.source).all()
    with pytest.raises(ValueError, match="as immediate data: it has 32 bits"):
        pair.a.write(pair.local, pair.remote.remote(), imm=2**32)


def test_receive_waits_while_other_threads_send(receiver):
    pair = receiver
    pair.a.post_receive(pair.local)
    waiting = Background(pair.a.receive, timeout=None)
    pair.b.post_receive(pair.remote)
    pair.a.send(pair.local.local(0, 8), timeout=SOON)  # while it waits
    assert "RTS" == pair.a.state
    pair.b.send(pair.remote.local(0, 16), timeout=SOON)
    assert waiting.result().nbytes == 16
    assert pair.b.receive(timeout=SOON).nbytes == 8


def test_message_that_comes_before_its_receive_is_stored_has_its_memory(nic):
    posted, taken, go_on = threading.Event(), threading.Event(), threading.Event()

    class Slow(warpverbs.Endpoint):
        def _post_receive(self, local):
            index = super()._post_receive(local)
            posted.set()
            assert go_on.wait(SOON)
            return index

        def _receive(self, timeout):
            try:
                return super()._receive(timeout)
            finally:
                taken.set()

    pair = Pair(nic)
    a, b = warpverbs.Endpoint(nic), Slow(nic, receive_depth=4)
    a.connect(b.info()), b.connect(a.info())
    posting = Background(b.post_receive, pair.remote)
    assert posted.wait(SOON)
    a.send(pair.local.local(0, 8), timeout=SOON)
    receiving = Background(b.receive, timeout=SOON)
    assert taken.wait(SOON)
    go_on.set()
    assert receiving.result() == (pair.remote, 8, None, False)
    posting.result()


def test_receive_that_times_out_does_not_wait_for_a_send(receiver):
    pair = receiver
    sending = Background(pair.a.send, pair.local.local(0, 8), timeout=None)  # the peer has posted no receive
    while pair.a.counters().sends_posted == 0:
        time.sleep(0.001)
    polling = Background(pair.a.try_receive)
    assert polling.result() is None
    pair.b.post_receive(pair.remote)
    sending.result()


def test_waiting_receive_lets_other_calls_in(receiver):
    pair = receiver
    waiting = Background(pair.b.receive, timeout=None)
    for _ in range(4):
        pair.b.post_receive(pair.remote)
    assert pair.b.state == "RTS"
    pair.a.send(pair.local.local(0, 8), timeout=SOON)
    assert waiting.result().nbytes == 8


def test_posted_receive_keeps_its_region(receiver):
    pair = receiver
    pair.b.post_receive(warpverbs.Region(pair.nic, numpy.zeros(64, numpy.uint8)))
    gc.collect()
    pair.a.send(pair.local.local(0, 64), timeout=SOON)
    arrived = pair.b.receive(timeout=SOON)
    assert not arrived.memory.closed and arrived.nbytes == 64
    pair.b.post_receive(arrived.memory)
    gone = weakref.ref(arrived.memory)
    del arrived
    gc.collect()
    assert gone()
    pair.b.reset()
    gc.collect()
    assert not gone()


def test_receive_says_why_it_ends(nic, receiver):
    pair = receiver
    with pytest.raises(warpverbs.OperationTimeout, match="Cannot receive by QP .*look at the peer"):
        pair.b.receive(timeout=0.01)
    interrupted(pair.b.receive)
    for _ in range(4):
        pair.b.post_receive(pair.remote)
    with pytest.raises(warpverbs.OperationError, match="Take arrivals by receive"):
        pair.b.post_receive(pair.remote)
    waiting = Background(pair.b.receive, timeout=None)
    pair.b.abort()
    with pytest.raises(warpverbs.OperationError, match="aborted"):
        waiting.result()
    with pytest.raises(warpverbs.Error, match="receive queue"):
        warpverbs.Endpoint(nic).receive(timeout=0)


def test_message_longer_than_its_receive_fails_both_sides(receiver):
    pair = receiver
    pair.b.post_receive(pair.remote.local(0, 10))
    with pytest.raises(warpverbs.OperationError, match="remote"):
        pair.a.send(pair.local, timeout=SOON)
    with pytest.raises(warpverbs.OperationError, match="local length error"):
        pair.b.receive(timeout=SOON)
    for endpoint in (pair.a, pair.b):
        endpoint.reset()
    pair.connect()
    pair.b.post_receive(pair.remote)
    pair.a.send(pair.local, timeout=SOON)
    assert pair.b.receive(timeout=SOON).nbytes == 1024


def test_atomics_return_the_old_value(nic):
    pair = Pair(nic)
    words = numpy.array([5, 7], numpy.uint64)
    with warpverbs.Region(nic, words, remote_atomic=True) as region:
        first, second = region.remote(0, 8), region.remote(8)
        assert pair.a.fetch_add(first, 2**64 - 1, timeout=SOON) == 5
        assert pair.a.fetch_add(first, -3, timeout=SOON) == 4
        assert pair.a.compare_swap(second, 8, 1, timeout=SOON) == 7
        assert pair.a.compare_swap(second, 7, 2**63, timeout=SOON) == 7
        assert words.tolist() == [1, 2**63]
        with pytest.raises(ValueError, match="a word has 8 bytes at a multiple of 8"):
            pair.a.fetch_add(region.remote(4, 8), 1)


def test_threads_count_by_atomics(nic):
    word = numpy.zeros(1, numpy.uint64)
    pairs = [Pair(nic), Pair(nic)]
    with warpverbs.Region(nic, word, remote_atomic=True) as region:

        def count(pair):
            return [pair.a.fetch_add(region.remote(), 1, timeout=SOON) for _ in range(50)]

        seen = [thread.result() for thread in [Background(count, pair) for pair in pairs * 2]]
    assert sorted(sum(seen, [])) == list(range(200)) and word[0] == 200


def test_completions_are_shared(nic):
    ring = warpverbs.SharedCompletions(nic, depth=256, max_queues=2)
    assert ring.depth == 256 and ring.cqn
    pairs = []
    for _ in range(2):
        a, b = warpverbs.Endpoint(nic, completions=ring, depth=64), warpverbs.Endpoint(nic)
        a.connect(b.info()), b.connect(a.info())
        pairs.append((a, b))
    with pytest.raises(warpverbs.Error):
        warpverbs.Endpoint(nic, completions=ring)
    assert pairs[0][0].send_cqn == pairs[1][0].send_cqn == ring.cqn
    ring.close()  # the endpoints keep it
    del ring
    target = numpy.zeros((2, 8), numpy.uint8)
    with warpverbs.Region(nic, target, remote_write=True) as remote, warpverbs.Region(nic, b"12345678") as local:

        def write(number):
            for _ in range(100):
                pairs[number][0].write(local, remote.remote(8 * number, 8), timeout=SOON)

        for thread in [Background(write, number) for number in range(2)]:
            thread.result()
    assert target.tobytes() == b"12345678" * 2


def test_channel_tells_of_messages(nic):
    channel = warpverbs.CompletionChannel(nic)
    pairs = [Pair(nic, receive_depth=4) for _ in range(2)]
    for pair in pairs:
        channel.watch(pair.b)
        with pytest.raises(warpverbs.Error, match="a channel watches it already"):
            channel.watch(pair.b)
    assert channel.take() is None and pairs[0].b.try_receive() is None
    for round_ in range(20):
        pair = pairs[round_ % 2]
        for _ in range(2):
            pair.b.post_receive(pair.remote)
            pair.a.send(pair.local.local(0, 8), imm=round_, timeout=SOON)
        assert select.select([channel], [], [], SOON)[0] == [channel]
        assert channel.take() is pair.b and channel.take() is None
        for _ in range(2):
            assert pair.b.receive(timeout=SOON).imm == round_
        channel.arm(pair.b)


def test_channel_tells_of_a_message_that_came_before_it_was_armed(nic):
    channel, pair = warpverbs.CompletionChannel(nic), Pair(nic, receive_depth=4)
    channel.watch(pair.b)

    def send():
        pair.b.post_receive(pair.remote)
        pair.a.send(pair.local.local(0, 8), timeout=SOON)

    send()
    for _ in range(5):
        assert select.select([channel], [], [], SOON)[0] and channel.take() is pair.b
        assert pair.b.receive(timeout=SOON).nbytes == 8
        send()
        assert channel.take() is None
        channel.arm(pair.b)


def test_asyncio_waits_by_a_channel(nic):
    channel, pair = warpverbs.CompletionChannel(nic), Pair(nic, receive_depth=4)

    async def receive():
        come = asyncio.Event()
        asyncio.get_running_loop().add_reader(channel, come.set)
        channel.watch(pair.b)
        pair.b.post_receive(pair.remote)
        sender = Background(pair.a.send, pair.local.local(0, 8), timeout=SOON)
        await asyncio.wait_for(come.wait(), SOON)
        asyncio.get_running_loop().remove_reader(channel)
        sender.result()
        return channel.take().receive(timeout=SOON).nbytes

    assert asyncio.run(receive()) == 8


def test_channel_and_endpoints_end_in_any_order(nic):
    channel, pair = warpverbs.CompletionChannel(nic), Pair(nic, receive_depth=4)
    with pytest.raises(warpverbs.Error, match="it has no receive queue"):
        channel.watch(warpverbs.Endpoint(nic))
    with pytest.raises(warpverbs.Error, match="Call CompletionChannel.watch"):
        channel.arm(pair.b)
    channel.watch(pair.b)
    pair.b.post_receive(pair.remote)
    pair.a.send(pair.local.local(0, 8), timeout=SOON)
    assert select.select([channel], [], [], SOON)[0]
    pair.b.close()
    assert channel.take() is None  # its message went with it
    other = Pair(nic, receive_depth=4)
    channel.watch(other.b)
    channel.close()
    del channel
    gc.collect()
    other.b.post_receive(other.remote)
    other.a.send(other.local.local(0, 8), timeout=SOON)
    assert other.b.receive(timeout=SOON).nbytes == 8
