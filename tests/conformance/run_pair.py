"""Runs a program twice, as server and as client, and checks what both print.

    run_pair.py --softhca PATH | --nic NAME --check KIND [OPTION...] -- PROGRAM ARGS

Each side has a software HCA of its own, or both use a ConnectX. In ARGS and the environment, {nic} is replaced by the NIC's
name and {gid} by the index of its GID for RoCE v2, or of its first GID on InfiniBand; {port} in ARGS is the TCP or rdma_cm port,
and {host} the server's address.

PROGRAM gets its port by -p if no ARGS have {port}, or uses the port of --port. The arguments of --client, and the host at their
end if they have no {host}, make it a client. With a check of KILLS, one side is killed while it works, and the other side must
report it. With --ready, PROGRAM has neither port nor host: the client starts when the server has printed that line.
"""

import argparse
import os
import pathlib
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import typing

HOST = "127.0.0.1"
LISTENING = "0A"  # in /proc/net/tcp
POLL_SECONDS = 0.005
ROW = r"^ ?(\d+) +(\d+)((?:[ \t]+[\d.]+){2,})[ \t]*$"  # of perftest's table: size, iterations, figures


class Failure(Exception):
    """A failed check, with its reason."""


claims = []  # sockets whose names keep other runs of this script from a port


def free_port():
    """Returns a port that nobody uses, and that no other run takes while this process lives. Neither the kernel nor rdma_cm
    gives it to a program that leaves the choice to them."""
    while True:
        port = random.randrange(10000, 32768)
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0warpverbs/run_pair/{port}")
            with socket.socket() as probe:
                probe.bind((HOST, port))
        except OSError:
            claim.close()
        else:
            claims.append(claim)
            return port


def is_listening(port, by_rdma_cm):
    for table in () if by_rdma_cm else ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as lines:
                rows = [line.split() for line in list(lines)[1:]]
        except FileNotFoundError:  # no IPv6
            continue
        if any(row[1].endswith(f":{port:04X}") and row[3] == LISTENING for row in rows):
            return True
    with open("/proc/net/unix") as lines:  # softhca announces rdma_cm listeners here
        return any(re.search(rf"@softhca/\d+/listener/\d+/{port}/", line) for line in lines)


def gid_index(nic):
    port = pathlib.Path("/sys/class/infiniband", nic, "ports/1")
    if (port / "link_layer").read_text().strip() == "InfiniBand":
        return 0
    found = {}  # lowest index, by whether the GID is an IPv4 address
    for entry in (port / "gid_attrs/types").iterdir():
        try:
            if entry.read_text().strip() == "RoCE v2":
                of_ipv4 = (port / "gids" / entry.name).read_text().startswith("0000:0000:0000:0000:0000:ffff:")
                found[of_ipv4] = min(int(entry.name), found.get(of_ipv4, int(entry.name)))
        except OSError:  # an empty entry
            continue
    if not found:
        raise Failure(f"{nic} has no GID for RoCE v2. Give its network interface an address, and set it up")
    return found[max(found)]


class Side:
    """A process group of launcher and program, with their output in a file."""

    def __init__(self, role, command, environment):
        self.role = role
        self.command = command
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT, start_new_session=True)

    def output(self):
        descriptor = self.log.fileno()  # its position is the program's
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def wait_for(self, line, deadline):
        while not re.search(line, self.output(), re.M):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"the {self.role} did not start to work")
            time.sleep(POLL_SECONDS)

    def finish(self, deadline):
        try:
            return self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failure(f"the {self.role} did not end in time") from None

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def check_pingpong(output, _):
    """Checks that both directions arrived; with -c, unchanged."""
    if not re.search(r"^\d+ bytes in .* = [\d.]+ Mbit/sec$", output, re.M):
        raise Failure("the line with bytes and bandwidth is missing")
    if not re.search(r"^\d+ iters in .* usec/iter$", output, re.M):
        raise Failure("the line with iterations is missing")
    if "invalid data" in output:
        raise Failure("data arrived changed")


