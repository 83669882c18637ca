"""Turns host names into addresses: asks the name servers, shares look-ups under way, and remembers within bounds.

The only module that names the DNS library. It asks for A and AAAA by absolute name and for nothing else: no search
domains, no hosts file, no environment, no resolv.conf, whatever the library would read by itself. What answers mean is
decided in `answers`; who may be reached, elsewhere. It never looks up a name by itself and never retries one.

The library keeps a cache of its own that cannot be switched off: a TTL of a day is served for an hour, and so is "no
such name". So each of its channels is asked for a name at most once; a name that is due again gets a new channel
(85 us, measured), and the old one is closed when its last answer is in. Since nothing is forgotten here before
`DNS_FAILURE_SECONDS`, that is at most about one channel a second, however many names there are.

Called by the worker's connections; runs on any asyncio loop.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

import aiodns
import pycares

from egress_policy.addresses import parse_address
from egress_policy.names import HostName, parse_name
from egress_policy.targets import Target, parse_authority
from egressd.answers import (
    TYPE_A,
    TYPE_AAAA,
    Answers,
    Failure,
    Found,
    Record,
    ResolveFault,
    combine,
    fixed,
    read_family,
)
from egressd.limits import (
    DNS_CACHE_MAX_NAMES,
    DNS_JOB_MAX_LOOKUPS,
    DNS_PROBE_SECONDS,
    DNS_TIMEOUT_SECONDS,
)
from egressd.worker.memory import Memory
from egressd.worker.pulse import Pulse
from egressd.worker.turns import Turns

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Hashable, Mapping

    _Response = asyncio.Future[pycares.DNSResult]

# What the library would obey without being told to: resolv.conf options, search domains, aliases, a hosts file.
_ENVIRONMENT = ("RES_OPTIONS", "LOCALDOMAIN", "HOSTALIASES", "CARES_HOSTS")
_FLAGS = pycares.ARES_FLAG_EDNS | pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_NOALIASES
# Each server is asked at most twice, the second time with twice the patience; so all tries fit into the whole.
_TRIES = 2
_SHARES = 3
_ROOT = "."
_NS = 2
_TYPES: dict[int, Literal["A", "AAAA", "NS"]] = {TYPE_A: "A", TYPE_AAAA: "AAAA", _NS: "NS"}
_FAMILIES = (TYPE_A, TYPE_AAAA)
_FAILURES = {
    aiodns.error.ARES_ENOTFOUND: Failure.NO_NAME,
    aiodns.error.ARES_ENODATA: Failure.NO_DATA,
    aiodns.error.ARES_ETIMEOUT: Failure.TIMEOUT,
}
# All other codes are words of a name server, if bad ones.
_SILENCE = frozenset({aiodns.error.ARES_ETIMEOUT, aiodns.error.ARES_ECONNREFUSED, aiodns.error.ARES_ECANCELLED})


class Lookup:
    """One caller's wait for a name; the question behind it may be shared."""

    __slots__ = ("on_done",)

    def __init__(self, on_done: Callable[[Answers | ResolveFault], None]) -> None:
        self.on_done: Callable[[Answers | ResolveFault], None] | None = on_done

    def cancel(self) -> None:
        """Stop waiting: `on_done` is not called any more. The question goes on, for the others and for the memory."""
        self.on_done = None

    def deliver(self, result: Answers | ResolveFault) -> None:
        """Hand over the result, once."""
        on_done, self.on_done = self.on_done, None
        if on_done is not None:
            on_done(result)


@dataclass(slots=True, eq=False)
class _Channel:
    """One channel of the library: the names it has been asked for, and how many answers it still owes."""

    dns: aiodns.DNSResolver
    asked: set[str] = field(default_factory=set)
    owes: int = 0


@dataclass(slots=True, eq=False)
class _Question:
    """One name being looked up, for everyone who waits for it; `outcomes` by record type, `owner` while it runs."""

    name: str
    waiting: list[Lookup] = field(default_factory=list)
    outcomes: dict[int, Found | Failure] = field(default_factory=dict)
    deadline: asyncio.TimerHandle | None = None
    owner: Hashable = None
    runs: bool = False
    heard: bool = False


