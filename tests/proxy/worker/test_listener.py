"""Accepting: a bounded share a turn, a pause instead of a spin when descriptors run out, a 503 at the limit."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from egressd.limits import ACCEPT_BATCH, ACCEPT_PAUSE_SECONDS, Limits
from egressd.worker.listener import Listener
from egressd.worker.poller import IN
from support.worker_rig import Rig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Rigs = Callable[..., Rig]


class ScriptedListener:
    """A listening socket whose `_accept` gives what the script says; its descriptor is a real one."""

    family = socket.AF_INET

    def __init__(self, real: socket.socket, script: list[int | OSError]) -> None:
        self._real = real
        self.script = script

    def fileno(self) -> int:
        return self._real.fileno()

    def detach(self) -> int:
        return self._real.detach()

    def setblocking(self, flag: bool) -> None:
        self._real.setblocking(flag)

    def setsockopt(self, *_options: int) -> None:
        """Nothing is inherited here."""

    def _accept(self) -> tuple[int, object]:
        if not self.script:
            raise BlockingIOError
        step = self.script.pop(0)
        if isinstance(step, OSError):
            raise step
        return step, ("127.0.0.1", 1)


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as made:
        yield made


@pytest.fixture
def clients(listening: socket.socket) -> Iterator[Callable[[], socket.socket]]:
    made: list[socket.socket] = []

    def client() -> socket.socket:
        sock = socket.socket()
        made.append(sock)
        sock.settimeout(5)
        sock.connect(listening.getsockname())
        return sock

    yield client
    for sock in made:
        sock.close()


@pytest.fixture
def made_rigs(listening: socket.socket, rigs: Rigs) -> Rigs:
    """Rigs that are closed before the listening socket is."""
    return rigs


@pytest.fixture
def rig(made_rigs: Rigs) -> Rig:
    return made_rigs()


@pytest.fixture
def listeners(made_rigs: Rigs) -> Iterator[Callable[..., Listener]]:
    """Listeners that are stopped at the test's end, as the worker does in a drain."""
    made: list[Listener] = []

    def listener(rig: Rig, sock: socket.socket | ScriptedListener) -> Listener:
        made.append(Listener(rig.core, rig.channel, sock))  # type: ignore[arg-type]
        return made[-1]

    yield listener
    for each in made:
        each.stop()


def accepted() -> int:
    """A descriptor as accept gives one."""
    ours, theirs = socket.socketpair()
    theirs.close()
    return ours.detach()


# The share


def test_one_turn_takes_a_share_and_leaves_the_rest_in_the_queue(
    rig: Rig, listeners: Callable[..., Listener], listening: socket.socket, clients: Callable[[], socket.socket]
) -> None:
    listener = listeners(rig, listening)
    for _ in range(ACCEPT_BATCH + 3):
        clients()

    listener.on_readable(IN)
    assert len(rig.core.connections) == ACCEPT_BATCH
    listener.on_readable(IN)

    assert len(rig.core.connections) == ACCEPT_BATCH + 3


def test_an_accept_with_nobody_there_does_nothing(
    rig: Rig, listeners: Callable[..., Listener], listening: socket.socket
) -> None:
    listener = listeners(rig, listening)

    listener.on_readable(IN)

    assert not rig.core.connections
    assert listener.pauses == 0


def test_a_client_that_left_before_it_was_accepted_costs_the_others_nothing(
    rig: Rig, listeners: Callable[..., Listener], listening: socket.socket
) -> None:
    gone = OSError(errno.ECONNABORTED, "aborted")
    listener = listeners(rig, ScriptedListener(listening, [gone, accepted(), gone]))

    listener.on_readable(IN)

    assert listener.pauses == 0
    rig.until(lambda: not rig.core.connections)  # its peer is gone, which its first read finds


def test_errors_alone_do_not_make_a_turn_endless(
    rig: Rig, listeners: Callable[..., Listener], listening: socket.socket
) -> None:
    script: list[int | OSError] = [OSError(errno.ECONNABORTED, "aborted") for _ in range(ACCEPT_BATCH + 5)]
    sock = ScriptedListener(listening, script)

    listeners(rig, sock).on_readable(IN)

    assert len(sock.script) == 5


