"""Stops in words: who decided, why, what allows it, and that another route is pointless."""

from __future__ import annotations

import pytest

from egress_policy.reasons import Reason
from egress_policy.rules import ListKind
from egress_policy.targets import Url, parse_url
from egress_policy.wire import GrantDocument, GrantList
from oz0_web.report import tell, tell_grant
from oz0_web.stops import POLICY_CODES, By, Code, Stop

GRANT = GrantDocument(
    job="job-1",
    tenant="acme",
    plugin="web",
    version=7,
    lists=(
        GrantList(kind=ListKind.TENANT, source="tenant", rules=("docs.python.org", "10.0.0.7:8080")),
        GrantList(kind=ListKind.PLUGIN, source="plugin", rules=()),
    ),
    endpoints=("searx.internal:8080",),
    limits={},
    command="oz0 tenant egress acme {host}",
)


def stop(code: Code, by: By, text: str = "https://new.example/page", **more: object) -> Stop:
    url = parse_url(text)
    assert isinstance(url, Url)
    return Stop(code=code, by=by, url=url.text, target=url.target, **more)  # type: ignore[arg-type]  # a test's shorthand


@pytest.mark.requirement("OZ-40")
@pytest.mark.parametrize("by", [By.LIST, By.PROXY])
def test_a_host_off_the_list_is_told_with_the_command_that_allows_it(by: By) -> None:
    told = tell(stop(Code.NOT_ALLOWED, by, reason="not-on-allowlist"), GRANT)

    assert "(not-on-allowlist): new.example:443: no rule allows this host." in told.text
    assert "oz0 tenant egress acme new.example" in told.text
    assert "not a network fault" in told.text
    assert (told.is_policy, told.is_retryable) == (True, False)


def test_without_a_grant_the_usual_command_is_named() -> None:
    told = tell(stop(Code.NOT_ALLOWED, By.PROXY, reason="not-on-allowlist"), None)

    assert "egressctl tenant TENANT allow new.example" in told.text


@pytest.mark.case("H23")
def test_a_refusal_names_the_proxy_and_never_the_site() -> None:
    told = tell(stop(Code.NOT_ALLOWED, By.PROXY, reason="not-on-allowlist"), GRANT)

    assert told.text.startswith("Refused by the egress proxy (not-on-allowlist): ")
    by_list = tell(stop(Code.NOT_ALLOWED, By.LIST, reason="not-on-allowlist"), GRANT)
    assert by_list.text.startswith("Refused by the egress policy as this job's grant shows it")


@pytest.mark.parametrize(
    ("text", "reason", "lifts"),
    [
        ("http://169.254.169.254/", "forbidden-address", False),
        ("http://127.0.0.1/", "forbidden-address", False),
        ("http://metadata.google.internal/", "forbidden-name", False),
        ("http://10.0.0.7/", "forbidden-address", True),
    ],
)
def test_the_floor_is_lifted_by_nothing_and_a_private_address_by_its_own_rule(
    text: str, reason: str, *, lifts: bool
) -> None:
    told = tell(stop(Code.NOT_PUBLIC, By.PROXY, text, reason=reason), GRANT)

    assert ("oz0 tenant egress" in told.text) is lifts
    assert ("No rule and no setting lifts this" in told.text) is not lifts


def test_an_unknown_reason_is_shown_as_it_is_with_the_general_advice() -> None:
    told = tell(stop(Code.PROXY_REFUSED, By.PROXY, reason="full-moon", detail="wait"), GRANT)

    assert "(full-moon; wait)" in told.text
    assert "do not look for another route" in told.text


def test_a_rule_that_decided_is_named_where_the_grant_shows_it() -> None:
    told = tell(stop(Code.NOT_ALLOWED, By.LIST, reason="denied-by-rule", rule="! new.example"), GRANT)

    assert "(denied-by-rule, rule ! new.example)" in told.text


@pytest.mark.parametrize("by", list(By))
@pytest.mark.parametrize("code", list(Code))
def test_every_kind_of_stop_has_a_sentence_of_its_own(code: Code, by: By) -> None:
    told = tell(stop(code, by, detail="some detail", chain=("https://first.example/",)), GRANT)

    assert told.text.endswith("Redirected: https://first.example/ → https://new.example/page.")
    assert told.is_policy is (code in POLICY_CODES)
    assert "None" not in told.text
    assert told.text.isprintable()


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_of_the_proxy_can_be_told(reason: Reason) -> None:
    told = tell(stop(Code.PROXY_REFUSED, By.PROXY, reason=reason.value), GRANT)

    assert reason.value in told.text
    assert told.text.isprintable()


@pytest.mark.parametrize(
    ("code", "reason", "retryable"),
    [
        (Code.PROXY_REFUSED, "busy", True),
        (Code.RESOLVE_FAILED, "resolve-failed", True),
        (Code.NOT_ALLOWED, "not-on-allowlist", False),
        (Code.TIMED_OUT, None, True),
        (Code.CONNECTION_FAILED, None, True),
        (Code.TLS_FAILED, None, False),
        (Code.TYPE_REFUSED, None, False),
    ],
)
def test_whether_another_try_can_help(code: Code, reason: str | None, *, retryable: bool) -> None:
    assert tell(stop(code, By.PROXY, reason=reason), GRANT).is_retryable is retryable


def test_missing_credentials_are_told_with_where_they_belong() -> None:
    told = tell(stop(Code.PROXY_REFUSED, By.PROXY, reason="credentials-required"), None)

    assert "http://JOB:TOKEN@" in told.text


def test_a_grant_is_told_whole() -> None:
    assert tell_grant(GRANT).splitlines() == [
        "Grant of tenant acme, plugin web, job job-1 (policy version 7)",
        "tenant:",
        "  docs.python.org",
        "  10.0.0.7:8080",
        "plugin:",
        "  nothing",
        "endpoints (for search backends; fetch does not use them):",
        "  searx.internal:8080",
        "To allow a host: oz0 tenant egress acme {host}",
    ]
