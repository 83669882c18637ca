"""Writes down and counts what the connections decided: one decision record a request, one close record a tunnel.

What does not change from request to request is written once and kept with the channel and the route. Decides nothing,
and sees no more of a request than its method and its parsed target. Called by connections and exchanges.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from egressd import records
from egressd.judge import Allowed
from egressd.records import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from egress_policy.reasons import End, Reason, Refusal
    from egressd.pinning import Place
    from egressd.worker.channel import Channel
    from egressd.worker.connection import Connection
    from egressd.worker.core import Core
    from egressd.worker.exchange import Exchange

_METHODS = frozenset({"CONNECT", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})
_COMPLETE = "complete"
_CLIENT_CLOSED = "client-closed"


class Reporter:
    """The records and counters of one worker."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        """Write to the core's journal and counters."""
        self._core = core

    def refused(self, connection: Connection, refusal: Refusal) -> None:
        """Write the record of a request that ended in a refusal."""
        route = connection.route
        if route is not None and route.verdict is refusal:
            fragment = self._fragment(connection)
        else:
            fragment = self._new_fragment(connection, refusal.rule)
        self._decided(connection, fragment, "refused", refusal.reason.value)

    def answered(self, connection: Connection) -> None:
        """Write the record of a request that the proxy answers itself, and that goes nowhere."""
        self._decided(connection, self._new_fragment(connection, None), "answered", None)

    def tunnel(self, connection: Connection, place: Place) -> Callable[[End, int, int], None]:
        """Write the decision record of a tunnel.

        Returns:
            What to call once at its end, with the end and the bytes up and down.
        """
        core = self._core
        core.counts.began()
        fragment, address = self._fragment(connection), place.sockaddr[0]
        self._decided(connection, fragment, *self._decision(connection), address)
        return partial(self._closed, connection.channel, fragment, address, core.poller.now)

    def _closed(
        self, channel: Channel, fragment: str, address: str, started: float, end: End, up: int, down: int
    ) -> None:
        core = self._core
        channel.open -= 1
        core.counts.ended(end.value, up, down)
        traffic = Traffic(up, down, core.poller.now - started, end.value)
        core.journal.write(records.close_line(time.time(), fragment, address=address, traffic=traffic))

    def exchanged(self, connection: Connection, exchange: Exchange, reason: Reason | None) -> None:
        """Write the one record of a plain request that was forwarded; `reason` is why its reply was cut, if it was."""
        core = self._core
        decision, said = self._decision(connection)
        core.counts.bytes_up += exchange.up
        core.counts.bytes_down += exchange.down
        end = reason.value if reason is not None else _COMPLETE if exchange.complete else _CLIENT_CLOSED
        self._decided(
            connection,
            self._fragment(connection),
            decision,
            reason.value if reason is not None else said,
            exchange.place.sockaddr[0] if exchange.place is not None else None,
            Traffic(exchange.up, exchange.down, core.poller.now - connection.started, end),
        )

    def _decided(
        self,
        connection: Connection,
        fragment: str,
        decision: str,
        reason: str | None,
        address: str | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """Count a request and write its one decision record."""
        channel, head = connection.channel, connection.head
        method = head.method if head is not None and head.method in _METHODS else "other"
        self._core.counts.request((channel.tenant, channel.plugin, method, decision, reason or ""))
        self._core.journal.write(
            records.decision_line(
                time.time(),
                fragment,
                decision=decision,
                reason=reason,
                address=address,
                dns_seconds=connection.dns_seconds,
                connect_seconds=connection.connect_seconds,
                traffic=traffic,
            )
        )

    @staticmethod
    def _decision(connection: Connection) -> tuple[str, str | None]:
        """The decision on what passed: allowed, or reported with the reason that it would have been refused for."""
        route = connection.route
        reported = route.verdict.reported if route is not None and isinstance(route.verdict, Allowed) else None
        return ("reported", reported.value) if reported is not None else ("allowed", None)

    def _fragment(self, connection: Connection) -> str:
        """The record's constant part for the connection's route."""
        route = connection.route
        assert route is not None  # noqa: S101 - only asked for one that was judged
        if route.record is None:
            verdict = route.verdict
            if isinstance(verdict, Allowed):
                rule = verdict.match.rule.text if verdict.match.rule is not None else None
            else:
                rule = verdict.rule
            route.record = self._new_fragment(connection, rule)
        return route.record

    def _new_fragment(self, connection: Connection, rule: str | None) -> str:
        asked, head = connection.asked, connection.head
        target = asked.target if asked is not None else None
        return records.request_fragment(
            connection.channel.source,
            method=head.method if head is not None else None,
            host=target.host_text if target is not None else None,
            port=target.port if target is not None else None,
            rule=rule,
        )
