"""Programs of others between the two sides of a lab: one serves, the other calls, then the reverse."""
import contextlib
import subprocess

SECONDS = 25  # for one program

# What serves, what calls; both are told their own GID index and the address of the other.
CONNECTING = {
    "rping": ("rping -s -C 5 -V", "rping -c -C 5 -V -a {peer}"),
    "rping over IPv6": ("rping -s -C 5 -V -a ::", "rping -c -C 5 -V -a {peer6}"),
    "ib_write_bw -R": ("ib_write_bw -R -F -n 100 -s 8192", "ib_write_bw -R -F -n 100 -s 8192 {peer}"),
}
MEASURING = {
    "ib_write_lat": ("ib_write_lat -F -x {gid} -n 50", "ib_write_lat -F -x {gid} -n 50 {peer}"),
    "ib_write_bw": ("ib_write_bw -F -x {gid} -n 300 -s 65536", "ib_write_bw -F -x {gid} -n 300 -s 65536 {peer}"),
}
# A server of perftest listens twice by rdma_cm, and its client does not wait for that: an emulated processor needs time.
PATIENCE = ["--fault", "delay,qp=1,by=300ms"]


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
        """Yields what waits for the server's end and returns its output and whether it was a good one."""
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
        command = [*self.launcher, *PATIENCE, "--", "sh", "-c", line]
        return subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)

    @contextlib.contextmanager
    def serving(self, line):
        command = ["timeout", "-s", "KILL", str(SECONDS), *self.launcher, "--", *line.split()]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:

            def wait():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    output, _ = server.communicate(timeout=10)
                    return subprocess.CompletedProcess(command, server.returncode, output)
                return subprocess.CompletedProcess(command, -1, "it did not end")

            yield wait
            server.terminate()


def run(server, client, programs):
    """Yields for each program its name, whether both sides succeeded, and the last line that the client printed."""
    for name, (serve, call) in programs.items():
        serve = serve.format(gid=server.gid)
        call = call.format(gid=client.gid, **server.addresses)
        again = f"for i in $(seq 30); do timeout 20 {call} && exit 0; sleep 0.1; done; exit 1"  # the server takes a moment
        with server.serving(serve) as wait:
            called = client.run(f"timeout {SECONDS} sh -c '{again}'")
            served = wait()
        good = called.returncode == 0 and served.returncode == 0
        if not good:
            print(f"-- {client.name} printed:\n{called.stdout}{called.stderr or ''}-- {server.name} printed:\n{served.stdout}")
        table = [line for line in called.stdout.splitlines() if line.strip() and not line.startswith("---")]
        yield f"{name}, {client.name} calls {server.name}", good, table[-1] if table else ""
