"""What a channel remembers, and what makes it forget: verdicts, heads, answers, the last look after the dial."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from egress_policy.reasons import Reason, Refusal, Stage
from egressd.answers import Answers
from egressd.http_head import HeadReader, RequestHead
from egressd.judge import Allowed, Asked, read_request
from egressd.limits import REMEMBERED_HEADS_MAX, VERDICTS_MAX
from egressd.pinning import PinnedTarget, Place, pin
from egressd.worker.channel import Channel, Known, Route
from support.grants import grant

HERE = Place(ip_address("9.9.9.9"), ("9.9.9.9", 443))


def head(text: str) -> RequestHead:
    parsed = HeadReader().feed(text.replace("\n", "\r\n").encode() + b"\r\n\r\n")
    assert isinstance(parsed, RequestHead)
    return parsed


def asking(authority: str, *fields: str) -> tuple[RequestHead, Asked]:
    made = head("\n".join([f"CONNECT {authority} HTTP/1.1", f"Host: {authority}", *fields]))
    asked = read_request(made, frozenset())
    assert isinstance(asked, Asked)
    return made, asked


def channel_of(rules: str, **kwargs: object) -> Channel:
    channel = Channel("default", "tcp")
    channel.swap(grant(rules, **kwargs))  # type: ignore[arg-type]
    return channel


def judged(channel: Channel, authority: str, *fields: str, now: float = 0.0) -> Route:
    assert channel.grant is not None
    return channel.judge(*asking(authority, *fields), channel.grant, now)


def test_the_same_bytes_get_the_same_verdict_object_and_others_their_own() -> None:
    channel = channel_of("a.test")
    first = judged(channel, "a.test:443")
    assert isinstance(first.verdict, Allowed)
    assert judged(channel, "a.test:443") is first
    assert judged(channel, "A.test:443") is not first
    assert judged(channel, "a.test:443", "Oz0-Egress-Public-Only: 1") is not first


def test_public_only_is_part_of_what_is_remembered() -> None:
    channel = channel_of("", endpoints=("10.0.0.9:8888",))
    assert isinstance(judged(channel, "10.0.0.9:8888").verdict, Allowed)
    assert isinstance(judged(channel, "10.0.0.9:8888", "Oz0-Egress-Public-Only: 1").verdict, Refusal)
    assert isinstance(judged(channel, "10.0.0.9:8888").verdict, Allowed)


def test_a_swap_forgets_verdicts_and_heads() -> None:
    channel = channel_of("a.test")
    route = judged(channel, "a.test:443")
    channel.know(b"raw", Known(*asking("a.test:443"), route))
    channel.swap(grant("b.test"))
    assert channel.routes() == []
    assert channel.known == {}
    assert isinstance(judged(channel, "a.test:443").verdict, Refusal)


def test_a_verdict_lasts_only_to_the_end_of_a_time_limited_rule() -> None:
    channel = channel_of("a.test until=2026-01-01T00:00:00Z")
    before, after = 1_767_225_599.0, 1_767_225_601.0
    assert isinstance(judged(channel, "a.test:443", now=before).verdict, Allowed)
    assert isinstance(judged(channel, "a.test:443", now=after).verdict, Refusal)


def test_memory_is_bounded_whatever_names_a_job_chooses() -> None:
    channel = channel_of("")
    for number in range(VERDICTS_MAX + 10):
        judged(channel, f"n{number}.test:443")
    assert len(channel.routes()) <= VERDICTS_MAX
    made, asked = asking("a.test:443")
    route = judged(channel, "a.test:443")
    for number in range(REMEMBERED_HEADS_MAX + 10):
        channel.know(b"%d" % number, Known(made, asked, route))
    assert len(channel.known) <= REMEMBERED_HEADS_MAX


@pytest.mark.parametrize("field", ["Authorization: Bearer x", "Proxy-Authorization: Basic eA==", "Cookie: a=b"])
def test_heads_with_secrets_and_long_heads_are_not_kept(field: str) -> None:
    channel = channel_of("a.test")
    route = judged(channel, "a.test:443")
    made, asked = asking("a.test:443", field)
    channel.know(b"raw", Known(made, asked, route))
    plain, plainly_asked = asking("a.test:443")
    channel.know(b"r" * 5_000, Known(plain, plainly_asked, route))
    assert channel.known == {}


def test_the_last_look_passes_what_the_same_version_pinned() -> None:
    channel = channel_of("a.test")
    route = judged(channel, "a.test:443")
    assert isinstance(route.verdict, Allowed)
    pinned = pin(route.verdict, Answers((HERE.address,), 99.0), route.grant, now=0.0, unix_now=0.0)
    assert isinstance(pinned, PinnedTarget)
    route.pinned = pinned
    assert channel.recheck(route, *asking("a.test:443"), HERE, 0.0) is None


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("b.test", Reason.NOT_ON_ALLOWLIST),
        ("a.test\n! a.test", Reason.DENIED_BY_RULE),
        ("a.test\n! 9.9.9.0/24", Reason.RESOLVED_ADDRESS_DENIED),
        (None, Reason.POLICY_UNAVAILABLE),
    ],
)
def test_the_last_look_asks_the_policy_of_that_moment(rules: str | None, reason: Reason) -> None:
    channel = channel_of("a.test")
    route = judged(channel, "a.test:443")
    assert isinstance(route.verdict, Allowed)
    pinned = pin(route.verdict, Answers((HERE.address,), 99.0), route.grant, now=0.0, unix_now=0.0)
    assert isinstance(pinned, PinnedTarget)
    route.pinned = pinned
    channel.swap(None if rules is None else grant(rules))

    refusal = channel.recheck(route, *asking("a.test:443"), HERE, 0.0)

    assert refusal is not None
    assert (refusal.reason, refusal.stage) == (reason, Stage.PEER)


def test_a_rule_that_ended_during_the_dial_refuses_although_the_version_is_the_same() -> None:
    channel = channel_of("a.test until=2026-01-01T00:00:00Z")
    before, after = 1_767_225_599.0, 1_767_225_601.0
    route = judged(channel, "a.test:443", now=before)
    assert isinstance(route.verdict, Allowed)
    pinned = pin(route.verdict, Answers((HERE.address,), 99.0), route.grant, now=0.0, unix_now=before)
    assert isinstance(pinned, PinnedTarget)
    route.pinned = pinned
    refusal = channel.recheck(route, *asking("a.test:443"), HERE, after)
    assert refusal is not None
    assert refusal.reason is Reason.NOT_ON_ALLOWLIST


def test_the_bytes_of_a_refusal_are_made_once_for_its_verdict() -> None:
    channel = channel_of("")
    made, _asked = asking("a.test:443")
    route = judged(channel, "a.test:443")
    assert isinstance(route.verdict, Refusal)
    first = channel.answer(route.verdict, made, route)
    assert first.startswith(b"HTTP/1.1 403 ")
    assert channel.answer(route.verdict, made, route) is first
    other = Refusal(Reason.DIAL_FAILED, Stage.DIAL, route.verdict.target)
    assert b"dial-failed" in channel.answer(other, made, route)


def test_a_refusal_without_head_or_grant_still_has_its_answer() -> None:
    channel = Channel("default", "unix")
    answer = channel.answer(Refusal(Reason.BUSY, Stage.CHANNEL), None, None)
    assert answer.startswith(b"HTTP/1.1 503 ")