class Resolver:
    """Names to addresses for one worker.

    Attributes:
        lookups: How many names were asked for at the name servers.
        failures: How many of them ended without an answer or with an odd one; "no such name" is not among them.
    """

    def __init__(
        self,
        servers: tuple[str, ...],
        *,
        loop: asyncio.AbstractEventLoop,
        timeout_seconds: float = DNS_TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open the first channel; nothing is asked.

        Args:
            servers: Name servers as `ip`, `ip:port` or `[ip]:port`. Without any, every look-up fails.
            timeout_seconds: For a whole look-up, both families and the wait for its turn.

        Raises:
            ValueError: A server is not written in one of these forms.
            pycares.AresError: No memory, or no descriptors.
        """
        wrong = [server for server in servers if not _is_server(server)]
        if wrong:
            raise ValueError(f"not name servers: {', '.join(wrong)}")
        for variable in _ENVIRONMENT:
            os.environ.pop(variable, None)
        self.lookups = 0
        self.failures = 0
        self._servers = servers
        self._loop = loop
        self._timeout = timeout_seconds
        self._clock = clock
        self._hosts: dict[str, Answers] = {}
        self._memory = Memory()
        self._questions: dict[str, _Question] = {}
        self._turns: Turns[_Question] = Turns(DNS_JOB_MAX_LOOKUPS)
        self._retired: set[_Channel] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._pulse = Pulse(loop, self._probe, seconds=DNS_PROBE_SECONDS)
        self._closed = False
        self._channel = self._open()

    def set_hosts(self, hosts: Mapping[str, tuple[str, ...]]) -> None:
        """Give names addresses that replace their look-up; a name with one that is no address has none."""
        self._hosts = {}
        for name, texts in hosts.items():
            addresses = tuple(address for text in texts if (address := parse_address(text)) is not None)
            self._hosts[name] = fixed(addresses if len(addresses) == len(texts) else ())

    # Asking

    def cached(self, name: str, now: float) -> Answers | None:
        """The addresses of a name that are known now.

        Args:
            name: Lower case, without the final dot.
            now: Seconds on the monotonic clock.
        """
        known = self._known(name, now)
        return known if isinstance(known, Answers) else None

    def _known(self, name: str, now: float) -> Answers | ResolveFault | None:
        return self._hosts.get(name) or self._memory.get(name, now)

    def lookup(
        self,
        name: str,
        now: float,
        on_done: Callable[[Answers | ResolveFault], None],
        *,
        owner: Hashable = None,
    ) -> Lookup:
        """Find the addresses of a name.

        Args:
            name: Lower case, without the final dot.
            now: Seconds on the monotonic clock.
            on_done: Called once with the result, from the loop and never before this returns; unless cancelled.
            owner: Who counts as one job for the bound of look-ups under way.
        """
        lookup = Lookup(on_done)
        known = self._known(name, now)
        if known is None and (self._closed or not self._servers or not _is_name(name)):
            known = ResolveFault("failed")
        if known is not None:
            self._loop.call_soon(lookup.deliver, known)
            return lookup
        question = self._questions.get(name)
        if question is None:
            question = self._questions[name] = _Question(name)
            question.deadline = self._loop.call_later(self._timeout, self._expire, question)
        question.waiting.append(lookup)
        if not question.runs:
            if self._turns.take(owner):
                self._start(question, owner)
            else:
                self._turns.wait(owner, question)
        return lookup

    def _start(self, question: _Question, owner: Hashable) -> None:
        question.runs = True
        question.owner = owner
        self.lookups += 1
        channel = self._channel_for(question.name)
        if channel is None:
            question.outcomes = dict.fromkeys(_FAMILIES, Failure.FAILED)
            self._loop.call_soon(self._finish, question)
            return
        for record_type in _FAMILIES:
            self._ask(channel, question.name, record_type, partial(self._on_answer, question, record_type))

    def _on_answer(self, question: _Question, record_type: int, answer: _Response) -> None:
        """One family's response is in, or the library has given it up."""
        outcome, heard = _outcome(question.name, record_type, answer)
        question.heard = question.heard or heard
        question.outcomes[record_type] = outcome
        if len(question.outcomes) == len(_FAMILIES):
            self._finish(question)

    def _expire(self, question: _Question) -> None:
        question.deadline = None
        self._finish(question)

    def _finish(self, question: _Question) -> None:
        """Tell everyone who waits, remember the result, and let the next one run; once."""
        if self._questions.get(question.name) is not question:
            return
        del self._questions[question.name]
        if question.deadline is not None:
            question.deadline.cancel()
        outcomes = question.outcomes
        result = combine(
            outcomes.get(TYPE_A, Failure.TIMEOUT), outcomes.get(TYPE_AAAA, Failure.TIMEOUT), now=self._clock()
        )
        if question.runs:
            self._memory.keep(question.name, result)
            self._count(question, result)
            self._let_next_run(question.owner)
        for lookup in question.waiting:
            self._loop.call_soon(lookup.deliver, result)

    def _let_next_run(self, owner: Hashable) -> None:
        """Give the turn to what waited longest and is still wanted."""
        while (question := self._turns.give_back(owner)) is not None:
            if question.runs or self._questions.get(question.name) is not question:
                continue  # started by another owner, or too late
            if any(lookup.on_done is not None for lookup in question.waiting):
                self._start(question, owner)
                return
            del self._questions[question.name]
            if question.deadline is not None:
                question.deadline.cancel()

    # The library

    def _open(self) -> _Channel:
        return _Channel(
            aiodns.DNSResolver(
                self._servers,
                self._loop,
                flags=_FLAGS,
                timeout=self._timeout / (_SHARES * max(len(self._servers), 1)),
                tries=_TRIES,
                lookups="b",
                resolvconf_path=os.devnull,
            )
        )

    def _channel_for(self, name: str) -> _Channel | None:
        """The channel to ask for a name, never one whose own cache may answer; None where none can be opened."""
        channel = self._channel
        if name in channel.asked or len(channel.asked) >= DNS_CACHE_MAX_NAMES:
            try:
                self._channel = self._open()
            except pycares.AresError:  # no memory, no descriptors
                return None
            if channel.owes:
                self._retired.add(channel)
            else:
                self._close(channel)
            channel = self._channel
        channel.asked.add(name)
        return channel

    def _ask(self, channel: _Channel, name: str, record_type: int, on_answer: Callable[[_Response], None]) -> None:
        channel.owes += 1
        answer = channel.dns.query_dns(name if name == _ROOT else f"{name}.", _TYPES[record_type])
        answer.add_done_callback(partial(self._settle, channel, on_answer))

    def _settle(
        self,
        channel: _Channel,
        on_answer: Callable[[_Response], None],
        answer: _Response,
    ) -> None:
        channel.owes -= 1
        if not channel.owes and channel in self._retired:
            self._retired.discard(channel)
            self._close(channel)
        on_answer(answer)

    def _close(self, channel: _Channel) -> None:
        task = self._loop.create_task(channel.dns.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # Signs of life

    @property
    def dead(self) -> bool:
        """Whether the name servers give no sign of life."""
        return self._pulse.dead

    def _count(self, question: _Question, result: Answers | ResolveFault) -> None:
        if isinstance(result, ResolveFault) and result.kind != "nxdomain":
            self.failures += 1
        if question.heard:
            self._pulse.heard()
        else:
            self._pulse.missed()

    def _probe(self, on_answer: Callable[[bool], None]) -> None:
        """Ask for the name servers of the root, which costs the one asked nothing and tells it nothing."""
        channel = self._channel_for(_ROOT)
        if channel is None:
            self._loop.call_soon(on_answer, False)
        else:
            self._ask(channel, _ROOT, _NS, lambda answer: on_answer(_outcome(_ROOT, _NS, answer)[1]))

    # The end

    async def close(self) -> None:
        """Close every channel; who still waits gets a fault."""
        self._closed = True
        self._pulse.stop()
        for question in list(self._questions.values()):
            self._finish(question)
        for channel in (self._channel, *self._retired):
            self._close(channel)
        self._retired.clear()
        for task in list(self._closing):
            await task


def _is_server(text: str) -> bool:
    if parse_address(text) is not None:
        return True
    target = parse_authority(text.encode("ascii", "backslashreplace"))
    return isinstance(target, Target) and not isinstance(target.host, HostName)


def _is_name(text: str) -> bool:
    """Whether this is a name in its one form; callers have such names only, and nothing else is ever asked for."""
    name = parse_name(text)
    return isinstance(name, HostName) and name.text == text


def _outcome(name: str, record_type: int, answer: _Response) -> tuple[Found | Failure, bool]:
    """What a future of the library holds, and whether a name server has said anything."""
    if answer.cancelled():
        return Failure.FAILED, False
    error = answer.exception()
    if error is None:
        return read_family(name, record_type, [_record(row) for row in answer.result().answer]), True
    code = error.args[0] if isinstance(error, aiodns.error.DNSError) else None
    return _FAILURES.get(code, Failure.FAILED), code not in _SILENCE


def _record(row: pycares.DNSRecord) -> Record:
    """One record in our own terms; the data of types that nobody asked for does not matter."""
    match row.data:
        case pycares.ARecordData(addr=text) | pycares.AAAARecordData(addr=text) | pycares.CNAMERecordData(cname=text):
            return Record(row.name, row.type, row.record_class, row.ttl, text)
        case _:
            return Record(row.name, row.type, row.record_class, row.ttl, "")
