"""Runs third-party programs between the two sides of a lab: one is the server, the other the client."""
import contextlib
import subprocess

SECONDS = 25  # for one program

# Server and client command lines; {gid} is the side's own GID index, {peer} the other side's address.
CONNECTING = {
    "rping": ("rping -s -C 5 -V", "rping -c -C 5 -V -a {peer}"),
    "rping over IPv6": ("rping -s -C 5 -V -a ::", "rping -c -C 5 -V -a {peer6}"),
    "ib_write_bw -R": ("ib_write_bw -R -F -n 100 -s 8192", "ib_write_bw -R -F -n 100 -s 8192 {peer}"),
}
MEASURING = {
    "ib_write_lat": ("ib_write_lat -F -x {gid} -n 50", "ib_write_lat -F -x {gid} -n 50 {peer}"),
    "ib_write_bw": ("ib_write_bw -F -x {gid} -n 300 -s 65536", "ib_write_bw -F -x {gid} -n 300 -s 65536 {peer}"),
}
# Delays rdma_cm messages: perftest's server listens twice, its client does not wait for that, and an emulated
# processor is slow.
DELAY = ["--fault", "delay,qp=1,by=300ms"]


class InGuest:
    """Linux's rdma_rxe."""

    gid = 1  # RoCE v2 over IPv4

    def __init__(self, driver, number, peer):
        self.driver, (self.name, self.control) = driver, peer
        self.addresses = {"peer": f"10.77.0.{number}", "peer6": f"fd00:77::{number}"}

    def run(self, line):
        command = [self.driver, "run", self.control, line]
        return subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)

    @contextlib.contextmanager
    def serving(self, line):
        """Starts a server; yields a function that waits for its end and returns its output and exit status."""
        self.run(f"rm -f /tmp/status; (timeout {SECONDS} {line}; echo $? >/tmp/status) >/tmp/server 2>&1 &")
        wait = "for i in $(seq 50); do [ -e /tmp/status ] && break; sleep 0.1; done; cat /tmp/server; exit $(cat /tmp/status)"
        yield lambda: self.run(wait)
        self.run("killall -q " + line.split()[0])


class UnderSofthca:
    """softhca, in the network namespace of a tap."""

    gid = 3
    name = "softhca"
    addresses = {"peer": "10.77.0.2", "peer6": "fd00:77::2"}

    def __init__(self, launcher):
        self.launcher = launcher

    def run(self, line):
        command = [*self.launcher, *DELAY, "--", "sh", "-c", line]
        return subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)

    @contextlib.contextmanager
    def serving(self, line):
        command = ["timeout", "-s", "KILL", str(SECONDS), *self.launcher, "--", *line.split()]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:

            def wait():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    output, _ = server.communicate(timeout=10)
                    return subprocess.CompletedProcess(command, server.returncode, output)
                return subprocess.CompletedProcess(command, -1, "the server did not end")

            yield wait
            server.terminate()


def run(server, client, programs):
    """Yields each program's name, whether both sides succeeded, and the client's last line of output."""
    for name, (serve, call) in programs.items():
        serve = serve.format(gid=server.gid)
        call = call.format(gid=client.gid, **server.addresses)
        again = f"for i in $(seq 30); do timeout 20 {call} && exit 0; sleep 0.1; done; exit 1"  # the server needs a moment to start
        with server.serving(serve) as wait:
            called = client.run(f"timeout {SECONDS} sh -c '{again}'")
            served = wait()
        good = called.returncode == 0 and served.returncode == 0
        if not good:
            print(f"-- {client.name} printed:\n{called.stdout}{called.stderr or ''}-- {server.name} printed:\n{served.stdout}")
        table = [line for line in called.stdout.splitlines() if line.strip() and not line.startswith("---")]
        yield f"{name}, {client.name} to {server.name}", good, table[-1] if table else ""
