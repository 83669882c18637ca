"""Builds the policy snapshot from configuration, list files and what the machine says about itself.

`assemble` is pure. `PolicyKeeper` holds what is in force, and takes the next state whole: a configuration with
problems leaves the old one, a broken list leaves its old text, and a version is given out only when something has
changed. `daemon` asks it at start, at SIGHUP and at POST /reload, and sends the snapshot on.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path

from egress_policy.addresses import parse_address
from egress_policy.rules import ListKind, Problem
from egressd.list_files import show_problem
from egressd.snapshot import GrantSpec, ListText, Snapshot
from egressd.supervisor.config import Config
from egressd.supervisor.lists import Key, ListStore, LoadedList, errors_of
from egressd.supervisor.own_addresses import Network, RouteFault
from egressd.supervisor.problems import ConfigError, ConfigProblem
from egressd.supervisor.settings import split_address

RESOLV_CONF = Path("/etc/resolv.conf")
# resolver(3): without a name server in the file, the one on this machine is asked
RESOLVER_FALLBACK = ("127.0.0.1",)

# Names of lists in one record: a line fits into what a pipe takes whole.
CHANGED_MAX = 30

Loaded = Mapping[Key, LoadedList]


@dataclass(frozen=True, slots=True)
class Machine:
    """What the node is, besides its configuration: fixed at start, `own` read again at every reload."""

    own: tuple[Network, ...]
    resolvers: tuple[str, ...]
    listeners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What a load of the policy came to."""

    version: int
    changed: tuple[str, ...] = ()
    config_problems: tuple[ConfigProblem, ...] = ()
    list_problems: tuple[Problem, ...] = ()
    unavailable: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    fault: str | None = None

    @property
    def is_whole(self) -> bool:
        """True when everything that was read is in force."""
        broken = self.config_problems or errors_of(self.list_problems) or self.unavailable
        return not broken and self.fault is None

    @property
    def lines(self) -> tuple[str, ...]:
        """Everything that an operator is told, a line each."""
        rows = [str(problem) for problem in self.config_problems]
        rows += [show_problem(problem) for problem in self.list_problems]
        rows += [f"policy unavailable: {why}" for why in self.unavailable]
        rows += [f"{key} changed; it takes effect at the next restart" for key in self.waiting]
        return tuple(rows if self.fault is None else [*rows, self.fault])


def system_resolvers(text: str) -> tuple[str, ...]:
    """Give the name servers of a resolv.conf, search domains and options left aside (resolv.conf(5))."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["nameserver"] and len(words) > 1 and parse_address(words[1]) is not None:
            found.append(words[1])
    return tuple(found) or RESOLVER_FALLBACK


def list_keys(config: Config) -> tuple[Key, ...]:
    """Give the lists that this configuration's listeners use."""
    keys: list[Key] = []
    for listener in config.listeners:
        keys.append((ListKind.TENANT, listener.tenant))
        if listener.plugin is not None:
            keys.append((ListKind.PLUGIN, listener.plugin))
    return tuple(dict.fromkeys(keys))


def assemble(config: Config, loaded: Loaded, machine: Machine, *, version: int) -> Snapshot:
    """Build the snapshot: one grant for each pair of tenant and plugin that a listener is bound to.

    A resolver that is not this node's own is protected: DNS spoken to it through the proxy would be a way around the
    rule that no name is looked up that no rule allows.
    """
    node = config.node
    own = tuple(ip_network(text) for text in node.own_addresses) + machine.own
    pairs = list(dict.fromkeys((row.tenant, row.plugin) for row in config.listeners))
    return Snapshot(
        version=version,
        grants=tuple(_grant(config, loaded, *pair) for pair in pairs),
        channels={row.name: pairs.index((row.tenant, row.plugin)) for row in config.listeners},
        own=tuple(dict.fromkeys(str(network) for network in own)),
        protected=tuple(dict.fromkeys((*node.protected, *_foreign_resolvers(machine.resolvers, own)))),
        unsafe_reach=node.unsafe_reach,
        nat64=node.nat64_prefix or None,
        hosts=config.hosts,
        listeners=machine.listeners,
        command_template=node.command,
        proxy_names=node.proxy_names,
        grant_visible=node.grant_visible,
    )


def _grant(config: Config, loaded: Loaded, tenant: str, plugin: str | None) -> GrantSpec:
    lists = [loaded[ListKind.TENANT, tenant]]
    if plugin is not None:
        lists.append(loaded[ListKind.PLUGIN, plugin])
    table = config.tenant(tenant)
    return GrantSpec(
        tenant=tenant,
        plugin=plugin,
        lists=tuple(ListText(row.kind.value, row.source, row.text) for row in lists if row.text is not None),
        endpoints=table.endpoints,
        private=table.private,
        public_only=table.public_only,
        mode=table.mode,
        unavailable=next((row.unavailable for row in lists if row.unavailable is not None), None),
    )


def _foreign_resolvers(resolvers: Iterable[str], own: Iterable[Network]) -> list[str]:
    networks = tuple(own)
    found = []
    for text in resolvers:
        split = split_address(text)
        address = parse_address(text) if split is None else split[0]
        if address is not None and not any(address in net for net in networks if net.version == address.version):
            found.append(str(ip_network(address)))
    return found


