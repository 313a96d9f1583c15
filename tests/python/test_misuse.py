"""Nothing that a program does in Python ends the process."""

import copy
import gc
import os
import pathlib
import pickle
import resource
import subprocess
import sys
import threading

import numpy
import pytest

import warpverbs
from conftest import SOON, Background, Pair

CLOSEABLE = {
    "device": lambda nic: warpverbs.Device(),
    "endpoint": lambda nic: warpverbs.Endpoint(nic),
    "region": lambda nic: warpverbs.Region(nic, bytearray(64)),
    "event thread": lambda nic: warpverbs.EventThread(),
    "peers": lambda nic: warpverbs.PeerTable(2),
    "pool": lambda nic: warpverbs.QueuePool(nic),
    "channel": lambda nic: warpverbs.CompletionChannel(nic),
    "completions": lambda nic: warpverbs.SharedCompletions(nic),
    "listener": lambda nic: warpverbs.TcpListener("127.0.0.1"),
}


def members(one):
    """Names and values of the public members that need no argument."""
    for name in dir(one):
        if name.startswith("_") or name in ("close", "closed"):
            continue
        try:
            member = getattr(one, name)
        except warpverbs.ClosedError:
            yield name, True
            continue
        if callable(member):
            try:
                member()
            except warpverbs.ClosedError:
                yield name, True
            except TypeError:  # needs arguments
                continue
            else:
                yield name, False


@pytest.mark.parametrize("make", CLOSEABLE.values(), ids=CLOSEABLE)
def test_use_after_close_raises(nic, make):
    with make(nic) as one:
        assert not one.closed
        repr(one)
    assert one.closed
    one.close()
    repr(one)
    uses = dict(members(one))
    assert uses and all(uses.values()), uses


def test_closed_objects_are_no_arguments(nic):
    device, pool = warpverbs.Device(), warpverbs.QueuePool(nic)
    endpoint = warpverbs.Endpoint(nic)
    for one in (device, pool, endpoint):
        one.close()
    for call in (lambda: warpverbs.Endpoint(device), lambda: warpverbs.Region(device, bytearray(8)),
                 lambda: warpverbs.QueuePool(device), lambda: warpverbs.Endpoint(nic, pool=pool),
                 lambda: warpverbs.connect_all([endpoint], warpverbs.TcpListener())):
        with pytest.raises((warpverbs.ClosedError, TypeError)):
            call()


def test_what_an_endpoint_needs_lives_as_long_as_it():
    device, events, peers = warpverbs.Device(), warpverbs.EventThread(), warpverbs.PeerTable(2)
    pool = warpverbs.QueuePool(device)
    pair = Pair(device, events=events, peers=peers, pool=pool)
    for one in (device, pool, events, peers):
        one.close()
    del device, pool, events, peers
    pair.nic = None
    gc.collect()
    pair.a.write(pair.local, pair.remote.remote(), timeout=SOON)
    assert (pair.target == pair.source).all()


def test_region_outlives_its_device():
    device = warpverbs.Device()
    region = warpverbs.Region(device, bytearray(64))
    device.close()
    del device
    assert region.nbytes == 64


@pytest.mark.parametrize("type", [warpverbs.Endpoint, warpverbs.Region, warpverbs.Device, warpverbs.TcpListener])
def test_object_without_its_constructor_looks_closed(type):
    one = type.__new__(type)
    assert one.closed
    assert all(dict(members(one)).values())
    one.close()


def test_gpu_without_its_constructor_is_refused(nic):
    gpu = warpverbs.Gpu.__new__(warpverbs.Gpu)
    for use in (lambda: gpu.name, lambda: gpu.ordinal, lambda: repr(gpu), lambda: warpverbs.Endpoint(nic, gpu=gpu),
                lambda: warpverbs.PeerTable(2, gpu), lambda: warpverbs.SharedCompletions(nic, gpu=gpu)):
        with pytest.raises(warpverbs.ClosedError):
            use()


@pytest.mark.parametrize("make", CLOSEABLE.values(), ids=CLOSEABLE)
def test_objects_are_not_copied(nic, make):
    with make(nic) as one:
        for copier in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                copier(one)


