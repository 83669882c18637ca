"""The resolver against a real DNS server: what it asks, what it makes of the answers, and what it remembers."""

from __future__ import annotations

import asyncio
import os
import time
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pycares
import pytest
import uvloop

from egressd.answers import Answers, ResolveFault
from egressd.limits import DNS_ANSWER_MAX_ADDRESSES, DNS_CACHE_MAX_NAMES, DNS_JOB_MAX_LOOKUPS
from egressd.worker import resolver as resolver_module
from egressd.worker.resolver import Resolver
from support.dns_server import DnsServer, Step, bind_pair
from support.lab_daemon import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

# The first loop of a process makes a pipe that libuv keeps for good; no single test is to be blamed for it.
uvloop.new_event_loop().close()

V4, V6 = "192.0.2.1", "2001:db8::1"
OTHER = "198.51.100.7"
# Long enough for a busy machine, short enough to wait for.
SHORT_SECONDS = 0.4
# A time at which nothing that was remembered before holds any more.
LATER_SECONDS = 301.0


class Asker:
    """A resolver on the running loop, with the means to wait for its results."""

    def __init__(self, servers: tuple[str, ...], timeout_seconds: float = 5.0) -> None:
        self.loop = asyncio.get_running_loop()
        self.start = time.monotonic()
        self.resolver = Resolver(servers, loop=self.loop, timeout_seconds=timeout_seconds, clock=lambda: self.start)

    async def ask(self, name: str, later: float = 0.0, owner: str | None = None) -> Answers | ResolveFault:
        """Look a name up, `later` seconds after the start by the resolver's clock."""
        done: asyncio.Future[Answers | ResolveFault] = self.loop.create_future()
        self.resolver.lookup(name, self.start + later, done.set_result, owner=owner)
        return await done

    async def addresses(self, name: str, later: float = 0.0) -> list[str]:
        result = await self.ask(name, later)
        assert isinstance(result, Answers), result
        return [str(address) for address in result.addresses]

    async def fault(self, name: str, later: float = 0.0) -> str:
        result = await self.ask(name, later)
        assert isinstance(result, ResolveFault), result
        return result.kind

    def cached(self, name: str, later: float = 0.0) -> list[str] | None:
        result = self.resolver.cached(name, self.start + later)
        return None if result is None else [str(address) for address in result.addresses]

    async def until(self, server: DnsServer, condition: Callable[[], bool]) -> None:
        """Wait for a condition on the server's questions, the loop running on."""
        await asyncio.to_thread(server.wait_until, condition)

    async def when(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition on the resolver."""
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 - the resolver tells nobody, and need not
                await asyncio.sleep(0.002)


@pytest.fixture
def dns() -> Iterator[DnsServer]:
    with DnsServer() as server:
        server.set_addresses("site.test", V4, V6)
        yield server


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Run a scenario with a resolver on either loop; afterwards the library's threads have closed what they opened."""

    def runner(
        scenario: Callable[[Asker], Coroutine[Any, Any, None]], servers: tuple[str, ...], timeout_seconds: float = 5.0
    ) -> None:
        before = len(list(Path("/proc/self/fd").iterdir()))

        async def call() -> None:
            asker = Asker(servers, timeout_seconds)
            try:
                await scenario(asker)
            finally:
                await asker.resolver.close()

        with asyncio.Runner(loop_factory=request.param) as loop:
            loop.run(call())
        wait_until(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before, "the library to close its sockets")

    return runner


# What is asked


def test_a_name_costs_one_question_of_each_family_by_its_absolute_name(
    dns: DnsServer, run: Callable[..., None]
) -> None:
    async def scenario(asker: Asker) -> None:
        assert await asker.addresses("site.test") == [V4, V6]
        assert await asker.fault("single") == "nxdomain"

    run(scenario, dns.addresses[:1])
    asked = [(question.name, question.type, question.transport) for question in dns.questions]
    assert sorted(asked) == [(name, kind, "udp") for name in ("single", "site.test") for kind in ("A", "AAAA")]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RES_OPTIONS", "use-vc rotate ndots:9 attempts:9 timeout:1"),
        ("LOCALDOMAIN", "search.test"),
        ("HOSTALIASES", "aliases"),
        ("CARES_HOSTS", "hosts"),
    ],
)
def test_the_environment_has_no_effect(
    variable: str,
    value: str,
    dns: DnsServer,
    run: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "aliases").write_text("alone other.test\n", encoding="ascii")
    (tmp_path / "hosts").write_text("127.0.0.66 alone\n", encoding="ascii")
    monkeypatch.setenv(variable, str(tmp_path / value) if (tmp_path / value).exists() else value)
    dns.set_addresses("other.test", OTHER)
    dns.set_addresses("alone.search.test", OTHER)

    async def scenario(asker: Asker) -> None:
        assert await asker.fault("alone") == "nxdomain"

    run(scenario, dns.addresses[:1])
    asked = [(question.name, question.type, question.transport) for question in dns.questions]
    assert sorted(asked) == [("alone", "A", "udp"), ("alone", "AAAA", "udp")]


