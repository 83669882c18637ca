"""What a channel remembers: bounded, only while the grant and its time-limited rules stand, and never a secret."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from egress_policy.reasons import Reason, Refusal, Stage
from egressd.answers import Answers
from egressd.http_head import HeadReader, RequestHead
from egressd.judge import Allowed, Asked, read_request
from egressd.limits import REMEMBERED_HEAD_MAX_BYTES, REMEMBERED_HEADS_MAX, VERDICTS_MAX
from egressd.pinning import PinnedTarget, Place, pin
from egressd.worker.channel import ROUTE_KEY_MAX_BYTES, Channel, Known, Route, may_be_remembered
from support.grants import grant, target

if TYPE_CHECKING:
    from egressd.grants import Grant

PLACE = Place(ip_address("93.184.215.14"), ("93.184.215.14", 443))
ENDS = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.fixture
def channel() -> Channel:
    made = Channel("default", "tcp")
    made.swap(grant("a.test\n*.wild.test"))
    return made


def raw_head(authority: str, *fields: str) -> bytes:
    return "\r\n".join([f"CONNECT {authority} HTTP/1.1", f"Host: {authority}", *fields, "", ""]).encode()


def read(raw: bytes) -> tuple[RequestHead, Asked]:
    head = HeadReader().feed(raw)
    assert isinstance(head, RequestHead), head
    asked = read_request(head, frozenset())
    assert isinstance(asked, Asked), asked
    return head, asked


def current(channel: Channel) -> Grant:
    assert channel.grant is not None
    return channel.grant


def judge(channel: Channel, authority: str, *fields: str, now: float = 0.0) -> Route:
    head, asked = read(raw_head(authority, *fields))
    return channel.judge(head, asked, current(channel), now)


def remember(channel: Channel, raw: bytes) -> bool:
    """Offer a head to the memory; whether it is there then."""
    head, asked = read(raw)
    channel.know(raw, Known(head, asked, channel.judge(head, asked, current(channel), 0.0)))
    return raw in channel.known


# Heads


@pytest.mark.parametrize(
    ("field", "kept"),
    [
        ("Accept: */*", True),
        ("X-Authorization-Like: 1", True),
        ("Authorization: Bearer x", False),
        ("PROXY-AUTHORIZATION: Basic x", False),
        ("Cookie: a=b", False),
        ("Set-Cookie: a=b", False),
        ("Cookie:", False),
    ],
)
def test_a_head_with_credentials_or_cookies_is_not_kept(channel: Channel, field: str, kept: bool) -> None:
    assert remember(channel, raw_head("a.test:443", "User-Agent: x", field)) is kept


@pytest.mark.parametrize(("over", "kept"), [(0, True), (1, False)])
def test_a_long_head_is_not_kept(channel: Channel, over: int, kept: bool) -> None:
    bare = len(raw_head("a.test:443", "X: "))
    raw = raw_head("a.test:443", "X: " + "y" * (REMEMBERED_HEAD_MAX_BYTES - bare + over))

    assert len(raw) == REMEMBERED_HEAD_MAX_BYTES + over
    assert remember(channel, raw) is kept


def test_the_memory_of_heads_is_bounded(channel: Channel) -> None:
    for number in range(REMEMBERED_HEADS_MAX + 10):
        remember(channel, raw_head("a.test:443", f"X: {number}"))
        assert len(channel.known) <= REMEMBERED_HEADS_MAX

    assert len(channel.known) == 10


def test_a_refused_head_is_kept_too(channel: Channel) -> None:
    raw = raw_head("no.test:443")

    assert remember(channel, raw)
    assert isinstance(channel.known[raw].route.verdict, Refusal)


def test_a_swap_forgets_heads_and_verdicts(channel: Channel) -> None:
    remember(channel, raw_head("a.test:443"))
    assert (len(channel.known), len(channel.routes())) == (1, 1)

    channel.swap(grant("a.test"))

    assert (channel.known, channel.routes()) == ({}, [])


def test_may_be_remembered_looks_at_names_in_lower_case_as_heads_have_them() -> None:
    assert may_be_remembered(b"", ((b"accept", b"cookie"),))
    assert not may_be_remembered(b"", ((b"accept", b""), (b"cookie", b"")))


# Verdicts


def test_the_same_question_is_judged_once(channel: Channel) -> None:
    assert judge(channel, "a.test:443") is judge(channel, "a.test:443", "Accept: */*")


@pytest.mark.parametrize(
    ("authority", "field"), [("a.test:443", "Oz0-Egress-Public-Only: 1"), ("a.test:80", ""), ("b.test:443", "")]
)
def test_another_question_is_another_verdict(channel: Channel, authority: str, field: str) -> None:
    assert judge(channel, "a.test:443") is not judge(channel, authority, *filter(None, [field]))


def test_a_plain_request_is_remembered_by_its_target_and_never_by_its_path(channel: Channel) -> None:
    routes = []
    for path in ("/secret?q=1", "/other"):
        head, asked = read(f"GET http://a.test{path} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode())
        routes.append(channel.judge(head, asked, current(channel), 0.0))

    assert routes[0] is routes[1]
    assert b"secret" not in repr(list(channel._routes)).encode()


def test_methods_are_judged_apart() -> None:
    channel = Channel("default", "tcp")
    channel.swap(grant('methods = ["GET"]\na.test'))
    verdicts = []
    for method in ("GET", "POST"):
        head, asked = read(f"{method} http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".encode())
        verdicts.append(channel.judge(head, asked, current(channel), 0.0).verdict)

    assert isinstance(verdicts[0], Allowed)
    assert isinstance(verdicts[1], Refusal)
    assert verdicts[1].reason is Reason.METHOD_NOT_ALLOWED


def test_the_memory_of_verdicts_is_bounded(channel: Channel) -> None:
    for number in range(VERDICTS_MAX + 5):
        judge(channel, f"n{number}.wild.test:443")
        assert len(channel.routes()) <= VERDICTS_MAX

    assert len(channel.routes()) == 5


def test_a_very_long_target_is_judged_and_not_remembered(channel: Channel) -> None:
    head, asked = read(raw_head("a.test:443"))
    head = head._replace(target=b"a" * (ROUTE_KEY_MAX_BYTES + 1))

    assert isinstance(channel.judge(head, asked, current(channel), 0.0).verdict, Allowed)
    assert channel.routes() == []


# Time-limited rules


@pytest.fixture
def limited() -> Channel:
    made = Channel("default", "tcp")
    made.swap(grant("a.test until=2027-01-15T08:00:00Z\nforever.test"))
    return made


@pytest.mark.parametrize(("now", "allowed"), [(ENDS - 1, True), (ENDS, False), (ENDS + 1, False)])
def test_a_verdict_is_not_remembered_beyond_the_end_of_a_rule(limited: Channel, now: float, allowed: bool) -> None:
    first = judge(limited, "a.test:443", now=ENDS - 100)
    assert isinstance(first.verdict, Allowed)
    assert first.until == ENDS

    later = judge(limited, "a.test:443", now=now)

    assert isinstance(later.verdict, Allowed) is allowed
    assert (later is first) is allowed


def test_after_a_rules_end_what_has_no_end_goes_on(limited: Channel) -> None:
    judge(limited, "forever.test:443", now=ENDS - 1)

    assert isinstance(judge(limited, "forever.test:443", now=ENDS + 1).verdict, Allowed)


def test_without_time_limited_rules_a_verdict_has_no_end(channel: Channel) -> None:
    assert judge(channel, "a.test:443").until == float("inf")


# What stands


def permit(channel: Channel, authority: str = "a.test:443", place: Place = PLACE, now: float = 0.0) -> Refusal | None:
    _, asked = read(raw_head(authority))
    return channel.permits("CONNECT", asked, place, now)


def test_what_the_policy_still_allows_may_stand(channel: Channel) -> None:
    assert permit(channel) is None


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("b.test", Reason.NOT_ON_ALLOWLIST),
        ("a.test:80", Reason.PORT_NOT_ALLOWED),
        ("a.test\n! a.test", Reason.DENIED_BY_RULE),
        ("a.test\n! 93.184.215.0/24", Reason.RESOLVED_ADDRESS_DENIED),
    ],
)
def test_what_the_policy_does_not_allow_any_more_is_refused_at_the_peer(
    channel: Channel, rules: str, reason: Reason
) -> None:
    channel.swap(grant(rules))

    refusal = permit(channel)

    assert refusal is not None
    assert (refusal.reason, refusal.stage, refusal.target) == (reason, Stage.PEER, target("a.test:443"))


def test_without_a_grant_nothing_may_stand(channel: Channel) -> None:
    channel.swap(None)

    refusal = permit(channel)

    assert refusal is not None
    assert refusal.reason is Reason.POLICY_UNAVAILABLE


def test_what_a_time_limited_rule_allowed_may_not_stand_beyond_its_end(limited: Channel) -> None:
    assert permit(limited, now=ENDS - 1) is None
    assert permit(limited, now=ENDS) is not None


def pinned(channel: Channel, route: Route) -> PinnedTarget:
    assert isinstance(route.verdict, Allowed)
    return PinnedTarget(route.verdict.target, (PLACE,), route.verdict, current(channel), 60.0)


def test_the_version_that_pinned_an_address_is_not_asked_again_and_a_newer_one_is(channel: Channel) -> None:
    head, asked = read(raw_head("a.test:443"))
    route = judge(channel, "a.test:443")
    route.pinned = pinned(channel, route)
    assert channel.recheck(route, head, asked, PLACE, 0.0) is None

    channel.swap(grant("b.test"))

    refusal = channel.recheck(route, head, asked, PLACE, 0.0)
    assert refusal is not None
    assert refusal.reason is Reason.NOT_ON_ALLOWLIST


def test_a_pin_is_not_trusted_beyond_the_end_of_a_rule(limited: Channel) -> None:
    head, asked = read(raw_head("a.test:443"))
    route = judge(limited, "a.test:443", now=ENDS - 1)
    route.pinned = pinned(limited, route)

    assert limited.recheck(route, head, asked, PLACE, ENDS - 0.5) is None
    assert limited.recheck(route, head, asked, PLACE, ENDS) is not None


def test_without_a_pin_the_policy_is_asked(channel: Channel) -> None:
    head, asked = read(raw_head("a.test:443"))

    assert channel.recheck(judge(channel, "a.test:443"), head, asked, PLACE, 0.0) is None


# Answers


def answer(channel: Channel, raw: bytes, refusal: Refusal | None = None) -> bytes:
    head, asked = read(raw)
    route = channel.judge(head, asked, current(channel), 0.0)
    if refusal is None:
        assert isinstance(route.verdict, Refusal)
        refusal = route.verdict
    return channel.answer(refusal, head, route)


def test_the_bytes_of_a_refusal_are_made_once_for_a_verdict(channel: Channel) -> None:
    first = answer(channel, raw_head("no.test:443"))

    assert answer(channel, raw_head("no.test:443", "X: 1")) is first
    assert b"reason=not-on-allowlist" in first


def test_what_depends_on_accept_is_made_for_each_request(channel: Channel) -> None:
    bodies = {}
    for accept in ("application/json", "text/plain"):
        raw = f"GET http://no.test/ HTTP/1.1\r\nHost: no.test\r\nAccept: {accept}\r\n\r\n".encode()
        bodies[accept] = answer(channel, raw)

    assert b"application/json" in bodies["application/json"]
    assert b"application/json" not in bodies["text/plain"]
    assert [route.answer for route in channel.routes()] == [None]


def test_a_refusal_that_is_not_the_verdict_is_not_kept(channel: Channel) -> None:
    other = Refusal(Reason.DIAL_FAILED, Stage.DIAL, target("no.test:443"))

    assert b"reason=dial-failed" in answer(channel, raw_head("no.test:443"), other)
    assert [route.answer for route in channel.routes()] == [None]


def test_without_a_grant_and_a_head_there_is_still_an_answer() -> None:
    made = Channel("default", "tcp").answer(Refusal(Reason.POLICY_UNAVAILABLE, Stage.GRANT), None, None)

    assert made.startswith(b"HTTP/1.1 503 ")
    assert made.count(b"Proxy-Status:") == 1


def test_a_channel_begins_without_a_grant_and_names_itself() -> None:
    made = Channel("job-7", "unix")

    assert made.grant is None
    assert (made.tenant, made.plugin) == ("", "")
    assert '"channel":"job-7"' in made.source
    made.swap(grant("a.test", "b.test"))
    assert (made.tenant, made.plugin) == ("default", "web")
    assert '"version":7' in made.source


def test_verdicts_on_long_methods_are_not_remembered(channel: Channel) -> None:
    head, asked = read(b"M" * 5_000 + b" http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
    channel.judge(head, asked, current(channel), 0.0)
    assert channel.routes() == []


# What goes with a verdict, and what does not


def test_another_spelling_of_a_name_is_judged_by_itself(channel: Channel) -> None:
    first, other = judge(channel, "a.test:443"), judge(channel, "A.test:443")

    assert other is not first
    assert isinstance(other.verdict, Allowed)


def test_public_only_is_part_of_what_is_remembered() -> None:
    channel = Channel("default", "tcp")
    channel.swap(grant("", endpoints=("10.0.0.9:8888",)))

    verdicts = [judge(channel, "10.0.0.9:8888", *fields).verdict for fields in ((), ("Oz0-Egress-Public-Only: 1",), ())]

    assert [isinstance(verdict, Allowed) for verdict in verdicts] == [True, False, True]


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("b.test", Reason.NOT_ON_ALLOWLIST),
        ("a.test\n! a.test", Reason.DENIED_BY_RULE),
        ("a.test\n! 93.184.215.0/24", Reason.RESOLVED_ADDRESS_DENIED),
        (None, Reason.POLICY_UNAVAILABLE),
    ],
)
def test_the_last_look_asks_the_policy_of_that_moment(channel: Channel, rules: str | None, reason: Reason) -> None:
    route = judge(channel, "a.test:443")
    assert isinstance(route.verdict, Allowed)
    made = pin(route.verdict, Answers((PLACE.address,), 99.0), route.grant, now=0.0, unix_now=0.0)
    assert isinstance(made, PinnedTarget)
    route.pinned = made
    channel.swap(None if rules is None else grant(rules))

    refusal = channel.recheck(route, *read(raw_head("a.test:443")), PLACE, 0.0)

    assert refusal is not None
    assert (refusal.reason, refusal.stage) == (reason, Stage.PEER)
