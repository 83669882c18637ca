"""Several workers of a real egressd: they share the load, and the death of one is nobody else's."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.lab_daemon import Daemon, wait_until
from support.lab_origin import Origin, Visit
from support.lab_wire import connect_request, read_head
from support.lab_world import World

pytestmark = pytest.mark.slow

ALL = {"default": "*:*\n"}
TWO = {"node": {"workers": 2}}
WORD = b"still here"
SERVES = re.compile(r"worker \d+ serves, ([0-9.]+) s after")


def echo(visit: Visit) -> None:
    while part := visit.stream.recv(65_536):
        visit.write(part)


def open_tunnel(world: World, daemon: Daemon, origin: Origin) -> socket.socket:
    client = daemon.connect()
    try:
        client.sendall(connect_request(f"{world.echo_name}:{origin.port}"))
        reply, _ = read_head(client)
        assert reply.status == 200, reply
    except BaseException:
        client.close()
        raise
    return client


def use_tunnel(world: World, daemon: Daemon, origin: Origin) -> None:
    """Send a word through a tunnel: when it is back, the worker has long counted the tunnel."""
    with open_tunnel(world, daemon, origin) as client:
        assert stands(client)


def stands(client: socket.socket) -> bool:
    """Whether a word through the tunnel comes back."""
    try:
        client.sendall(WORD)
        return client.recv(100) == WORD
    except ConnectionError:
        return False


def metric(daemon: Daemon, name: str, **labels: str) -> int:
    """The sum of a metric over every row that has these labels."""
    _, text = daemon.ask_admin("/metrics")
    found = 0.0
    for line in text.splitlines():
        key, _, value = line.rpartition(" ")
        rows = key == name or key.startswith(name + "{")
        if rows and all(f'{label}="{wanted}"' in key for label, wanted in labels.items()):
            found += float(value)
    return int(found)


def connects(daemon: Daemon) -> int:
    return metric(daemon, "egressd_requests_total", method="CONNECT", decision="allowed")


def kill(daemon: Daemon, pid: int) -> None:
    """Kill a worker, and wait until its place has another one that serves."""
    before = len(SERVES.findall(daemon.messages()))
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(SERVES.findall(daemon.messages())) > before, "the worker to be replaced")


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Hold a worker still, so that another one takes every new connection."""
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T", "it to stand still")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def held(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


@dataclass
class Load:
    """Clients that open a tunnel, say a word, and close it, again and again.

    Attributes:
        tunnels: Answered with 200.
        cut: Ended or reset before an answer, or without the word; what was on a worker that died.
        wrong: Everything else that was not as it should be.
    """

    tunnels: int = 0
    cut: int = 0
    wrong: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, world: World, daemon: Daemon, origin: Origin) -> None:
        while not self.ended.is_set():
            try:
                with daemon.connect() as client:
                    self._visit(client, f"{world.echo_name}:{origin.port}")
            except OSError as fault:  # nobody listens, or nobody answers
                self.wrong.append(repr(fault))

    def _visit(self, client: socket.socket, authority: str) -> None:
        try:
            client.sendall(connect_request(authority))
            reply, _ = read_head(client)
        except (ConnectionError, ValueError):
            self._count(0, 1)
            return
        if reply.status != 200:
            self.wrong.append(reply.line)
            return
        self._count(1, 0 if stands(client) else 1)

    def _count(self, tunnels: int, cut: int) -> None:
        with self._lock:
            self.tunnels += tunnels
            self.cut += cut


