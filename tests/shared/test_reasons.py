"""Refusals, and the sentence that says what to change."""

from __future__ import annotations

import shlex

import pytest

from egress_policy.reasons import (
    STATUS,
    Advice,
    ErrorType,
    Reason,
    Refusal,
    Stage,
    command_to_allow,
    sentence,
)
from egress_policy.targets import Target, parse_authority

TEMPLATE = "egressctl tenant {tenant} allow {host}"


def target(raw: bytes) -> Target:
    found = parse_authority(raw)
    assert isinstance(found, Target)
    return found


def said(reason: Reason, stage: Stage, raw: bytes | None = b"docs.python.org:443", *, tenant: str = "default") -> str:
    refusal = Refusal(reason, stage, None if raw is None else target(raw))
    return sentence(refusal, tenant=tenant, command_template=TEMPLATE)


def test_a_refusal_knows_its_status_and_type() -> None:
    plain = Refusal(Reason.DIAL_FAILED, Stage.DIAL)
    refused = Refusal(Reason.DIAL_FAILED, Stage.DIAL, error=ErrorType.CONNECTION_REFUSED)

    assert (plain.status, plain.error_type) == (502, ErrorType.DESTINATION_UNAVAILABLE)
    assert (refused.status, refused.error_type) == (502, ErrorType.CONNECTION_REFUSED)


@pytest.mark.parametrize(
    ("raw", "command"),
    [
        (b"docs.python.org:443", "egressctl tenant default allow docs.python.org"),
        (b"docs.python.org:80", "egressctl tenant default allow docs.python.org"),
        (b"docs.python.org:8443", "egressctl tenant default allow docs.python.org:8443"),
        (b"10.0.0.7:8080", "egressctl tenant default allow 10.0.0.7:8080"),
        (b"[2606:4700::1]:443", "egressctl tenant default allow '[2606:4700::1]'"),
        (b"[2606:4700::1]:8443", "egressctl tenant default allow '[2606:4700::1]:8443'"),
    ],
)
def test_the_command_allows_exactly_the_target(raw: bytes, command: str) -> None:
    assert command_to_allow(target(raw), tenant="default", command_template=TEMPLATE) == command
    assert command in said(Reason.NOT_ON_ALLOWLIST, Stage.ALLOW, raw)


@pytest.mark.parametrize("tenant", ["a b", "$(reboot)", "'; rm -rf /", "{host}", "{tenant}", "-x", ""])
def test_no_value_escapes_its_place_in_the_command(tenant: str) -> None:
    command = command_to_allow(target(b"example.com:443"), tenant=tenant, command_template=TEMPLATE)

    assert shlex.split(command) == ["egressctl", "tenant", tenant, "allow", "example.com"]


def test_another_template_and_other_braces_are_kept() -> None:
    command = command_to_allow(target(b"h.example:1"), tenant="t", command_template="oz0 {x} {tenant} {} {host} {host}")

    assert command == "oz0 {x} t {} h.example:1 h.example:1"


def test_the_sentence_says_policy_and_not_to_go_another_way() -> None:
    for reason, stage in (
        (Reason.NOT_ON_ALLOWLIST, Stage.ALLOW),
        (Reason.FORBIDDEN_ADDRESS, Stage.FLOOR),
        (Reason.DENIED_BY_RULE, Stage.DENY),
        (Reason.RESOLVED_ADDRESS_DENIED, Stage.PIN),
    ):
        text = said(reason, stage)
        assert "policy, not a network fault" in text
        assert "another route" in text


def test_a_network_failure_is_not_called_policy() -> None:
    for reason, stage in ((Reason.RESOLVE_FAILED, Stage.RESOLVE), (Reason.DIAL_FAILED, Stage.DIAL)):
        assert "policy" not in said(reason, stage)
        assert "again later" in said(reason, stage)


def test_the_floor_says_that_nothing_lifts_it_and_names_no_command() -> None:
    for reason in (Reason.FORBIDDEN_ADDRESS, Reason.FORBIDDEN_NAME, Reason.SCOPED_IP):
        text = said(reason, Stage.FLOOR)
        assert "No rule and no setting lifts this." in text
        assert "egressctl" not in text


def test_a_private_literal_without_right_names_the_rule_that_is_this_address() -> None:
    text = said(Reason.FORBIDDEN_ADDRESS, Stage.ALLOW, b"10.0.0.7:8080")

    assert "egressctl tenant default allow 10.0.0.7:8080" in text
    assert Refusal(Reason.FORBIDDEN_ADDRESS, Stage.FLOOR).advice is Advice.NOTHING


def test_a_deny_rule_is_not_shown_and_no_command_promises_to_lift_it() -> None:
    refusal = Refusal(Reason.DENIED_BY_RULE, Stage.DENY, target(b"a.example:443"), rule="! secret.example")
    text = sentence(refusal, tenant="default", command_template=TEMPLATE)

    assert "secret" not in text
    assert "egressctl" not in text


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("raw", [b"docs.python.org:443", b"[2606:4700::1]:8443", None])
def test_every_reason_has_a_sentence_on_one_line(reason: Reason, raw: bytes | None) -> None:
    for stage in Stage:
        text = said(reason, stage, raw)
        assert text.isascii()
        assert text.isprintable()
        assert 30 < len(text) < 400


def test_every_reason_has_a_status_of_its_own_kind() -> None:
    for reason in Reason:
        assert Refusal(reason, Stage.PARSE).status == STATUS[reason]
        assert 400 <= STATUS[reason] <= 505