def test_the_hosts_file_is_not_read(dns: DnsServer, run: Callable[..., None]) -> None:
    dns.set_addresses("localhost", OTHER)

    async def scenario(asker: Asker) -> None:
        assert await asker.addresses("localhost") == [OTHER]

    run(scenario, dns.addresses[:1])


@pytest.mark.case("C4")
def test_nothing_is_asked_but_by_a_look_up(dns: DnsServer, run: Callable[..., None]) -> None:
    async def scenario(asker: Asker) -> None:
        asker.resolver.set_hosts({"given.test": (OTHER,)})
        assert asker.cached("secret.site.test") is None
        assert await asker.addresses("given.test") == [OTHER]
        assert dns.total == 0

        # The first question that the server sees is the one that was meant.
        assert await asker.addresses("site.test") == [V4, V6]
        assert {question.name for question in dns.questions} == {"site.test"}

    run(scenario, dns.addresses[:1])


@pytest.mark.parametrize("place", [0, 1], ids=["IPv4", "IPv6"])
def test_a_name_server_has_a_port_in_either_family(place: int, dns: DnsServer, run: Callable[..., None]) -> None:
    async def scenario(asker: Asker) -> None:
        assert await asker.addresses("site.test") == [V4, V6]

    run(scenario, (dns.addresses[place],))


@pytest.mark.slow
def test_the_second_name_server_is_asked_when_the_first_is_silent(dns: DnsServer, run: Callable[..., None]) -> None:
    with DnsServer() as silent:
        silent.set_how("site.test", "drop")

        async def scenario(asker: Asker) -> None:
            assert await asker.addresses("site.test") == [V4, V6]

        run(scenario, (silent.addresses[0], dns.addresses[0]), 3.0)
        assert silent.count("site.test") >= 1


@pytest.mark.parametrize("server", ["ns.example", "1.2.3", "127.0.0.1:99999", "::1:5353:x", "ns.exämple", "[::1"])
def test_what_is_no_name_server_is_an_error_at_once(server: str, run: Callable[..., None]) -> None:
    async def scenario(asker: Asker) -> None:
        with pytest.raises(ValueError, match="name server"):
            Resolver((server,), loop=asker.loop)

    run(scenario, ("127.0.0.1",))


def test_without_name_servers_every_look_up_fails(run: Callable[..., None]) -> None:
    async def scenario(asker: Asker) -> None:
        assert await asker.fault("site.test") == "failed"
        assert asker.resolver.lookups == 0

    run(scenario, ())


@pytest.mark.parametrize("name", ["site..test", ".", "", "a" * 64 + ".test", "ſite.test", "a." * 140 + "test"])
def test_what_is_no_name_is_never_asked_for(name: str, dns: DnsServer, run: Callable[..., None]) -> None:
    async def scenario(asker: Asker) -> None:
        assert await asker.fault(name) == "failed"
        assert dns.total == 0

    run(scenario, dns.addresses[:1])


# What is made of the answers


def test_aliases_are_followed_within_the_answer(dns: DnsServer, run: Callable[..., None]) -> None:
    dns.set("www.test", "A", Step((V4,), chain=("cdn.test", "edge.test")))
    dns.set("www.test", "AAAA", Step((), chain=("cdn.test",)))

    async def scenario(asker: Asker) -> None:
        assert await asker.addresses("www.test") == [V4]
        assert {question.name for question in dns.questions} == {"www.test"}

    run(scenario, dns.addresses[:1])


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("nxdomain", "nxdomain"),
        ("answer", "nxdomain"),  # without an address
        ("servfail", "failed"),
        ("refused", "failed"),
        ("garbage", "failed"),
        ("wrong-name", "failed"),
        ("wrong-type", "failed"),
        ("drop", "timeout"),
        ("wrong-id", "timeout"),
        ("wrong-question", "timeout"),
    ],
)
def test_everything_but_an_answer_is_a_fault(how: str, kind: str, dns: DnsServer, run: Callable[..., None]) -> None:
    dns.set_how("odd.test", how, *(() if how == "answer" else (V4, V6)))

    async def scenario(asker: Asker) -> None:
        assert await asker.fault("odd.test") == kind
        assert asker.cached("odd.test") is None
        assert asker.resolver.failures == (kind != "nxdomain")

    run(scenario, dns.addresses[:1], SHORT_SECONDS)