# Descriptors and memory


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_the_listener_pauses_when_descriptors_or_memory_run_out_and_then_goes_on(
    rig: Rig,
    listeners: Callable[..., Listener],
    listening: socket.socket,
    clients: Callable[[], socket.socket],
    number: int,
) -> None:
    sock = ScriptedListener(listening, [OSError(number, "out of it"), accepted()])
    listener = listeners(rig, sock)
    listener.start()
    clients()

    rig.until(lambda: listener.pauses == 1)
    ready = sum(rig.turn() for _ in range(10))
    assert ready == 0, "a client waits, and the event set does not spin on it"
    assert len(sock.script) == 1
    rig.pass_time(ACCEPT_PAUSE_SECONDS - 0.1)
    assert rig.turn() == 0
    rig.pass_time(0.2)

    rig.until(lambda: not sock.script)
    assert listener.pauses == 1


def test_a_listener_that_is_stopped_during_its_pause_stays_stopped(
    rig: Rig, listeners: Callable[..., Listener], listening: socket.socket
) -> None:
    listener = Listener(
        rig.core,
        rig.channel,
        ScriptedListener(listening, [OSError(errno.EMFILE, "x")]),  # type: ignore[arg-type]
    )
    listener.start()
    listener.on_readable(IN)

    listener.stop()
    rig.pass_time(2 * ACCEPT_PAUSE_SECONDS)

    assert rig.poller.handlers == {}
    assert len(rig.core.sweep) == 0


