"""The admin API: health for whoever may look, reload for whoever may command.

On the Unix socket: GET /healthz, /readyz, /metrics; GET /node and POST /reload for root and the daemon's own user, by
the kernel's word (SO_PEERCRED) and never by a header. On loopback TCP: the three GETs and nothing else, and only under
a Host that names that very address, so that a web page in a browser on this machine cannot ask by a name of its own.
Imports aiohttp, so `daemon` imports it after the workers listen. Decides nothing about traffic; no job's channel leads
here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from egressd.supervisor.health import Health
from egressd.supervisor.identity import may_command, overflow_uid, peer_uid
from egressd.supervisor.listeners import Bound
from egressd.supervisor.policy import Report

# No request here has a body worth reading.
BODY_MAX_BYTES = 1024
# Connections of a stopped daemon are closed after this; nothing here takes long.
SHUTDOWN_SECONDS = 1.0
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Server": "egressd"}


class Node(Protocol):
    """What the admin API asks of the daemon."""

    def health(self) -> Health:
        """Say whether the node can serve."""
        ...

    def metrics(self) -> tuple[bytes, str]:
        """Give the metrics and their content type."""
        ...

    def describe(self) -> dict[str, object]:
        """Give what `egressctl` needs to know: the lists' folder, tenants, policy version."""
        ...

    async def reload(self, who: str) -> Report:
        """Load the policy anew, and wait until the workers apply it."""
        ...


def answer(value: object, status: int = 200) -> web.Response:
    """Give a JSON response that no cache keeps."""
    body = json.dumps(value).encode("ascii") + b"\n"
    return web.Response(body=body, status=status, content_type="application/json", headers=HEADERS)


def refusal(status: int, problem: str) -> web.Response:
    """Give a refusal; the text is fixed and holds nothing of the request."""
    return answer({"refused": problem}, status)


def make_app(node: Node, *, tcp: str | None, own_uid: Callable[[], int] = os.geteuid) -> web.Application:
    """Make the application for one listener.

    Args:
        node: The daemon.
        tcp: The listener's `ip:port`, or None for the Unix socket.
        own_uid: Gives the uid that the daemon runs as.
    """
    app = web.Application(middlewares=[_guard(tcp)], client_max_size=BODY_MAX_BYTES)

    async def alive(_request: web.Request) -> web.Response:
        return answer({"status": "alive"})

    async def ready(_request: web.Request) -> web.Response:
        health = node.health()
        body = {"status": "ready" if health.is_ready else "not ready", "degraded": list(health.degraded)}
        return answer(
            body if health.is_ready else {**body, "failing": list(health.failing)}, 200 if health.is_ready else 503
        )

    async def metrics(_request: web.Request) -> web.Response:
        body, content_type = node.metrics()
        return web.Response(body=body, headers={**HEADERS, "Content-Type": content_type})

    async def describe(request: web.Request) -> web.Response:
        return answer(node.describe()) if _commander(request, own_uid()) is not None else _not_yours()

    async def reload(request: web.Request) -> web.Response:
        uid = _commander(request, own_uid())
        if uid is None:
            return _not_yours()
        report = await node.reload(f"uid {uid} by the admin socket")
        return answer(
            {
                "version": report.version,
                "changed": list(report.changed),
                "whole": report.is_whole,
                "problems": list(report.lines),
            }
        )

    app.router.add_get("/healthz", alive, allow_head=False)
    app.router.add_get("/readyz", ready, allow_head=False)
    app.router.add_get("/metrics", metrics, allow_head=False)
    if tcp is None:
        app.router.add_get("/node", describe, allow_head=False)
        app.router.add_post("/reload", reload)
    return app


async def serve(node: Node, bound: Bound) -> web.AppRunner:
    """Answer on a bound socket until the runner is cleaned up."""
    app = make_app(node, tcp=bound.address if bound.kind == "tcp" else None)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    await web.SockSite(runner, bound.socket).start()
    return runner


def names_this(host: str | None, tcp: str) -> bool:
    """Say whether a Host field names this listener: its address, or `localhost`, with its port."""
    _, _, port = tcp.rpartition(":")
    return host is not None and host.lower() in {tcp, f"localhost:{port}"}


def _guard(tcp: str | None) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if tcp is not None and not names_this(request.headers.get("Host"), tcp):
            return refusal(421, "the Host field names another server")
        if tcp is not None and request.method != "GET":
            return refusal(405, "only GET here; commands go over the Unix socket")
        try:
            return await handler(request)
        except web.HTTPException as error:
            return refusal(error.status, error.reason)

    return guard


def _commander(request: web.Request, own: int) -> int | None:
    """Give the peer's uid if it may command, else None."""
    peer = request.transport.get_extra_info("socket") if request.transport is not None else None
    if peer is None:
        return None
    uid = peer_uid(peer)
    return uid if may_command(uid, own=own, overflow=overflow_uid()) else None


def _not_yours() -> web.Response:
    return refusal(403, "only root and the daemon's own user may command it")