@pytest.mark.parametrize("how", ["nxdomain", "servfail", "refused", "garbage", "wrong-name", "wrong-id", "drop"])
def test_a_family_that_fails_counts_as_none(how: str, dns: DnsServer, run: Callable[..., None]) -> None:
    dns.set("half.test", "A", Step((V4,)))
    dns.set("half.test", "AAAA", Step((V6,), how=how))

    async def scenario(asker: Asker) -> None:
        assert await asker.addresses("half.test") == [V4]
        assert asker.cached("half.test") == [V4]
        assert asker.resolver.failures == 0

    run(scenario, dns.addresses[:1], SHORT_SECONDS)


@pytest.mark.slow
def test_a_look_up_ends_within_its_time(dns: DnsServer, run: Callable[..., None]) -> None:
    dns.set_how("odd.test", "drop")

    async def scenario(asker: Asker) -> None:
        begun = time.monotonic()
        assert await asker.fault("odd.test") == "timeout"
        assert time.monotonic() - begun < SHORT_SECONDS + 1.0

    run(scenario, dns.addresses[:1], SHORT_SECONDS)


def test_a_name_server_that_is_not_there_is_a_failure(run: Callable[..., None]) -> None:
    pair = bind_pair("127.0.0.1", 0)
    port = pair[0].getsockname()[1]
    for sock in pair:
        sock.close()

    async def scenario(asker: Asker) -> None:
        assert await asker.fault("site.test") in {"failed", "timeout"}

    run(scenario, (f"127.0.0.1:{port}",), SHORT_SECONDS)


def test_a_truncated_answer_is_asked_for_again_over_tcp(dns: DnsServer, run: Callable[..., None]) -> None:
    dns.set_how("long.test", "truncated", V4, V6)

    async def scenario(asker: Asker) -> None:
        assert await asker.addresses("long.test") == [V4, V6]

    run(scenario, dns.addresses[:1])
    assert sorted((each.type, each.transport) for each in dns.questions) == [
        (kind, transport) for kind in ("A", "AAAA") for transport in ("tcp", "udp")
    ]


@pytest.mark.case("C7")
def test_a_name_may_have_hundreds_of_addresses_and_all_are_told(dns: DnsServer, run: Callable[..., None]) -> None:
    many = [f"192.0.{i // 250}.{i % 250}" for i in range(DNS_ANSWER_MAX_ADDRESSES)]
    dns.set_addresses("many.test", *many)
    dns.set_addresses("more.test", *many, OTHER)

    async def scenario(asker: Asker) -> None:
        assert await asker.addresses("many.test") == many
        assert await asker.fault("more.test") == "failed"  # never some of them

    run(scenario, dns.addresses[:1])


# What is remembered


@pytest.mark.parametrize(("ttl", "kept"), [(0, 1), (1, 1), (60, 60), (300, 300), (86_400, 300)])
def test_addresses_hold_for_their_ttl_within_bounds(
    ttl: int, kept: float, dns: DnsServer, run: Callable[..., None]
) -> None:
    dns.set_addresses("site.test", V4, V6, ttl=ttl)

    async def scenario(asker: Asker) -> None:
        result = await asker.ask("site.test")
        assert result == Answers((ip_address(V4), ip_address(V6)), asker.start + kept)
        assert asker.cached("site.test", kept - 0.01) == [V4, V6]
        assert asker.cached("site.test", kept) is None

    run(scenario, dns.addresses[:1])


@pytest.mark.case("C1", "C5")
def test_a_name_is_asked_for_once_while_its_ttl_lasts_and_anew_after_it(
    dns: DnsServer, run: Callable[..., None]
) -> None:
    dns.set_addresses("moved.test", V4, then=("127.0.0.1",), ttl=60)

    async def scenario(asker: Asker) -> None:
        assert await asker.addresses("moved.test") == [V4]
        assert await asker.addresses("moved.test", 59) == [V4]
        assert dns.count("moved.test") == 2
        assert await asker.addresses("moved.test", 60) == ["127.0.0.1"]
        assert dns.count("moved.test") == 4

    run(scenario, dns.addresses[:1])