def test_a_bug_while_accepting_pauses_the_listener_and_nothing_else(
    rig: Rig,
    listeners: Callable[..., Listener],
    listening: socket.socket,
    clients: Callable[[], socket.socket],
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken() -> tuple[int, object]:
        raise KeyError("a bug")

    sock = ScriptedListener(listening, [])
    sock._accept = broken  # type: ignore[method-assign]
    listener = listeners(rig, sock)
    listener.start()
    clients()

    rig.until(lambda: listener.pauses == 1)
    del sock._accept
    rig.pass_time(2 * ACCEPT_PAUSE_SECONDS)
    sock.script.append(accepted())
    rig.until(lambda: not sock.script)

    assert rig.poller.faults == 1
    assert "KeyError" in capsys.readouterr().err
    rig.poller.faults = 0


# The limit


@pytest.mark.case("G9")
def test_at_the_limit_the_next_client_gets_a_503_before_its_head_is_read(
    made_rigs: Rigs,
    listeners: Callable[..., Listener],
    listening: socket.socket,
    clients: Callable[[], socket.socket],
) -> None:
    rig = made_rigs(limits=Limits(connections_max=2))
    listeners(rig, listening).start()
    clients(), clients()
    rig.until(lambda: len(rig.core.connections) == 2)

    answer = rig.read_all(clients())

    assert answer.startswith(b"HTTP/1.1 503 ")
    assert answer.count(b"Proxy-Status:") == 1
    assert b"error=connection_limit_reached; reason=busy" in answer
    assert len(rig.core.connections) == 2
    [record] = rig.journal.lines
    assert (record["decision"], record["reason"], record["host"], record["method"]) == ("refused", "busy", None, None)


def test_a_place_that_is_free_again_is_given_away(
    made_rigs: Rigs,
    listeners: Callable[..., Listener],
    listening: socket.socket,
    clients: Callable[[], socket.socket],
) -> None:
    rig = made_rigs(limits=Limits(connections_max=1))
    listeners(rig, listening).start()
    first = clients()
    rig.until(lambda: len(rig.core.connections) == 1)
    first.close()
    rig.until(lambda: not rig.core.connections)

    clients()
    rig.until(lambda: len(rig.core.connections) == 1)

    assert rig.journal.lines == []


def test_a_tunnel_counts_against_the_limit(
    made_rigs: Rigs,
    listeners: Callable[..., Listener],
    listening: socket.socket,
    clients: Callable[[], socket.socket],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as origin:
        port = origin.getsockname()[1]
        rig = made_rigs(rules=f"127.0.0.1:{port}", limits=Limits(connections_max=1))
        listeners(rig, listening).start()
        clients().sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        rig.until(lambda: bool(rig.core.tunnels))

        answer = rig.read_all(clients())

    assert b"reason=busy" in answer
    assert len(rig.core.tunnels) == 1


# What becomes of a client


def test_a_head_that_is_there_already_is_read_in_the_same_turn(
    rig: Rig, listeners: Callable[..., Listener], listening: socket.socket, clients: Callable[[], socket.socket]
) -> None:
    listener = listeners(rig, listening)
    client = clients()
    client.sendall(b"CONNECT no.test:443 HTTP/1.1\r\nHost: no.test:443\r\n\r\n")

    listener.on_readable(IN)

    assert client.recv(1000).startswith(b"HTTP/1.1 403 ")


def test_an_accepted_socket_neither_blocks_nor_waits_for_more_to_send(
    rig: Rig, listeners: Callable[..., Listener], listening: socket.socket, clients: Callable[[], socket.socket]
) -> None:
    listener = listeners(rig, listening)
    clients()

    listener.on_readable(IN)

    [connection] = rig.core.connections
    assert not connection.sock.getblocking()
    assert connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert not os.get_inheritable(connection.sock.fileno())


def test_stopping_leaves_the_supervisors_socket_listening_and_the_event_set_quiet(
    rig: Rig, listening: socket.socket, clients: Callable[[], socket.socket]
) -> None:
    listener = Listener(rig.core, rig.channel, listening.dup())
    listener.start()

    listener.stop()
    clients()

    assert sum(rig.turn() for _ in range(5)) == 0
    assert not rig.core.connections
    taken, _ = listening.accept()
    taken.close()


def test_a_unix_socket_is_served_too(rig: Rig, listeners: Callable[..., Listener], tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix, socket.socket(socket.AF_UNIX) as client:
        unix.bind(str(tmp_path / "job.sock"))
        unix.listen()
        listener = Listener(rig.core, rig.channel, unix.dup())
        listener.start()
        client.connect(str(tmp_path / "job.sock"))
        client.sendall(b"CONNECT no.test:443 HTTP/1.1\r\nHost: no.test:443\r\n\r\n")

        answer = rig.read_all(client)

        listener.stop()
    assert b"reason=not-on-allowlist" in answer


def test_one_channel_among_several_does_not_take_all_connections(rigs: Rigs) -> None:
    rig = rigs(limits=Limits(connections_max=8))
    rig.core.channel_max = 4
    with socket.create_server(("127.0.0.1", 0)) as sock, ExitStack() as stack:
        listener = Listener(rig.core, rig.channel, sock.dup())
        stack.callback(listener.stop)
        listener.start()
        for _ in range(4):
            stack.enter_context(socket.create_connection(sock.getsockname()))
        rig.until(lambda: rig.channel.open == 4)
        with socket.create_connection(sock.getsockname()) as fifth:
            assert b"reason=busy" in rig.read_all(fifth)
    rig.until(lambda: rig.channel.open == 0)


def test_clients_that_still_read_their_refusal_count_as_connections(rigs: Rigs) -> None:
    rig = rigs(limits=Limits(connections_max=3))
    with socket.create_server(("127.0.0.1", 0)) as sock, ExitStack() as stack:
        listener = Listener(rig.core, rig.channel, sock.dup())
        stack.callback(listener.stop)
        listener.start()
        refused = [stack.enter_context(socket.create_connection(sock.getsockname())) for _ in range(3)]
        for client in refused:
            client.sendall(b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n")
        rig.until(lambda: len(rig.core.lingering) == 3)
        with socket.create_connection(sock.getsockname()) as fourth:
            assert b"reason=busy" in rig.read_all(fourth)