def test_one_thread_closes_what_another_uses(nic):
    for _ in range(20):
        pair = Pair(nic)
        begun = threading.Event()

        def use():
            begun.set()
            try:
                while True:
                    pair.a.write(pair.local, pair.remote.remote(), timeout=SOON)
                    pair.a.describe()
            except warpverbs.Error:
                pass

        thread = Background(use)
        begun.wait(SOON)
        pair.a.close()
        pair.remote.close()
        thread.result()


def test_interpreter_ends_with_everything_open():
    program = """
import warpverbs, numpy, warpverbs.transport
nic = warpverbs.Device()
events = warpverbs.EventThread()
endpoint = warpverbs.Endpoint(nic, events=events, pool=warpverbs.QueuePool(nic))
region = warpverbs.Region(nic, numpy.zeros(100))
transport = warpverbs.transport.Transport()
transport.bind()
memory = transport.register(numpy.zeros(100))
wait = transport.wait_for_write()
print("end")
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=SOON)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_interpreter_ends_while_a_thread_waits():
    """The thread looks for signals while modules are destroyed."""
    program = """
import threading, time, warpverbs
listener = warpverbs.TcpListener("127.0.0.1")
threading.Thread(target=listener.accept, args=(None,), daemon=True).start()
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(0.3)
slow = Slow()
print("end")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SOON)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_interpreter_ends_while_calls_of_threads_return():
    """Python stops a thread that takes the GIL then, which must not end the program."""
    program = """
import sys, threading, time, warpverbs
listener = warpverbs.TcpListener("127.0.0.1")
def accept():
    while True:
        try:
            listener.accept(0.02)
        except warpverbs.Error:
            pass
for _ in range(4):
    threading.Thread(target=accept, daemon=True).start()
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(0.2)
sys.slow = Slow()
print("end")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SOON)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_time_of_a_setting_that_is_none_is_refused(seconds):
    with pytest.raises(ValueError, match="as port_down_grace: it is no time"):
        warpverbs.EventThread(port_down_grace=seconds)
    transport = pytest.importorskip("warpverbs.transport")
    with pytest.raises(ValueError, match="as connect_timeout: it is no time"):
        transport.Transport(connect_timeout=seconds)


def test_time_of_a_setting_may_be_infinite():
    warpverbs.EventThread(port_down_grace=float("inf"))
    with pytest.importorskip("warpverbs.transport").Transport(connect_timeout=float("inf")) as transport:
        transport.bind()


def test_package_without_a_module_for_this_python_says_so(tmp_path):
    package = tmp_path / "warpverbs"
    package.mkdir()
    for file in pathlib.Path(warpverbs.__file__).parent.glob("*.py"):
        (package / file.name).write_bytes(file.read_bytes())
    (package / "_core.cpython-30-x86_64-linux-gnu.so").touch()
    done = subprocess.run([sys.executable, "-c", "import warpverbs"], capture_output=True, text=True, timeout=SOON,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert f"Cannot import warpverbs from {package}: its module for this Python" in done.stderr
    assert "only _core.cpython-30-x86_64-linux-gnu.so" in done.stderr


def open_files():
    return len(os.listdir("/proc/self/fd"))


def test_thousand_times_leave_nothing(nic):
    """Creates and destroys everything; the first rounds fill caches."""
    memory = numpy.zeros(4096, numpy.uint8)

    def once(events):
        with warpverbs.Endpoint(nic, depth=16, receive_depth=16) as endpoint, warpverbs.Region(nic, memory) as region:
            region.local(), endpoint.info(), endpoint.counters()
            try:
                endpoint.connect("wrong")
            except warpverbs.Error:
                pass
        warpverbs.Endpoint(nic, depth=16, events=events)  # the second one of a round

    def many(times):
        events = warpverbs.EventThread()
        for _ in range(times):
            once(events)
        del events
        gc.collect()
        return open_files(), len(threading.enumerate()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(gc.get_objects())

    many(100)
    files, threads, kilobytes, objects = many(10)
    files_later, threads_later, kilobytes_later, objects_later = many(500)
    assert (files_later, threads_later) == (files, threads)
    assert objects_later - objects < 100
    assert kilobytes_later - kilobytes < 4096  # a page lost in each round would be 2000 KiB for each of them


def test_devices_are_opened_many_times():
    def once():
        with warpverbs.Device() as device:
            warpverbs.Region(device, bytearray(64))

    for _ in range(20):
        once()
    files = open_files()
    for _ in range(100):
        once()
    assert open_files() == files