@pytest.mark.case("C5")
@pytest.mark.parametrize("ttl", [301, 86_400, 2**31 - 1])
def test_the_librarys_own_memory_never_answers_beyond_our_bound(
    ttl: int, dns: DnsServer, run: Callable[..., None]
) -> None:
    dns.set_addresses("moved.test", V4, then=(OTHER,), ttl=ttl)

    async def scenario(asker: Asker) -> None:
        assert await asker.addresses("moved.test") == [V4]
        assert await asker.addresses("moved.test", LATER_SECONDS) == [OTHER]
        assert (dns.count("moved.test", "A"), dns.count("moved.test", "AAAA")) == (2, 2)

    run(scenario, dns.addresses[:1])


def test_a_name_that_was_not_there_is_asked_for_again_after_five_seconds(
    dns: DnsServer, run: Callable[..., None]
) -> None:
    # The server's SOA would let its "no such name" be kept for a day.
    for kind in ("A", "AAAA"):
        dns.set("new.test", kind, Step(how="nxdomain"), Step((V4,) if kind == "A" else ()))

    async def scenario(asker: Asker) -> None:
        assert await asker.fault("new.test") == "nxdomain"
        assert await asker.fault("new.test", 4.9) == "nxdomain"
        assert dns.count("new.test") == 2
        assert await asker.addresses("new.test", 5) == [V4]

    run(scenario, dns.addresses[:1])


def test_a_family_that_had_no_addresses_is_asked_for_again_with_the_other(
    dns: DnsServer, run: Callable[..., None]
) -> None:
    dns.set("grown.test", "A", Step((V4,), ttl=60))
    dns.set("grown.test", "AAAA", Step(()), Step((V6,)))

    async def scenario(asker: Asker) -> None:
        assert await asker.addresses("grown.test") == [V4]
        assert await asker.addresses("grown.test", 60) == [V4, V6]

    run(scenario, dns.addresses[:1])


def test_a_failure_is_remembered_for_a_second(dns: DnsServer, run: Callable[..., None]) -> None:
    dns.set_how("odd.test", "servfail")

    async def scenario(asker: Asker) -> None:
        assert await asker.fault("odd.test") == "failed"
        asked = dns.count("odd.test")
        assert await asker.fault("odd.test", 0.9) == "failed"
        assert dns.count("odd.test") == asked
        dns.set_addresses("odd.test", V4)
        assert await asker.addresses("odd.test", 1) == [V4]

    run(scenario, dns.addresses[:1])


@pytest.mark.case("C7")
def test_rotating_addresses_replace_each_other_and_do_not_pile_up(dns: DnsServer, run: Callable[..., None]) -> None:
    dns.set("turn.test", "A", *(Step((f"192.0.2.{i}",)) for i in range(5)))

    # The clock moves with the start, so that each answer is dated by its own time.
    async def moving(asker: Asker) -> None:
        for i in range(5):
            assert await asker.addresses("turn.test") == [f"192.0.2.{i}"]
            asker.start += LATER_SECONDS

    run(moving, dns.addresses[:1])


def test_at_most_so_many_names_are_remembered(
    dns: DnsServer, run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert DNS_CACHE_MAX_NAMES == 10_000
    monkeypatch.setattr(resolver_module, "DNS_CACHE_MAX_NAMES", 3)
    dns.set_addresses("*.many.test", V4)

    async def scenario(asker: Asker) -> None:
        # The library's memory is bounded as well: its channel is left after so many names.
        channels = set()
        for i in range(10):
            assert await asker.addresses(f"n{i}.many.test") == [V4]
            channels.add(id(asker.resolver._channel))
            assert len(asker.resolver._channel.asked) <= 3
        assert len(channels) > 1

    run(scenario, dns.addresses[:1])


def test_given_hosts_replace_the_look_up_until_they_are_replaced(dns: DnsServer, run: Callable[..., None]) -> None:
    async def scenario(asker: Asker) -> None:
        assert await asker.addresses("site.test") == [V4, V6]
        asker.resolver.set_hosts({"site.test": (OTHER, "::1")})
        assert asker.cached("site.test", 1e9) == [OTHER, "::1"]
        assert await asker.addresses("site.test", 1e9) == [OTHER, "::1"]
        asker.resolver.set_hosts({})
        assert asker.cached("site.test") == [V4, V6]

    run(scenario, dns.addresses[:1])


def test_a_host_given_what_is_no_address_has_none(dns: DnsServer, run: Callable[..., None]) -> None:
    async def scenario(asker: Asker) -> None:
        asker.resolver.set_hosts({"site.test": (OTHER, "127.1")})
        assert await asker.addresses("site.test") == []

    run(scenario, dns.addresses[:1])


# Who waits


def test_look_ups_of_one_name_share_one_question(dns: DnsServer, run: Callable[..., None]) -> None:
    dns.hold("site.test")

    async def scenario(asker: Asker) -> None:
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(asker.addresses("site.test")) for _ in range(50)]
            await asker.until(dns, lambda: dns.total == 2)
            dns.release()
        assert [task.result() for task in waiting] == [[V4, V6]] * 50
        assert (dns.total, asker.resolver.lookups) == (2, 1)

    run(scenario, dns.addresses[:1])


