"""The policy of a node at one version, as one JSON value that the supervisor hands to its workers.

Says which grants there are, which listener leads to which grant, and what the node knows about addresses. Decides
nothing and reads nothing: the supervisor builds a `Snapshot` from its configuration and list files, a worker reads it
and parses the list texts again with `egress_policy.rules`, so that a worker trusts no rule it has not parsed itself.
Reading is strict. An unknown key, a missing one or a wrong type is a `SnapshotFault`: both ends are one program at
one version, so anything odd means that they are not, and a policy that is half understood must not be enforced.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

LIST_KINDS = ("tenant", "plugin")
MODES = ("enforce", "report")


class SnapshotFault(Exception):
    """The bytes are no snapshot of this version of the program; the fault is the sender's."""


@dataclass(frozen=True, slots=True)
class ListText:
    """One list file: its validated text, and the name under which people know it (`tenants/default.list`)."""

    kind: str
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class GrantSpec:
    """What one channel may reach.

    `endpoints` are `host:port`, `private` networks in CIDR form. `unavailable` is None, or the reason (for records
    and health, never for a peer) why nothing of this grant may be used: its refusal is policy-unavailable.
    """

    tenant: str
    plugin: str | None = None
    job: str | None = None
    lists: tuple[ListText, ...] = ()
    endpoints: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    public_only: bool = False
    mode: str = "enforce"
    unavailable: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole policy at `version`; versions only grow while a supervisor lives.

    `channels` maps a listener's name to an index into `grants`. `own`, `protected` and `unsafe_reach` are networks in
    CIDR form, `nat64` a prefix or None. `listeners` are the daemon's own TCP listeners as `ip:port` (`[ip]:port`),
    admin included; `proxy_names` the host:port pairs that name the proxy itself in a Host field.
    """

    version: int
    grants: tuple[GrantSpec, ...] = ()
    channels: Mapping[str, int] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    unsafe_reach: tuple[str, ...] = ()
    nat64: str | None = None
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    listeners: tuple[str, ...] = ()
    command_template: str = "egressctl tenant {tenant} allow {host}"
    proxy_names: tuple[str, ...] = ()
    grant_visible: bool = True


def to_json(snapshot: Snapshot) -> bytes:
    """Write a snapshot as ASCII JSON; `from_json` gives an equal value back."""
    return json.dumps(asdict(snapshot), separators=(",", ":")).encode("ascii")


def from_json(raw: bytes) -> Snapshot:
    """Read a snapshot.

    Raises:
        SnapshotFault: Not JSON, a missing or unknown key, a wrong type, or an index that points nowhere.
    """
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        fault = "not JSON"
        raise SnapshotFault(fault) from error
    return from_value(value)


def from_value(value: object) -> Snapshot:
    """Read a snapshot from a decoded JSON value (the `snapshot` member of a control frame).

    Raises:
        SnapshotFault: As in `from_json`.
    """
    row = _members(value, Snapshot, "snapshot")
    grants = tuple(_grant(item) for item in _items(row["grants"], "grants"))
    channels = {
        name: _number(index, f"channels.{name}") for name, index in _mapping(row["channels"], "channels").items()
    }
    for name, index in channels.items():
        _demand(index < len(grants), f"channels.{name}: no such grant")
    return Snapshot(
        version=_number(row["version"], "version"),
        grants=grants,
        channels=channels,
        own=_texts(row["own"], "own"),
        protected=_texts(row["protected"], "protected"),
        unsafe_reach=_texts(row["unsafe_reach"], "unsafe_reach"),
        nat64=_optional(row["nat64"], "nat64"),
        hosts={name: _texts(found, f"hosts.{name}") for name, found in _mapping(row["hosts"], "hosts").items()},
        listeners=_texts(row["listeners"], "listeners"),
        command_template=_text(row["command_template"], "command_template"),
        proxy_names=_texts(row["proxy_names"], "proxy_names"),
        grant_visible=_truth(row["grant_visible"], "grant_visible"),
    )


def _grant(value: object) -> GrantSpec:
    row = _members(value, GrantSpec, "grant")
    mode = _text(row["mode"], "mode")
    _demand(mode in MODES, "mode: neither enforce nor report")
    return GrantSpec(
        tenant=_text(row["tenant"], "tenant"),
        plugin=_optional(row["plugin"], "plugin"),
        job=_optional(row["job"], "job"),
        lists=tuple(_list(item) for item in _items(row["lists"], "lists")),
        endpoints=_texts(row["endpoints"], "endpoints"),
        private=_texts(row["private"], "private"),
        public_only=_truth(row["public_only"], "public_only"),
        mode=mode,
        unavailable=_optional(row["unavailable"], "unavailable"),
    )


def _list(value: object) -> ListText:
    row = _members(value, ListText, "list")
    kind = _text(row["kind"], "kind")
    _demand(kind in LIST_KINDS, "kind: neither tenant nor plugin")
    return ListText(kind=kind, source=_text(row["source"], "source"), text=_text(row["text"], "text"))


def _members(value: object, shape: type[Snapshot | GrantSpec | ListText], where: str) -> dict[str, object]:
    row = _mapping(value, where)
    names = {entry.name for entry in fields(shape)}
    _demand(row.keys() == names, f"{where}: keys differ by {sorted(row.keys() ^ names)}")
    return row


def _mapping(value: object, where: str) -> dict[str, object]:
    _demand(isinstance(value, dict), f"{where}: not an object")
    return cast("dict[str, object]", value)


def _items(value: object, where: str) -> list[object]:
    _demand(isinstance(value, list), f"{where}: not an array")
    return cast("list[object]", value)


def _texts(value: object, where: str) -> tuple[str, ...]:
    return tuple(_text(item, where) for item in _items(value, where))


def _text(value: object, where: str) -> str:
    _demand(isinstance(value, str), f"{where}: not a text")
    return cast("str", value)


def _optional(value: object, where: str) -> str | None:
    return None if value is None else _text(value, where)


def _truth(value: object, where: str) -> bool:
    _demand(isinstance(value, bool), f"{where}: not true or false")
    return cast("bool", value)


def _number(value: object, where: str) -> int:
    # bool is an int to isinstance, and `true` for an index would lead to the second grant
    _demand(isinstance(value, int) and not isinstance(value, bool) and value >= 0, f"{where}: not a whole number")
    return cast("int", value)


def _demand(holds: bool, fault: str) -> None:  # noqa: FBT001 - the condition itself, never a switch
    if not holds:
        raise SnapshotFault(fault)
