"""Everything that a start needs before there is a loop: listeners bound, records opened, user become, policy loaded.

Binds exactly what the configuration says and tells the operator what is unsafe, idle or missing. What it opens is
closed by the caller's stack, in the opposite order. Lives no life of its own: that is `daemon`'s, which calls
`prepare`.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from egressd import limits
from egressd.supervisor import identity, listeners
from egressd.supervisor.config import Config
from egressd.supervisor.descriptors import connections_within
from egressd.supervisor.listeners import Bound, ListenFault
from egressd.supervisor.own_addresses import Network, RouteFault, read_own_networks
from egressd.supervisor.policy import (
    RESOLV_CONF,
    Machine,
    PolicyKeeper,
    idle_notices,
    system_resolvers,
    unsafe_notices,
)
from egressd.supervisor.settings import split_address
from egressd.supervisor.sink import open_sink
from egressd.supervisor.workers import Spawned

# Root and the daemon's own user and group; who may command is judged by credentials besides.
ADMIN_MODE = 0o660


class StartFault(Exception):
    """The daemon cannot start here; the text is for the operator."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What stands when a start is prepared.

    Attributes:
        sink: The descriptor that records go to.
        connections_max: Client connections of the whole node.
    """

    keeper: PolicyKeeper
    bound: Sequence[Bound]
    admin: Sequence[Bound]
    sink: int
    connections_max: int


def say(text: str) -> None:
    """Tell the operator, on standard error."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"egressd: {text}\n")
        sys.stderr.flush()


def default_admin_socket(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Give the usual place of the admin socket for this user, or None where there is none."""
    if os.geteuid() == identity.ROOT:
        return Path("/run/egressd/admin.sock")
    runtime = environment.get("XDG_RUNTIME_DIR")
    return Path(runtime, "egressd", "admin.sock") if runtime else None


def prepare(
    config: Config, read_config: Callable[[], Config], spawned: Sequence[Spawned], stack: ExitStack
) -> Prepared:
    """Bind, open and load everything that a start needs, while the workers import.

    Args:
        config: The configuration to start with.
        read_config: Reads it anew, for reloads.
        spawned: The workers, already starting.
        stack: Gets what is to be closed at the end.

    Raises:
        StartFault: The daemon cannot start like this.
        ListenFault: A listener cannot be had.
        SinkFault: The place for records cannot be had.
        RouteFault: The node's own addresses cannot be read.
        UserFault: The configured user cannot be become.
    """
    for notice in unsafe_notices(config):
        say(f"UNSAFE: {notice}")
    for notice in idle_notices(config):
        say(notice)
    wanted = int(config.limits.get("connections_max", limits.CONNECTIONS_MAX))
    fitting = connections_within(resource.getrlimit(resource.RLIMIT_NOFILE)[0], wanted, config.node.workers)
    if fitting < wanted:
        say(f"at most {fitting} connections at a time: the limit of open descriptors (ulimit -Hn) holds no more")
    user = identity.find_user(config.node.user) if config.node.user else None
    if user is not None and os.geteuid() == identity.ROOT and any(row.user != user for row in spawned):
        raise StartFault("node.user changed while the daemon started; start it again")
    own = _read_own()
    sink = open_sink(None if config.records.path == "-" else config.path(config.records.path))
    stack.callback(os.close, sink)
    bound = [_bind(config, index, stack) for index in range(len(config.listeners))]
    admin = _bind_admin(config, stack)
    if user is not None:
        for row in (*bound, *admin):
            if row.path is not None and os.geteuid() == identity.ROOT:
                os.chown(row.path, *user)
        identity.become(user)
    machine = Machine(
        own=own,
        resolvers=config.node.resolvers or system_resolvers(_resolv_conf()),
        listeners=tuple(row.address for row in (*bound, *admin) if row.kind == "tcp"),
    )
    keeper = PolicyKeeper(read_config=read_config, read_own=_read_own, config=config, machine=machine)
    for line in keeper.start().lines:
        say(line)
    return Prepared(keeper=keeper, bound=bound, admin=admin, sink=sink, connections_max=fitting)


def _read_own() -> tuple[Network, ...]:
    try:
        return read_own_networks()
    except RouteFault as fault:
        raise RouteFault(f"cannot read this node's own addresses ({fault}); AF_NETLINK must be allowed") from fault


def _resolv_conf() -> str:
    try:
        return RESOLV_CONF.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _bind(config: Config, index: int, stack: ExitStack) -> Bound:
    row = config.listeners[index]
    if row.unix is not None:
        bound = listeners.bind_unix(row.name, config.path(row.unix), int(row.unix_mode, 8))
    else:
        bound = _bind_tcp(row.name, row.tcp or "")
    stack.callback(bound.close)
    return bound


def _bind_tcp(name: str, place: str) -> Bound:
    split = split_address(place)
    if split is None:
        raise StartFault(f"listener {name}: no address")
    return listeners.bind_tcp(name, str(split[0]), split[1])


def _bind_admin(config: Config, stack: ExitStack) -> list[Bound]:
    """Bind the admin sockets before anything is told ready, so that whoever asks early waits and is answered."""
    bound: list[Bound] = []
    given = config.admin.socket
    path = default_admin_socket() if given is None else config.path(given) if given else None
    if path is not None:
        with suppress(OSError):
            path.parent.mkdir(mode=0o755, exist_ok=True)
        try:
            bound.append(listeners.bind_unix("admin", path, ADMIN_MODE))
            stack.callback(bound[-1].close)
        except ListenFault as fault:
            if given is not None:
                raise
            # several embedded daemons of one user are no mistake; only the first one has the usual place
            say(f"no admin socket: {fault}; --admin FILE or [admin] socket names another place")
    if config.admin.tcp is not None:
        bound.append(_bind_tcp("admin", config.admin.tcp))
        stack.callback(bound[-1].close)
    return bound
