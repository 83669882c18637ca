"""The worker's life on a real loop: the supervisor's frames over a real socket pair, and what comes of each."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
import uvloop

from egressd.control import ControlClosed, ControlSocket, Frame, encode
from egressd.snapshot import GrantSpec, ListText, Snapshot, to_json
from egressd.worker import service as service_module
from egressd.worker.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from egressd.worker.core import Core
    from egressd.worker.review import Review

WAIT_SECONDS = 5.0
OK = b"HTTP/1.1 200 Connection established\r\n\r\n"
# The first loop of a process makes a pipe that libuv keeps for good; no single test is to be blamed for it.
uvloop.new_event_loop().close()


def until(condition: Callable[[], bool]) -> None:
    """Wait for what the worker's thread does."""
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, "the condition did not come"
        time.sleep(0.001)


def descriptors() -> dict[int, str]:
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[int(entry.name)] = str(entry.readlink())
    return found


def snapshot(rules: str, version: int, **changes: object) -> dict[str, object]:
    """The value of a snapshot with one tenant on the channel `default`."""
    made = Snapshot(
        version=version,
        grants=(GrantSpec("default", lists=(ListText("tenant", "tenants/default.list", rules),)),),
        channels={"default": 0},
        own=("127.0.0.0/8", "::1/128"),
        unsafe_reach=("127.0.0.0/8",),
        hosts={"a.test": ("127.0.0.1",), "b.test": ("127.0.0.1",)},
    )
    value: dict[str, object] = json.loads(to_json(replace(made, **changes)))  # type: ignore[arg-type]
    return value


