"""Refusals: a reason, the stage that gave it and the target it speaks of, and the sentence that says what to change.

`Refusal` is the one value that travels from wherever a request ends to the header, the body, the record and the
metric. `sentence` is the only text about it that people read; it is built from the parsed target alone, never from
bytes of the request, and shows neither addresses that a name resolved to nor anything of the list. Never does I/O.
The words themselves stand in `vocabulary` and are handed on here. Called by both programs.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from egress_policy.targets import Target
from egress_policy.vocabulary import (
    ADVICE,
    DETAILS,
    ERROR,
    ERRORS,
    RETRYABLE,
    STATUS,
    Advice,
    End,
    ErrorType,
    Reason,
    Stage,
)

__all__ = [
    "ADVICE",
    "DETAILS",
    "ERROR",
    "ERRORS",
    "RETRYABLE",
    "STATUS",
    "Advice",
    "End",
    "ErrorType",
    "Reason",
    "Refusal",
    "Stage",
    "command_to_allow",
    "sentence",
]

_PLAIN_PORTS = (80, 443)
_PLACE = re.compile(r"\{(tenant|host)\}")
# Failures of the network or of a budget are not policy about the destination, and the text must not say so.
_POLICY_STAGES = frozenset({Stage.FLOOR, Stage.DENY, Stage.ALLOW, Stage.PIN, Stage.PEER})
_NOT_A_FAULT = "This is egress policy, not a network fault: do not look for another route."


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request ended.

    Attributes:
        reason: One of the closed list.
        stage: Where in the order of judgement.
        target: What was asked for, if it could be parsed.
        rule: Text of the rule that decided, for records only.
        error: The RFC 9209 type where the reason has several; None for its main one.
    """

    reason: Reason
    stage: Stage
    target: Target | None = None
    rule: str | None = None
    error: ErrorType | None = None

    @property
    def status(self) -> int:
        """The HTTP status that goes with the reason."""
        return STATUS[self.reason]

    @property
    def error_type(self) -> ErrorType:
        """The RFC 9209 type that goes out: the given one, or the reason's main one."""
        return ERROR[self.reason] if self.error is None else self.error

    @property
    def advice(self) -> Advice:
        """Who can change this answer; a private address, unlike the floor, is opened by a rule that is this address."""
        if self.reason is Reason.FORBIDDEN_ADDRESS and self.stage is Stage.ALLOW:
            return Advice.RULE
        return ADVICE[self.reason]


def command_to_allow(target: Target, *, tenant: str, command_template: str) -> str:
    """Give the command that would allow a target, each value quoted for a shell.

    Args:
        target: As parsed; a port other than 80 and 443 becomes part of the rule.
        tenant: The tenant's name.
        command_template: With `{tenant}` and `{host}`; other braces stay as they are.
    """
    host = f"[{target.host_text}]" if ":" in target.host_text else target.host_text
    rule = host if target.port in _PLAIN_PORTS else f"{host}:{target.port}"
    values = {"tenant": shlex.quote(tenant), "host": shlex.quote(rule)}
    return _PLACE.sub(lambda place: values[place.group(1)], command_template)


def sentence(refusal: Refusal, *, tenant: str, command_template: str) -> str:
    """Say in plain words what was refused and who can change it.

    Args:
        refusal: Any.
        tenant: The tenant whose list was asked.
        command_template: As for `command_to_allow`.

    Returns:
        A few sentences on one line, ASCII unless tenant or template are not.
    """
    about = f"{refusal.target.authority}: " if refusal.target is not None else ""
    said = f"{about}{DETAILS[refusal.reason]}."
    if refusal.stage in _POLICY_STAGES:
        said = f"{said} {_NOT_A_FAULT}"
    return f"{said} {_what_helps(refusal, tenant, command_template)}"


def _what_helps(refusal: Refusal, tenant: str, command_template: str) -> str:
    match refusal.advice:
        case Advice.RULE:
            if refusal.target is None:
                return "A person who may edit the tenant's list can allow it."
            command = command_to_allow(refusal.target, tenant=tenant, command_template=command_template)
            return f"A person who may edit the tenant's list can allow it: {command}"
        case Advice.OPERATOR:
            return "The operator of the node or of the tenant can change that; a rule that allows the host cannot."
        case Advice.NOTHING:
            return "No rule and no setting lifts this."
        case Advice.REQUEST:
            return "Send the request in another form."
        case Advice.LATER:
            return "Trying again later may help."