def check_perftest(output, rows):
    """Checks that the table has a row for every size, with a message rate or latency above zero."""
    table = re.findall(ROW, output, re.M)
    if len(table) != rows:
        raise Failure(f"the table has {len(table)} rows instead of {rows}")
    sizes = [int(size) for size, _, _ in table]
    if sizes != sorted(set(sizes)):
        raise Failure("the sizes do not ascend")
    if any(int(iterations) == 0 or float(figures.split()[-1]) <= 0 for _, iterations, figures in table):
        raise Failure("a row has a figure of zero")


def check_ucx(output, _):
    """Checks that the summary has iterations, latencies and rates above zero. Small messages' bandwidths round to 0."""
    final = re.search(r"^Final: +(\d+) +([\d.]+) .* (\d+)$", output, re.M)
    if final is None:
        raise Failure("the final line is missing")
    if any(float(figure) <= 0 for figure in final.groups()):
        raise Failure("the final line has a figure of zero")


def check_rping(output, _):
    """Checks that ten pings arrived unchanged."""
    if len(re.findall(r"^(?:server )?ping data: rdma-ping-\d+: \S+", output, re.M)) != 10:
        raise Failure("ten pings were expected")
    if "data mismatch" in output:
        raise Failure("data arrived changed")


def check_fi_pingpong(output, _):
    """Checks that the table has a row whose messages were all acknowledged."""
    rows = re.findall(r"^\S+ +(\d+) +=(\d+) +\S+ +[\d.]+s", output, re.M)
    if not rows or any(sent != acknowledged for sent, acknowledged in rows):
        raise Failure("messages are missing in the table")


def check_qperf(output, _):
    """Checks that each test that was asked for has a figure above zero."""
    figures = re.findall(r"^ +(?:bw|latency|msg_rate) += +([\d.]+) ", output, re.M)
    tests = re.findall(r"^(?!quit)\w+:$", output, re.M)
    if len(figures) != len(tests) or not tests or any(float(figure) <= 0 for figure in figures):
        raise Failure("a figure is missing or zero")


def check_rstream(output, _):
    """Checks that the table has a row with a rate above zero."""
    if not re.search(r"^\S+ +\S+ +\S+ +\S+ +\S+ +[\d.]+s +(?!0\.00 )[\d.]+ +[\d.]+$", output, re.M):
        raise Failure("the row with a rate is missing")


def check_iperf(output, _):
    """Checks that all bytes were transferred."""
    if not re.search(r" 20\.0 MBytes +[\d.]+ \wbits/sec$", output, re.M):
        raise Failure("the line with 20.0 MBytes is missing")


def check_status(output, _):
    """Checks that the program reports success."""
    if not re.search(r"^return status 0$", output, re.M):
        raise Failure("the line with status 0 is missing")


def check_success(output, _):
    """Checks that the program reports success."""
    if not re.search(r"^success$", output, re.M):
        raise Failure("the line with success is missing")


def check_nothing(_output, _rows):
    pass


# rping destroys its event channel when it is done. If its thread asks the channel for an event afterwards, it ends the program
# with status 255.
RPING_RACE = "rdma_get_cm_event: Bad file descriptor"

# perftest compares the processor's counter with the time of day. If they disagree, as they may on a busy machine, it prints this
# line, and no row or one of infinities.
PERFTEST_CLOCK = "Correlation coefficient r^2"
ATTEMPTS = 3

# Checks of the output of each kind of program: server's, client's.
CHECKS = {
    "pingpong": (check_pingpong, check_pingpong),
    "perftest": (check_nothing, check_perftest),
    "ucx": (check_nothing, check_ucx),
    "rping": (check_rping, check_rping),
    "status": (check_status, check_status),
    "fi_pingpong": (check_fi_pingpong, check_fi_pingpong),
    "qperf": (check_nothing, check_qperf),
    "rstream": (check_nothing, check_rstream),
    "iperf": (check_iperf, check_iperf),
    "success": (check_success, check_success),
}


class Kill(typing.NamedTuple):
    """Side to kill, when to kill it, and how the other side must end."""
    victim: str
    begun: str  # line of the client after which to kill
    reported: str  # line that the other side must print
    fails: bool  # whether the other side must fail


KILLS = {
    "perftest_server_killed": Kill("server", ROW, "Failed status 12", True),
    "rping_server_killed": Kill("server", r"^ping data", "client DISCONNECT EVENT", False),
    "rping_client_killed": Kill("client", r"^ping data", "server DISCONNECT EVENT", False),
}


