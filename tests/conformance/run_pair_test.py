#!/usr/bin/env python3
"""Checks the ports that run_pair.py chooses."""

import socket
import unittest

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


if __name__ == "__main__":
    unittest.main()