def unsafe_notices(config: Config) -> tuple[str, ...]:
    """Name everything in a configuration that lowers the guard; told at start, in health and in metrics."""
    notices = []
    if config.node.unsafe_reach:
        notices.append(f"unsafe_reach: {', '.join(config.node.unsafe_reach)} is treated as public")
    notices += [
        f"unsafe_wildcard: listener {row.name} is open to every network of this machine"
        for row in config.listeners
        if row.unsafe_wildcard
    ]
    return (
        *notices,
        *(
            f"report mode: tenant {name} is not enforced"
            for name, row in config.tenants.items()
            if row.mode == "report"
        ),
    )


def idle_notices(config: Config) -> tuple[str, ...]:
    """Name the tables that nothing uses: a slip in a tenant's name would leave its settings without effect."""
    used = {row.tenant for row in config.listeners}
    return tuple(f"tenant.{name}: no listener belongs to this tenant" for name in config.tenants if name not in used)


@dataclass(slots=True)
class PolicyKeeper:
    """The policy in force, and how the next one is made.

    `read_config` and `read_own` are asked at every load, so that tests and the embedded default can give theirs.
    """

    read_config: Callable[[], Config]
    read_own: Callable[[], tuple[Network, ...]]
    config: Config
    machine: Machine
    store: ListStore = dataclasses.field(default_factory=ListStore)
    loaded: Loaded = dataclasses.field(default_factory=dict)
    snapshot: Snapshot = dataclasses.field(default_factory=lambda: Snapshot(version=0))
    report: Report = dataclasses.field(default_factory=lambda: Report(version=0))

    def start(self) -> Report:
        """Load the lists for the configuration that was read already, as version 1."""
        return self._take(self.config, (), (), None)

    def reload(self) -> Report:
        """Read configuration, lists and own addresses anew; whatever is broken leaves its old state in force."""
        config, problems, fault = self.config, tuple[ConfigProblem, ...](), None
        try:
            config = self.read_config()
        except ConfigError as error:
            problems = error.problems
        waiting = waits_for_restart(self.config, config)
        config = dataclasses.replace(
            config,
            node=config.node.model_copy(
                update={
                    "resolvers": self.config.node.resolvers,
                    "user": self.config.node.user,
                    "workers": self.config.node.workers,
                }
            ),
            listeners=self.config.listeners,
            records=self.config.records,
            admin=self.config.admin,
            limits=self.config.limits,
        )
        try:
            self.machine = dataclasses.replace(self.machine, own=self.read_own())
        except RouteFault as error:
            fault = f"own addresses: {error}; those of the last load stay"
        return self._take(config, problems, waiting, fault)

    def _take(
        self, config: Config, problems: tuple[ConfigProblem, ...], waiting: tuple[str, ...], fault: str | None
    ) -> Report:
        before, loaded_before = self.snapshot, self.loaded
        self.loaded = self.store.load(config.lists_folder, list_keys(config))
        self.config = config
        snapshot = assemble(config, self.loaded, self.machine, version=before.version)
        changed = tuple(
            row.source
            for key, row in self.loaded.items()
            if key not in loaded_before or loaded_before[key].text != row.text
        )
        if dataclasses.replace(snapshot, grants=()) != dataclasses.replace(before, grants=()) and before.version:
            changed = ("configuration", *changed)
        if snapshot != before:
            self.snapshot = dataclasses.replace(snapshot, version=before.version + 1)
            changed = changed or ("configuration",)
        self.report = Report(
            version=self.snapshot.version,
            changed=changed,
            config_problems=problems,
            list_problems=tuple(problem for row in self.loaded.values() for problem in row.problems),
            unavailable=tuple(dict.fromkeys(row.unavailable for row in self.loaded.values() if row.unavailable)),
            waiting=waiting,
            fault=fault,
        )
        return self.report


def change_line(report: Report, *, who: str, unix_now: float) -> str:
    """Write the record of a change of policy: who, when, what. It stands among the decision records, in their form.

    Args:
        report: What the load came to.
        who: `SIGHUP`, or the user who asked for it.
        unix_now: Unix seconds.
    """
    seconds, milliseconds = divmod(int(unix_now * 1000), 1000)
    row = {
        "time": f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z",
        "record": "policy",
        "version": report.version,
        "who": who,
        "changed": report.changed[:CHANGED_MAX],
        "changed_more": len(report.changed[CHANGED_MAX:]),
        "whole": report.is_whole,
        "problems": len(report.lines),
    }
    return json.dumps(row, separators=(",", ":"))


def waits_for_restart(before: Config, after: Config) -> tuple[str, ...]:
    """Name the settings that differ and that running workers and sockets cannot take over."""
    pairs = {
        "listener": (before.listeners, after.listeners),
        "records": (before.records, after.records),
        "admin": (before.admin, after.admin),
        "limits": (before.limits, after.limits),
        "node.resolvers": (before.node.resolvers, after.node.resolvers),
        "node.user": (before.node.user, after.node.user),
        "node.workers": (before.node.workers, after.node.workers),
    }
    return tuple(key for key, (old, new) in pairs.items() if old != new)