def kill_one(kill, sides, deadline):
    sides[1].wait_for(kill.begun, deadline)
    victim, other = sorted(sides, key=lambda side: side.role != kill.victim)
    victim.end()
    status = other.finish(deadline)
    if kill.reported not in other.output() or (status != 0) != kill.fails:
        raise Failure(f"the {other.role} did not report that the {victim.role} is gone; it ended with status {status}")


def run(arguments, sides):
    deadline = time.monotonic() + arguments.deadline
    nic, gid = (arguments.nic, gid_index(arguments.nic)) if arguments.nic else ("mlx5_0", 3)
    port = arguments.port or free_port()
    values = {"{nic}": nic, "{gid}": str(gid), "{port}": str(port), "{host}": HOST}
    fill = lambda texts: [re.sub("{(nic|gid|port|host)}", lambda match: values[match[0]], text) for text in texts]
    environment = dict(os.environ, **dict(pair.split("=", 1) for pair in fill(arguments.env)))
    names_port = any("{port}" in text for text in (*arguments.program, *arguments.server, *arguments.client))
    chosen = [] if arguments.port or arguments.ready or names_port else ["-p", str(port)]
    host = [] if arguments.ready or any("{host}" in text for text in arguments.client) else [HOST]
    # stdbuf preloads its library after softhca's libraries: a sanitizer's must come first.
    launcher = [arguments.softhca, *arguments.softhca_option, "--"] if arguments.softhca else []
    command = [*launcher, "stdbuf", "-oL", *fill(arguments.program), *chosen]
    server = Side("server", command + fill(arguments.server), environment)
    sides.append(server)
    if arguments.ready:
        server.wait_for(arguments.ready, deadline)
    while not arguments.ready and not is_listening(port, arguments.rdma_cm):
        if server.process.poll() is not None:
            raise Failure("the server ended before it listened")
        if time.monotonic() > deadline:
            raise Failure("the server does not listen")
        time.sleep(POLL_SECONDS)
    client = Side("client", command + fill(arguments.client) + host, environment)
    sides.append(client)
    if arguments.check in KILLS:
        return kill_one(KILLS[arguments.check], sides, deadline)
    for side in (client, server):
        status = side.finish(deadline)
        if status != 0 and not (arguments.check == "rping" and RPING_RACE in side.output()):
            raise Failure(f"the {side.role} ended with status {status}")
    for side, check in zip(sides, CHECKS[arguments.check]):
        try:
            check(side.output(), arguments.rows)
        except Failure as failure:
            raise Failure(f"{side.role}: {failure}") from None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--softhca", metavar="PATH")
    where.add_argument("--nic", metavar="NAME")
    parser.add_argument("--softhca-option", action="append", default=[], metavar="OPTION")
    parser.add_argument("--check", required=True, choices=[*CHECKS, *KILLS])
    parser.add_argument("--server", type=shlex.split, default=[], metavar="ARGS", help="make PROGRAM a server")
    parser.add_argument("--client", type=shlex.split, default=[], metavar="ARGS", help="with a host, make PROGRAM a client")
    parser.add_argument("--port", type=int, metavar="N", help="fixed port of PROGRAM")
    parser.add_argument("--rdma-cm", action="store_true", help="the server must listen by rdma_cm, not by TCP")
    parser.add_argument("--ready", metavar="REGEX", help="line of a server that does not listen")
    parser.add_argument("--rows", type=int, default=1, metavar="N", help="rows of perftest's table")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--deadline", type=float, default=60, metavar="SECONDS")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    for attempt in range(1, ATTEMPTS + 1):
        sides = []
        try:
            run(arguments, sides)
            return 0
        except Failure as failure:
            if attempt < ATTEMPTS and any(PERFTEST_CLOCK in side.output() for side in sides):
                continue
            print(f"{arguments.program[0]}: {failure}")
            for side in sides:
                side.end()
                print(f"---- {side.role}: {' '.join(side.command)}\n{side.output()}")
            return 1
        finally:
            for side in sides:
                side.end()


if __name__ == "__main__":
    sys.exit(main())
