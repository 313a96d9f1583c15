#!/usr/bin/env python3
"""Checks the ports that run_pair.py chooses, and when it runs a pair again."""

import contextlib
import io
import socket
import unittest
from unittest import mock

import run_pair


class FreePort(unittest.TestCase):
    def test_returns_no_port_twice(self):
        ports = [run_pair.free_port() for _ in range(500)]
        self.assertEqual(len(set(ports)), len(ports))

    def test_returns_no_port_that_the_kernel_chooses(self):
        with open("/proc/sys/net/ipv4/ip_local_port_range") as text:
            first, last = map(int, text.read().split())
        if first < 32768:
            self.skipTest("the kernel chooses from other ports here")
        self.assertFalse(first <= run_pair.free_port() <= last)

    def test_returns_a_port_that_can_be_bound(self):
        with socket.socket() as server:
            server.bind((run_pair.HOST, run_pair.free_port()))


class Attempts(unittest.TestCase):
    def outcome(self, output, failures):
        """Returns the exit status if the first runs fail with this output, and the number of runs."""
        side = mock.Mock(command=["program"], output=lambda: output)
        runs = []

        def run(_arguments, sides):
            runs.append(sides)
            sides.append(side)
            if len(runs) <= failures:
                raise run_pair.Failure("no row")

        words = ["run_pair.py", "--nic", "mlx5_0", "--check", "perftest", "ib_write_bw"]
        with mock.patch("run_pair.run", run), mock.patch("sys.argv", words), contextlib.redirect_stdout(io.StringIO()):
            return run_pair.main(), len(runs)

    def test_runs_again_if_perftest_mistrusts_the_clock(self):
        self.assertEqual(self.outcome(run_pair.PERFTEST_CLOCK, 2), (0, 3))

    def test_gives_up_after_three_runs(self):
        self.assertEqual(self.outcome(run_pair.PERFTEST_CLOCK, 3), (1, 3))

    def test_does_not_repeat_any_other_failure(self):
        self.assertEqual(self.outcome("Failed status 12", 1), (1, 1))


if __name__ == "__main__":
    unittest.main()