@contextmanager
def load(world: World, daemon: Daemon, origin: Origin, clients: int = 3) -> Iterator[Load]:
    made = Load()
    threads = [threading.Thread(target=made.run, args=(world, daemon, origin)) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made.ended.set()
        for thread in threads:
            thread.join()


def test_both_workers_serve_some_of_200_connections(loopback: World, folder: Path) -> None:
    with loopback.launch(folder, ALL, TWO) as daemon, ExitStack() as clients:
        before = {pid: held(pid) for pid in daemon.workers()}
        for _ in range(200):
            clients.enter_context(daemon.connect())
        wait_until(lambda: metric(daemon, "egressd_connections_open") == 200, "all to be accepted")
        # the resolver and the start of the daemon may open and close a few
        assert all(held(pid) > number + 5 for pid, number in before.items())


def test_a_killed_worker_takes_its_own_tunnels_with_it_and_nothing_else(loopback: World, folder: Path) -> None:
    with (
        loopback.launch(folder, ALL, TWO) as daemon,
        loopback.origin(echo) as origin,
        ExitStack() as stack,
    ):
        first, second = daemon.workers()
        clients = []
        for worker in (first, second):
            with stopped(second if worker == first else first):
                clients += [stack.enter_context(open_tunnel(loopback, daemon, origin)) for _ in range(20)]
                assert all(map(stands, clients[-20:]))
        moved = 40 * len(WORD)
        wait_until(lambda: metric(daemon, "egressd_tunnel_bytes_up_total") == moved, "all bytes to be reported")

        kill(daemon, first)

        assert [stands(client) for client in clients] == [False] * 20 + [True] * 20
        assert metric(daemon, "egressd_tunnel_ends_total", end="worker-died") == 20
        assert metric(daemon, "egressd_worker_deaths_total") == 1
        assert connects(daemon) == origin.accepted == 40
        moved += 20 * len(WORD)
        for name in ("egressd_tunnel_bytes_up_total", "egressd_tunnel_bytes_down_total"):
            wait_until(lambda name=name: metric(daemon, name) == moved, f"{name} to be {moved}")  # type: ignore[misc]
        wait_until(lambda: metric(daemon, "egressd_tunnels_open") == 20, "what was open to be released")
        status, health = daemon.ask_admin("/readyz")
        assert (status, [line for line in health["degraded"] if "SIGKILL" in line] != []) == (200, True)
        stack.enter_context(open_tunnel(loopback, daemon, origin))
        assert connects(daemon) == 41


def test_new_connections_go_on_while_a_worker_is_killed_and_totals_are_right(loopback: World, folder: Path) -> None:
    with loopback.launch(folder, ALL, TWO) as daemon, loopback.origin(echo) as origin:
        with load(loopback, daemon, origin) as clients:
            wait_until(lambda: clients.tunnels > 100, "the load to run")
            kill(daemon, daemon.workers()[0])
            so_far = clients.tunnels
            wait_until(lambda: clients.tunnels > so_far + 100, "the load to go on")
        assert clients.wrong == []
        assert clients.cut <= 3, "each client had one connection at the moment of the kill"
        wait_until(lambda: metric(daemon, "egressd_tunnels_open") == 0, "every tunnel to have ended")
        counted = connects(daemon)
        # what was cut may have been dialed, answered and counted already, or not yet
        assert abs(counted - clients.tunnels) <= clients.cut
        assert counted <= origin.accepted <= counted + clients.cut
        assert metric(daemon, "egressd_tunnel_ends_total") == counted


def test_ten_deaths_leave_nothing_behind_and_each_is_made_good_soon(loopback: World, folder: Path) -> None:
    with loopback.launch(folder, ALL, TWO) as daemon, loopback.origin(echo) as origin:
        use_tunnel(loopback, daemon, origin)
        daemon.ask_admin("/metrics")
        descriptors = held(daemon.process.pid)
        for death in range(10):
            kill(daemon, daemon.workers()[0])
            assert metric(daemon, "egressd_worker_deaths_total") == death + 1
            use_tunnel(loopback, daemon, origin)
        wait_until(lambda: held(daemon.process.pid) == descriptors, f"{descriptors} descriptors to be held again")
        assert len(daemon.workers()) == 2
        assert connects(daemon) == origin.accepted == 11
        # a busy machine may stretch single ones
        assert sorted(map(float, SERVES.findall(daemon.messages())))[4] < 1.0


def test_a_reload_while_a_worker_dies_is_in_force_in_every_worker(loopback: World, folder: Path) -> None:
    with loopback.launch(folder, {"default": "one.example:9\n"}, TWO) as daemon:
        daemon.set_list("default", "two.example:9\n")
        os.kill(daemon.workers()[0], signal.SIGKILL)
        daemon.reload()
        wait_until(lambda: "reload by SIGHUP: policy version 2" in daemon.messages(), "the reload")
        wait_until(lambda: SERVES.search(daemon.messages()), "the worker to be replaced")
        for _ in range(40):
            assert daemon.ask(connect_request("one.example:9")).reason == "not-on-allowlist"


def test_a_drain_in_which_a_worker_dies_ends_in_peace(loopback: World, folder: Path) -> None:
    with (
        loopback.launch(folder, ALL, TWO) as daemon,
        loopback.origin(echo) as origin,
        ExitStack() as stack,
    ):
        first, second = daemon.workers()
        with stopped(first):
            kept = stack.enter_context(open_tunnel(loopback, daemon, origin))
        with stopped(second):
            cut = stack.enter_context(open_tunnel(loopback, daemon, origin))
        daemon.process.terminate()
        wait_until(lambda: "draining" in daemon.messages(), "the drain")
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: first not in daemon.workers(), "its end")
        assert [stands(cut), stands(kept)] == [False, True]
        assert daemon.process.poll() is None
        kept.shutdown(socket.SHUT_WR)
        assert kept.recv(100) == b""
        assert daemon.process.wait(5) == 0