class Worker:
    """A service on a loop of its own, in a thread once `run`; the test is its supervisor."""

    def __init__(self, folder: Path) -> None:
        self._before = descriptors().keys()
        self.end, self._theirs = socket.socketpair()
        self.control = ControlSocket(self.end)
        self._theirs.setblocking(False)
        self.loop = uvloop.new_event_loop()
        self.service = Service(self.loop, self._theirs)
        self._thread: threading.Thread | None = None
        self._heard: list[Frame] = []
        self._records = folder / "records.jsonl"
        self._open: list[socket.socket] = []

    @property
    def core(self) -> Core:
        core = self.service._core
        assert core is not None
        return core

    # The supervisor's side

    def run(self) -> Worker:
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        return self

    def say(self, frame: str, /, *sent: int, **members: object) -> None:
        assert self.control.send({"type": frame, **members}, sent)

    def settle(self, **settings: object) -> None:
        """Send settings with a file for the records."""
        sink = os.open(self._records, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.say("settings", sink, **{"resolvers": [], "limits": {}, "log_required": False, **settings})
        os.close(sink)

    def listen(self, name: str = "default") -> tuple[str, int]:
        """Hand over a listening socket; its address. The supervisor keeps the socket open, as the real one does."""
        listening = socket.create_server(("127.0.0.1", 0))
        self._open.append(listening)
        self.say("listener", listening.fileno(), name=name, kind="tcp")
        address: tuple[str, int] = listening.getsockname()
        return address

    def load(self, rules: str, version: int = 1, **changes: object) -> None:
        self.say("snapshot", snapshot=snapshot(rules, version, **changes))
        assert self.hear("applied").message["version"] == version

    def hear(self, kind: str, wanted: Callable[[dict[str, object]], bool] = lambda _message: True) -> Frame:
        """The next frame of a kind that is as wanted; all others stay to be heard."""
        end = time.monotonic() + WAIT_SECONDS
        while True:
            for frame in self._heard:
                if frame.type == kind and wanted(frame.message):
                    self._heard.remove(frame)
                    return frame
            left = end - time.monotonic()
            assert left > 0, f"no {kind} was heard, but {self._heard}"
            select.select([self.end], [], [], left)
            self._heard += self.control.receive()

    def heard(self) -> list[str]:
        """The kinds of all that was not asked for yet, up to the end of the worker's life."""
        with contextlib.suppress(ControlClosed):
            while select.select([self.end], [], [], 0)[0]:
                self._heard += self.control.receive()
        return [frame.type for frame in self._heard]

    def ended(self) -> bool:
        """Whether the worker ends by itself."""
        assert self._thread is not None
        self._thread.join(WAIT_SECONDS)
        return not self._thread.is_alive()

    # Its clients' side

    def client(self, address: tuple[str, int], request: bytes = b"") -> socket.socket:
        sock = socket.socket()
        self._open.append(sock)
        sock.settimeout(WAIT_SECONDS)
        sock.connect(address)
        sock.sendall(request)
        return sock

    def records(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self._records.read_text().splitlines()]

    # The end of the process, done by hand

    def close(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            assert self.ended()
        for sock in self._open:
            sock.close()
        self.loop.remove_reader(self._theirs.fileno())
        self.loop.remove_writer(self._theirs.fileno())
        core, self.service._core = self.service._core, None  # its timer finds nothing any more
        self.loop.stop()  # with it goes a stop that was asked for twice: the first one ended the run
        self.loop.run_forever()
        faults = 0
        if core is not None:
            for listener in self.service._listeners:
                listener.stop()
            for tunnel in list(core.tunnels):
                tunnel.abort()
            for connection in list(core.connections):
                connection.abort()
            for linger in list(core.lingering):
                linger.abort()
            core.pool.clear()
            core.pipes.close()
            core.poller.close()
            faults = core.poller.faults
            self.loop.run_until_complete(core.resolver.close())
            sink = core.journal._descriptor
            if sink is not None:
                os.close(sink)
        self.loop.close()
        self._theirs.close()
        self.control.close()
        assert not faults
        # The DNS library closes what it had open in a thread of its own.
        until(lambda: descriptors().keys() <= self._before)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    made = Worker(tmp_path)
    yield made
    made.close()


@pytest.fixture
def origin() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(WAIT_SECONDS)
        yield made


def port_of(origin: socket.socket) -> int:
    port: int = origin.getsockname()[1]
    return port


def connect(name: str, port: int) -> bytes:
    return f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode()


def read_to_end(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(65_536), b""))


def start(worker: Worker, rules: str) -> tuple[str, int]:
    """A running worker with one listener and one list; the listener's address."""
    worker.run()
    worker.settle()
    address = worker.listen()
    worker.load(rules)
    return address


class Tunnel:
    """Both ends of a tunnel through the worker."""

    def __init__(self, worker: Worker, address: tuple[str, int], origin: socket.socket, name: str = "a.test") -> None:
        self.client = worker.client(address, connect(name, port_of(origin)))
        self.upstream, _ = origin.accept()
        self.upstream.settimeout(WAIT_SECONDS)
        worker._open.append(self.upstream)
        assert self.client.recv(len(OK), socket.MSG_WAITALL) == OK

    def carries(self) -> bool:
        self.client.sendall(b"ping")
        there = self.upstream.recv(4, socket.MSG_WAITALL)
        self.upstream.sendall(b"pong")
        return (there, self.client.recv(4, socket.MSG_WAITALL)) == (b"ping", b"pong")

    def is_cut(self) -> bool:
        try:
            return self.client.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.client.close()
        self.upstream.close()


# From settings to a tunnel


def test_settings_then_a_listener_then_a_snapshot_make_a_connect_work(worker: Worker, origin: socket.socket) -> None:
    address = start(worker, f"a.test:{port_of(origin)}")
    worker.hear("listening")

    tunnel = Tunnel(worker, address, origin)
    assert tunnel.carries()
    tunnel.close()

    until(lambda: len(worker.records()) == 2)
    decision, close = worker.records()
    assert (decision["decision"], decision["version"], decision["channel"]) == ("allowed", 1, "default")
    assert (close["record"], close["bytes_up"], close["bytes_down"]) == ("close", 4, 4)


def test_nobody_is_accepted_before_the_first_snapshot(worker: Worker) -> None:
    worker.run()
    worker.settle()
    client = worker.client(worker.listen(), connect("no.test", 443))
    worker.hear("counts")
    assert select.select([client], [], [], 0)[0] == []
    assert "listening" not in worker.heard()

    worker.load("a.test")

    assert b"reason=not-on-allowlist" in read_to_end(client)
    assert worker.heard().count("listening") == 1


def test_a_listener_without_a_grant_refuses_everything(worker: Worker) -> None:
    worker.run()
    worker.settle()
    address = worker.listen("stranger")
    worker.load("a.test")

    assert b"reason=policy-unavailable" in read_to_end(worker.client(address, connect("a.test", 443)))


def test_a_listener_that_comes_later_is_served_at_once(worker: Worker) -> None:
    start(worker, "a.test")

    address = worker.listen()

    assert b"reason=not-on-allowlist" in read_to_end(worker.client(address, connect("no.test", 443)))


def test_two_listeners_of_one_name_share_their_channel(worker: Worker) -> None:
    worker.run()
    worker.settle()
    for address in (worker.listen(), worker.listen()):
        worker.client(address)
    worker.load("a.test")

    until(lambda: len(worker.core.connections) == 2)
    assert len({id(connection.channel) for connection in worker.core.connections}) == 1


def test_limits_that_the_operator_set_hold_and_unknown_ones_are_passed_over(worker: Worker) -> None:
    worker.run()
    worker.settle(limits={"head_max_bytes": 100, "no_such_limit": 1})
    address = worker.listen()
    worker.load("a.test")

    answer = read_to_end(worker.client(address, b"CONNECT a.test:443 HTTP/1.1\r\nX: " + b"y" * 200 + b"\r\n\r\n"))

    assert answer.startswith(b"HTTP/1.1 431 ")


def test_where_records_are_required_and_there_is_no_sink_requests_are_refused(worker: Worker) -> None:
    worker.run()
    worker.say("settings", log_required=True)
    address = worker.listen()
    worker.load("a.test")

    assert b"reason=busy" in read_to_end(worker.client(address, connect("a.test", 443)))


# Policy


BROKEN = [
    {"version": 2},
    {**snapshot("", 2), "own": ["127.0.0.1/8"]},
    {**snapshot("", 2), "channels": {"default": 7}},
    {**snapshot("", 2), "surprise": 1},
    [],
    None,
]


@pytest.mark.parametrize("broken", BROKEN, ids=["members", "network", "channel", "surprise", "list", "null"])
def test_a_broken_snapshot_is_refused_and_the_old_one_stays(
    worker: Worker, origin: socket.socket, capsys: pytest.CaptureFixture[str], broken: object
) -> None:
    start(worker, f"a.test:{port_of(origin)}")

    worker.say("snapshot", snapshot=broken)
    later = worker.listen()  # frames are taken in order: who is served there comes after the broken snapshot
    tunnel = Tunnel(worker, later, origin)

    assert tunnel.carries()
    assert "refuses a policy snapshot, the old one stays" in capsys.readouterr().err
    assert "applied" not in worker.heard()
    until(lambda: bool(worker.records()))
    assert worker.records()[0]["version"] == 1
    worker.load("", version=3)
    assert tunnel.is_cut()


def test_a_snapshot_before_the_settings_is_passed_over(worker: Worker) -> None:
    worker.run()
    worker.say("snapshot", snapshot=snapshot("a.test", 1))
    worker.settle()

    worker.load("a.test", version=2)

    assert worker.heard().count("applied") == 0


@pytest.mark.case("G11")
def test_a_swap_ends_what_is_not_allowed_any_more_and_leaves_the_rest(worker: Worker, origin: socket.socket) -> None:
    port = port_of(origin)
    address = start(worker, f"a.test:{port}\nb.test:{port}")
    kept, gone = Tunnel(worker, address, origin, "a.test"), Tunnel(worker, address, origin, "b.test")

    worker.load(f"a.test:{port}", version=2)

    assert gone.is_cut()
    assert kept.carries()
    assert b"reason=not-on-allowlist" in read_to_end(worker.client(address, connect("b.test", port)))
    until(lambda: len(worker.records()) == 4)
    assert [record["end"] for record in worker.records() if record["record"] == "close"] == ["rule-removed"]
    assert worker.records()[-1]["version"] == 2


def test_hosts_come_with_the_policy(worker: Worker, origin: socket.socket) -> None:
    address = start(worker, f"new.test:{port_of(origin)}")
    refused = read_to_end(worker.client(address, connect("new.test", port_of(origin))))
    assert b"reason=resolve-failed" in refused

    worker.load(f"new.test:{port_of(origin)}", version=2, hosts={"new.test": ("127.0.0.1",)})

    assert Tunnel(worker, address, origin, "new.test").carries()


class Clock:
    """The two clocks that the service reads."""

    def __init__(self, unix_now: float) -> None:
        self.unix_now = unix_now

    def time(self) -> float:
        return self.unix_now

    def monotonic(self) -> float:
        return time.monotonic()


def test_the_end_of_a_time_limited_rule_starts_a_review_once(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = 1_800_000_000.0, 1_800_000_060.0
    clock = Clock(first - 1)
    monkeypatch.setattr(service_module, "time", clock)
    service = worker.service
    rules = "a.test until=2027-01-15T08:00:00Z\nb.test until=2027-01-15T08:01:00Z\nc.test"
    service._take(Frame("settings", {"type": "settings"}))
    service._take(Frame("snapshot", {"type": "snapshot", "snapshot": snapshot(rules, 1)}))
    reviews: list[float] = []
    service._review = cast("Review", SimpleNamespace(start=lambda: reviews.append(clock.unix_now)))
    service._end_rules()

    for now in (first, first + 1, second - 1, second, second + 3600):
        clock.unix_now = now
        service._end_rules()

    assert reviews == [first, second]


def test_without_a_policy_no_rule_ends(worker: Worker) -> None:
    worker.service._end_rules()
    worker.service._take(Frame("settings", {"type": "settings"}))
    worker.service._end_rules()

    assert worker.service._review_due == float("inf")


# Counts and health


@pytest.mark.slow  # counts are told once a second
def test_counts_and_health_are_told(worker: Worker, origin: socket.socket) -> None:
    address = start(worker, f"a.test:{port_of(origin)}")
    tunnel = Tunnel(worker, address, origin)
    assert tunnel.carries()

    during = worker.hear("counts", lambda message: message["tunnels_open"] == 1).message
    tunnel.close()
    after = worker.hear("counts", lambda message: message["bytes_up"] == 4).message

    assert during["requests"] == [["default", "", "CONNECT", "allowed", "", 1]]
    assert during["connections_open"] == 1
    assert (after["tunnels_open"], after["connections_open"], after["bytes_down"]) == (0, 0, 4)
    assert sum(cast("dict[str, int]", after["tunnel_ends"]).values()) == 1
    zero = ("mixed_answers", "accept_pauses", "records_dropped", "faults", "dns_lookups", "dns_failures")
    assert [after[name] for name in zero] == [0] * len(zero)
    health = worker.hear("health").message
    assert (health["resolver_dead"], health["record_faults"]) == (False, 0)


def test_counts_that_have_not_changed_are_told_once(worker: Worker) -> None:
    worker.service._take(Frame("settings", {"type": "settings"}))
    core = worker.core
    assert worker.heard() == ["counts", "health"]

    worker.service._report(core)
    assert worker.heard() == ["counts", "health"]
    core.counts.mixed_answers += 1
    worker.service._report(core)

    assert worker.heard() == ["counts", "health", "counts", "health"]
    assert worker.hear("counts", lambda message: message["mixed_answers"] == 1).type == "counts"


def test_what_the_supervisor_does_not_read_yet_waits_and_comes_whole(worker: Worker) -> None:
    text = "x" * 2_000_000
    worker.service._say({"type": "counts", "text": text})
    worker.service._say({"type": "health"})
    assert worker.service._wants_write

    worker.run()

    assert worker.hear("counts").message["text"] == text
    worker.hear("health")
    until(lambda: not worker.service._wants_write)


def test_a_supervisor_that_is_gone_while_something_waits_for_it_ends_the_worker(worker: Worker) -> None:
    worker.service._say({"type": "counts", "text": "x" * 2_000_000})
    worker.end.close()

    worker.service._flush_control()

    assert worker.run().ended()


def test_a_supervisor_that_is_gone_when_it_is_told_ends_the_worker(worker: Worker) -> None:
    worker.end.close()

    worker.service._say({"type": "health"})

    assert worker.run().ended()


# The end


def test_a_drain_ends_idle_clients_at_once_and_lets_a_tunnel_finish(worker: Worker, origin: socket.socket) -> None:
    address = start(worker, f"a.test:{port_of(origin)}")
    tunnel = Tunnel(worker, address, origin)
    idle = worker.client(address)
    until(lambda: len(worker.core.connections) == 1)

    worker.say("drain", seconds=60)

    assert idle.recv(1) == b""
    late = worker.client(address, connect("a.test", port_of(origin)))
    assert tunnel.carries()
    assert select.select([late], [], [], 0)[0] == [], "nobody new is accepted"
    assert "drained" not in worker.heard()
    tunnel.close()
    worker.hear("drained")
    assert worker.ended()
    assert worker.records()[-1]["end"] in {"client-closed", "origin-closed", "reset"}


def test_a_drain_with_nothing_under_way_is_over_at_once(worker: Worker) -> None:
    start(worker, "a.test")

    worker.say("drain", seconds=60)

    worker.hear("drained")
    assert worker.ended()


def test_a_kept_client_in_the_middle_of_a_head_is_answered_with_draining(worker: Worker) -> None:
    address = start(worker, "a.test")
    client = worker.client(address, b"CONNECT a.test:443 HTTP/1.1\r\n")
    until(lambda: any(connection.started for connection in worker.core.connections))

    worker.say("drain", seconds=60)
    until(lambda: worker.core.draining)
    client.sendall(b"Host: a.test:443\r\n\r\n")

    answer = read_to_end(client)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"reason=draining" in answer
    client.close()
    assert worker.ended()


def test_the_deadline_of_a_drain_cuts_what_is_left(worker: Worker, origin: socket.socket) -> None:
    address = start(worker, f"a.test:{port_of(origin)}")
    tunnel = Tunnel(worker, address, origin)
    half = worker.client(address, b"CONNECT a.te")
    until(lambda: len(worker.core.connections) == 1)

    worker.say("drain", seconds=0.1)

    assert tunnel.is_cut()
    assert half.recv(1) == b""
    worker.hear("drained")
    assert worker.ended()
    assert worker.records()[-1]["end"] == "draining"
    last = worker.hear("counts", lambda message: bool(message["tunnel_ends"])).message
    assert (last["tunnel_ends"], last["tunnels_open"]) == ({"draining": 1}, 0), "the last counts have everything"


def test_a_drain_before_the_settings_ends_the_worker(worker: Worker) -> None:
    worker.run()

    worker.say("drain", seconds=60)

    assert worker.ended()


def test_stop_ends_tunnels_and_writes_their_records(worker: Worker, origin: socket.socket) -> None:
    address = start(worker, f"a.test:{port_of(origin)}")
    tunnel = Tunnel(worker, address, origin)

    worker.say("stop")

    assert worker.ended()
    assert tunnel.is_cut()
    assert worker.records()[-1]["end"] == "draining"


def test_the_end_of_the_supervisor_is_the_end_of_the_worker(worker: Worker, origin: socket.socket) -> None:
    address = start(worker, f"a.test:{port_of(origin)}")
    tunnel = Tunnel(worker, address, origin)

    worker.end.close()

    assert worker.ended(), "nobody would take policy away any more"
    assert tunnel.is_cut()


@pytest.mark.parametrize(
    "said", [b"\xff\xff\xff\xff", encode({"type": "stop"})[:4] + b"not json at all", encode({"type": "x", "fds": 1})]
)
def test_what_is_no_frame_ends_the_worker(worker: Worker, said: bytes) -> None:
    worker.run()

    worker.end.sendall(said)

    assert worker.ended()


# What should not come


def test_a_frame_that_nobody_knows_is_told_and_passed_over(worker: Worker, capsys: pytest.CaptureFixture[str]) -> None:
    worker.run()
    worker.say("surprise")
    worker.settle()

    worker.load("a.test")

    assert "does not know the frame 'surprise'" in capsys.readouterr().err


def test_a_listener_without_a_socket_is_told_and_passed_over(
    worker: Worker, capsys: pytest.CaptureFixture[str]
) -> None:
    worker.run()
    worker.settle()
    worker.say("listener", name="default", kind="tcp")

    worker.load("a.test")

    assert "without a socket" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["listener", "surprise", "snapshot", "drain"])
def test_the_descriptors_of_a_frame_that_is_passed_over_are_closed(worker: Worker, kind: str) -> None:
    worker.run()
    before = descriptors()
    members = {"name": "default", "kind": "tcp", "snapshot": {}, "seconds": 0}
    with socket.socket() as sent:
        worker.say(kind, sent.fileno(), **members)
    if kind != "drain":
        worker.say("stop")
    assert worker.ended()
    left = descriptors().keys() - before.keys()
    for descriptor in left:
        os.close(descriptor)

    assert not left


# Descriptors


def test_traffic_leaves_no_descriptor_behind(worker: Worker, origin: socket.socket) -> None:
    port = port_of(origin)
    address = start(worker, f"a.test:{port}")

    def traffic() -> None:
        Tunnel(worker, address, origin).close()
        for request in (connect("no.test", 443), b"nonsense\r\n\r\n"):
            client = worker.client(address, request)
            assert read_to_end(client)
            client.close()
        client = worker.client(address, f"GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n".encode())
        upstream, _ = origin.accept()
        with client, upstream:
            upstream.sendall(b"HTTP/1.0 200 OK\r\n\r\nok")
            upstream.shutdown(socket.SHUT_WR)
            assert read_to_end(client).endswith(b"ok")
        core = worker.core
        until(lambda: not (core.connections or core.tunnels or core.lingering))

    traffic()
    until(lambda: not worker.core.poller._retired)
    before = len(descriptors())
    for _ in range(5):
        traffic()

    until(lambda: len(descriptors()) == before)


@pytest.mark.slow
def test_the_program_itself_serves_and_ends_with_its_supervisor(origin: socket.socket, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
        program = subprocess.Popen(
            [sys.executable, "-m", "egressd.worker", "--control-fd", str(theirs.fileno())], pass_fds=[theirs.fileno()]
        )
        with program:
            theirs.close()
            control = ControlSocket(ours)
            with (tmp_path / "records.jsonl").open("ab") as sink:
                control.send({"type": "settings"}, [sink.fileno()])
                control.send({"type": "listener", "name": "default", "kind": "tcp"}, [listening.fileno()])
                control.send({"type": "snapshot", "snapshot": snapshot(f"a.test:{port_of(origin)}", 1)})
            client.settimeout(10)
            client.connect(listening.getsockname())
            client.sendall(connect("a.test", port_of(origin)))
            assert client.recv(len(OK), socket.MSG_WAITALL) == OK

            ours.close()

            assert program.wait(10) == 0
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == 2
