"""What the tests share. They run under softhca."""

import os
import signal
import threading
import traceback
import warnings

import numpy
import pytest

import warpverbs

SOON = 60  # seconds: the end of a wait that does not end by itself


def pytest_terminal_summary(terminalreporter):
    """Prints the counts as GoogleTest does, for tools/run_tests.py."""
    for name in ("passed", "skipped", "failed"):
        if count := len(terminalreporter.stats.get(name, ())):
            terminalreporter.write_line(f"[  {name.upper()}  ] {count} tests.")


@pytest.fixture(scope="session")
def nic():
    return warpverbs.Device()


class Pair:
    """Two connected endpoints, and memory of each."""

    def __init__(self, nic, **settings):
        self.nic = nic
        self.a = warpverbs.Endpoint(nic, **settings)
        self.b = warpverbs.Endpoint(nic, **settings)
        self.connect()
        self.source = numpy.arange(1024, dtype=numpy.uint8)
        self.target = numpy.zeros(1024, numpy.uint8)
        self.local = warpverbs.Region(nic, self.source)
        self.remote = warpverbs.Region(nic, self.target, remote_write=True, remote_read=True)

    def connect(self):
        self.a.connect(self.b.info())
        self.b.connect(self.a.info())


@pytest.fixture
def pair(nic):
    return Pair(nic)


class Background:
    """Runs a function in a thread, and returns or raises its result."""

    def __init__(self, function, *arguments, **named):
        self._result = self._error = None

        def run():
            try:
                self._result = function(*arguments, **named)
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def result(self):
        self._thread.join(SOON)
        assert not self._thread.is_alive(), "the thread did not end"
        if self._error is not None:
            raise self._error
        return self._result


def in_child(function):
    """Runs a function in a forked child, and fails if it raises or crashes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(SOON)
    _, status = os.waitpid(child, 0)
    signal.alarm(0)
    assert os.waitstatus_to_exitcode(status) == 0


def interrupted(function, *arguments, **named):
    """Checks that Ctrl-C ends a call that would wait for an hour."""
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        function(*arguments, **named, timeout=3600)
    timer.join()


@pytest.fixture
def tcp_pair():
    """Both ends of a connection."""
    with warpverbs.TcpListener("127.0.0.1") as listener:
        there = Background(listener.accept, SOON)
        here = warpverbs.TcpExchange.connect("127.0.0.1", listener.port, SOON)
        yield here, there.result()
