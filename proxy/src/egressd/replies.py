"""Decides what becomes of a reply's head: what the client gets, how the body ends, and which connections go on.

A final reply becomes a `ReplyPlan`, or a refusal where it cannot be passed on: it plays the proxy, or its body could be
read in two ways. Moves nothing and waits for nothing. Called by the worker's exchange.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from egress_policy.reasons import Reason, Refusal, Stage
from egressd.forwarding import ends_by_close, forwarded_reply, origin_keeps_alive, unfit_reply
from egressd.framing import BadFraming, UntilClose, reply_framing

if TYPE_CHECKING:
    from egress_policy.targets import Target
    from egressd.framing import Framing
    from egressd.http_head import ReplyHead


@dataclass(frozen=True, slots=True)
class ReplyPlan:
    """What becomes of one final reply.

    Attributes:
        head: For the client, with its empty line.
        body: How the origin's body ends.
        keeps_client: Whether the client's connection may carry another request.
        keeps_origin: Whether the origin's may, as far as its head says.
    """

    head: bytes
    body: Framing
    keeps_client: bool
    keeps_origin: bool


def plan_reply(head: ReplyHead, target: Target, *, method: str, client_minor: int, keep: bool) -> ReplyPlan | Refusal:
    """Plan a final reply.

    Args:
        target: What was asked for; a refusal speaks of it.
        method: Of the request.
        client_minor: Of the request's HTTP version.
        keep: Whether the client's connection is to go on if the reply lets it.
    """
    unfit = unfit_reply(head, target)
    if unfit is not None:
        return unfit
    body = reply_framing(head, request_method=method, status=head.status)
    if isinstance(body, BadFraming):
        return Refusal(Reason.UPSTREAM_FAILED, Stage.UPSTREAM, target, error=body.error)
    keep = keep and not ends_by_close(body, client_minor=client_minor)
    return ReplyPlan(
        head=forwarded_reply(head, body, keep_alive=keep, client_minor=client_minor),
        body=body,
        keeps_client=keep,
        keeps_origin=not isinstance(body, UntilClose) and origin_keeps_alive(head),
    )