def test_who_has_given_up_is_not_called_and_the_others_are(dns: DnsServer, run: Callable[..., None]) -> None:
    dns.hold("site.test")

    async def scenario(asker: Asker) -> None:
        called: list[str] = []
        gone = asker.resolver.lookup("site.test", asker.start, lambda _: called.append("gone"))
        async with asyncio.TaskGroup() as group:
            stays = group.create_task(asker.addresses("site.test"))
            await asker.until(dns, lambda: dns.total == 2)
            gone.cancel()
            gone.cancel()
            dns.release()
        assert stays.result() == [V4, V6]
        assert called == []

    run(scenario, dns.addresses[:1])


def test_a_question_that_nobody_waits_for_any_more_is_still_good_for_the_next(
    dns: DnsServer, run: Callable[..., None]
) -> None:
    dns.hold("site.test")

    async def scenario(asker: Asker) -> None:
        for _ in range(20):
            asker.resolver.lookup("site.test", asker.start, lambda _: None).cancel()
        await asker.until(dns, lambda: dns.total == 2)
        dns.release()
        assert await asker.addresses("site.test") == [V4, V6]
        assert dns.total == 2

    run(scenario, dns.addresses[:1])


def test_a_known_result_comes_after_the_call_and_without_a_task(dns: DnsServer, run: Callable[..., None]) -> None:
    async def scenario(asker: Asker) -> None:
        await asker.addresses("site.test")
        called: list[Answers | ResolveFault] = []
        tasks = asyncio.all_tasks()
        asker.resolver.lookup("site.test", asker.start, called.append)
        cancelled = asker.resolver.lookup("site.test", asker.start, called.append)
        assert called == []
        assert asyncio.all_tasks() == tasks
        cancelled.cancel()
        assert await asker.addresses("site.test") == [V4, V6]
        assert len(called) == 1

    run(scenario, dns.addresses[:1])


def test_a_caller_that_fails_does_not_take_the_result_from_the_others(dns: DnsServer, run: Callable[..., None]) -> None:
    async def scenario(asker: Asker) -> None:
        told: list[str] = []
        asker.loop.set_exception_handler(lambda _, context: told.append(repr(context["exception"])))

        def fail(_: Answers | ResolveFault) -> None:
            raise RuntimeError("a bug")

        asker.resolver.lookup("site.test", asker.start, fail)
        assert await asker.addresses("site.test") == [V4, V6]
        assert told == ["RuntimeError('a bug')"]

    run(scenario, dns.addresses[:1])


def test_one_jobs_look_ups_wait_for_their_turn_and_nobody_elses(dns: DnsServer, run: Callable[..., None]) -> None:
    dns.set_addresses("*.slow.test", V4)
    names = [f"n{i}.slow.test" for i in range(DNS_JOB_MAX_LOOKUPS + 2)]
    for name in names:
        dns.hold(name)

    async def scenario(asker: Asker) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asker.ask(name, owner="greedy")) for name in names]
            await asker.until(dns, lambda: dns.total == 2 * DNS_JOB_MAX_LOOKUPS)
            # The server has seen a later question while those of the greedy one wait.
            assert isinstance(await asker.ask("site.test", owner="modest"), Answers)
            assert dns.count(names[-1]) == 0
            # Another job that wants a waiting name does not wait with it.
            shared = group.create_task(asker.ask(names[-1], owner="modest"))
            await asker.until(dns, lambda: dns.count(names[-1]) == 2)
            assert dns.count(names[-2]) == 0
            dns.release()
        assert all(isinstance(task.result(), Answers) for task in (*tasks, shared))
        assert dns.count(names[-1]) == 2
        assert len(asker.resolver._turns) == 0

    run(scenario, dns.addresses[:1])


def test_what_was_given_up_before_its_turn_is_never_asked(dns: DnsServer, run: Callable[..., None]) -> None:
    names = [f"n{i}.slow.test" for i in range(DNS_JOB_MAX_LOOKUPS)]
    for name in names:
        dns.hold(name)

    async def scenario(asker: Asker) -> None:
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(asker.ask(name, owner="greedy"))
            await asker.until(dns, lambda: dns.total == 2 * len(names))
            asker.resolver.lookup("gone.test", asker.start, lambda _: None, owner="greedy").cancel()
            dns.release()
        await asker.addresses("site.test")
        assert dns.count("gone.test") == 0
        assert await asker.fault("gone.test") == "nxdomain"

    run(scenario, dns.addresses[:1])


@pytest.mark.slow
def test_the_wait_for_a_turn_is_part_of_the_time(dns: DnsServer, run: Callable[..., None]) -> None:
    names = [f"n{i}.slow.test" for i in range(DNS_JOB_MAX_LOOKUPS)]
    for name in names:
        dns.set_how(name, "drop")

    async def scenario(asker: Asker) -> None:
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(asker.ask(name, owner="greedy")) for name in [*names, "site.test"]]
        kinds = {result.kind for task in waiting if isinstance(result := task.result(), ResolveFault)}
        assert kinds == {"timeout"}
        assert asker.resolver._questions == {}

    run(scenario, dns.addresses[:1], SHORT_SECONDS)


class Exhausted(Resolver):
    """A resolver for which the library can open no second channel."""

    def _open(self) -> Any:  # noqa: ANN401 - as the real one
        if self._servers == ("127.0.0.9",):
            raise pycares.AresError("no memory")
        return super()._open()


def test_a_channel_that_cannot_be_opened_is_a_failure_of_the_look_up(dns: DnsServer, run: Callable[..., None]) -> None:
    async def scenario(asker: Asker) -> None:
        await asker.resolver.close()
        asker.resolver = Exhausted(dns.addresses[:1], loop=asker.loop, clock=lambda: asker.start)
        assert await asker.addresses("site.test") == [V4, V6]
        asker.resolver._servers = ("127.0.0.9",)
        assert await asker.fault("site.test", LATER_SECONDS) == "failed"
        assert dns.total == 2

    run(scenario, dns.addresses[:1])


# Signs of life


@pytest.mark.slow
def test_silence_about_names_alone_does_not_make_the_name_servers_dead(
    dns: DnsServer, run: Callable[..., None]
) -> None:
    dns.set_how("*.black.test", "drop")

    async def scenario(asker: Asker) -> None:
        for i in range(4):
            await asker.fault(f"n{i}.black.test")
        await asker.until(dns, lambda: dns.count("", "NS") == 1)
        await asker.addresses("site.test")
        assert not asker.resolver.dead

    run(scenario, dns.addresses[:1], 0.1)


@pytest.mark.slow
def test_name_servers_that_say_nothing_are_dead_until_they_speak(
    dns: DnsServer, run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver_module, "DNS_PROBE_SECONDS", 0.01)
    dns.set("", "NS", *(Step(how="drop"),) * 4, Step())
    dns.set_how("*", "drop")

    async def scenario(asker: Asker) -> None:
        for i in range(3):
            assert not asker.resolver.dead
            await asker.fault(f"n{i}.test")
        await asker.when(lambda: asker.resolver.dead)
        await asker.when(lambda: not asker.resolver.dead)
        assert dns.count("", "NS") >= 5

    run(scenario, dns.addresses[:1], 0.1)


def test_closing_tells_everyone_who_waits(dns: DnsServer, run: Callable[..., None]) -> None:
    dns.hold("site.test")

    async def scenario(asker: Asker) -> None:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(asker.ask("site.test"))
            await asker.until(dns, lambda: dns.total == 2)
            await asker.resolver.close()
        assert isinstance(waiting.result(), ResolveFault)
        assert await asker.fault("site.test", LATER_SECONDS) == "failed"

    run(scenario, dns.addresses[:1])


def test_the_environment_is_cleared_of_what_the_library_obeys(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RES_OPTIONS", "use-vc")

    async def scenario(asker: Asker) -> None:
        assert asker.resolver is not None
        assert "RES_OPTIONS" not in os.environ

    run(scenario, ("127.0.0.1",))
