"""The configuration: TOML text → frozen `Config`, or every problem in it at once.

Unknown keys are errors (a control must not be off by a typo), a second table of one name is one by TOML itself, and
nothing is taken from the environment. Reads only the text it is given; the list files are `lists`' business and what
the machine knows about itself is `daemon`'s. Imports pydantic, so the command line imports this after the worker runs.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from egress_policy.addresses import fold
from egressd import limits
from egressd.supervisor import settings
from egressd.supervisor.descriptors import default_workers
from egressd.supervisor.problems import ConfigError, ConfigProblem, explain, show, show_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Model = TypeVar("Model", bound=BaseModel)

COMMAND_LINE = "the command line"
DEFAULT_COMMAND = "egressctl tenant {tenant} allow {host}"
WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - compared with, never bound


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


# TOML has arrays only, and strict mode would want tuples
_Array = Field(strict=False)
Label = Annotated[str, AfterValidator(settings.label)]
UnixPath = Annotated[str, AfterValidator(settings.unix_path)]
Addresses = Annotated[tuple[Annotated[str, AfterValidator(settings.address)], ...], _Array]
Networks = Annotated[tuple[Annotated[str, AfterValidator(settings.network)], ...], _Array]
PrivateNetworks = Annotated[tuple[Annotated[str, AfterValidator(settings.private_network)], ...], _Array]
Authorities = Annotated[tuple[Annotated[str, AfterValidator(settings.authority)], ...], _Array]
Resolvers = Annotated[tuple[Annotated[str, AfterValidator(settings.resolver)], ...], _Array]
HostKey = Annotated[str, AfterValidator(settings.host_name)]
HostAddresses = Annotated[tuple[Annotated[str, AfterValidator(settings.address)], ...], _Array]


class Node(_Table):
    """`[node]`: what holds for every grant.

    No `resolvers` means those of /etc/resolv.conf, read at start. No `workers` means one for each core that the process
    may use, up to `WORKERS_DEFAULT_MAX`.
    """

    resolvers: Resolvers = ()
    own_addresses: Networks = ()
    protected: Networks = ()
    unsafe_reach: Networks = ()
    nat64_prefix: Annotated[str, AfterValidator(settings.nat64_prefix)] = ""
    user: str = ""
    command: Annotated[str, AfterValidator(settings.command_template)] = DEFAULT_COMMAND
    grant_visible: bool = True
    proxy_names: Authorities = ()
    workers: Annotated[int, Field(ge=1, le=limits.WORKERS_MAX)] = Field(default_factory=default_workers)


class Lists(_Table):
    """`[lists]`: the folder with `tenants/NAME.list` and `plugins/NAME.list`."""

    folder: Annotated[str, Field(min_length=1)] = "lists"


class Records(_Table):
    """`[records]`: where decision records go; `-` is standard output."""

    path: Annotated[str, Field(min_length=1)] = "-"
    required: bool = False


class Admin(_Table):
    """`[admin]`: no `socket` means the usual place if it can be had, an empty one means none."""

    socket: Annotated[str, AfterValidator(settings.optional_unix_path)] | None = None
    tcp: Annotated[str, AfterValidator(settings.loopback_tcp_address)] | None = None


class Listener(_Table):
    """`[[listener]]`: one channel, bound to a tenant, on a TCP address or a Unix socket."""

    name: Label = "default"
    tcp: Annotated[str, AfterValidator(settings.tcp_address)] | None = None
    unix: UnixPath | None = None
    unix_mode: Annotated[str, AfterValidator(settings.file_mode)] = "0660"
    unsafe_wildcard: bool = False
    tenant: Label = "default"
    plugin: Label | None = None


class Tenant(_Table):
    """`[tenant.NAME]`: what the operator gives one tenant beyond its list."""

    private: PrivateNetworks = ()
    public_only: bool = False
    mode: Literal["enforce", "report"] = "enforce"
    endpoints: Authorities = ()


def _limit_fields() -> dict[str, Any]:
    """Make a field of every number in `limits.Limits`, so that a new one can be set without a change here."""
    fields: dict[str, Any] = {}
    for entry in dataclasses.fields(limits.Limits):
        if isinstance(entry.default, int):
            fields[entry.name] = (int | None, Field(default=None, ge=1))
        else:
            fields[entry.name] = (float | None, Field(default=None, ge=0, allow_inf_nan=False))
    return fields


Limits = create_model("Limits", __base__=_Table, **_limit_fields())


class _File(_Table):
    node: Node = Node()
    hosts: dict[HostKey, HostAddresses] = {}
    lists: Lists = Lists()
    records: Records = Records()
    admin: Admin = Admin()
    listener: Annotated[tuple[Listener, ...], _Array] = ()
    tenant: dict[Label, Tenant] = {}
    limits: dict[str, object] = {}  # its keys are those of `Limits`, and read by it


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration that has no problem; paths are taken from `base`, the folder of its file."""

    file: str
    base: Path
    node: Node
    hosts: Mapping[str, tuple[str, ...]]
    lists: Lists
    records: Records
    admin: Admin
    listeners: tuple[Listener, ...]
    tenants: Mapping[str, Tenant]
    limits: Mapping[str, float]

    def path(self, text: str) -> Path:
        """Give a path of this configuration as an absolute one."""
        return self.base / text

    @property
    def lists_folder(self) -> Path:
        """The folder of the list files."""
        return self.path(self.lists.folder)

    def tenant(self, name: str) -> Tenant:
        """Give a tenant's table, or the defaults where there is none."""
        return self.tenants.get(name) or Tenant()


def read_toml(text: str, *, file: str) -> dict[str, object]:
    """Decode TOML.

    Raises:
        ConfigError: Not TOML; the one problem says where.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = ConfigProblem(file, "TOML", str(error), "TOML 1.0; a text needs quotes, a key may stand once")
        raise ConfigError([problem]) from error


def read_file(path: Path) -> dict[str, object]:
    """Read a configuration file.

    Raises:
        ConfigError: It cannot be read, is not UTF-8 or not TOML; the one problem says which.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        found = f"a file that cannot be read ({error.strerror})"
        raise ConfigError([ConfigProblem(str(path), "file", found, "the path of a readable file")]) from error
    except UnicodeDecodeError as error:
        problem = ConfigProblem(str(path), "file", f"a byte that is not UTF-8 at {error.start}", "TOML in UTF-8")
        raise ConfigError([problem]) from error
    return read_toml(text, file=str(path))


def embedded(lists: str, *, listen: str | None, admin: str | None) -> dict[str, object]:
    """Give the configuration that `egressd --lists FOLDER` stands for: one listener, tenant `default`."""
    raw: dict[str, object] = {
        # one process for one person's programs
        "node": {"workers": 1},
        "lists": {"folder": lists},
        "listener": [{"name": "default", "tcp": listen or "127.0.0.1:3128", "tenant": "default"}],
    }
    if admin is not None:
        raw["admin"] = {"socket": admin}
    return raw


def load(raw: dict[str, object], *, file: str, base: Path) -> Config:
    """Check a decoded configuration and freeze it.

    Args:
        raw: What `read_toml` or `embedded` gave.
        file: The name for messages.
        base: The folder that relative paths start from.

    Raises:
        ConfigError: With every problem, those between keys included.
    """
    problems: list[ConfigProblem] = []
    found, chosen = _read(_File, raw, (), file, problems), _read(Limits, raw.get("limits"), ("limits",), file, problems)
    problems += _between_keys(raw, file)
    if found is None or chosen is None or problems:
        raise ConfigError(problems)
    return Config(
        file=file,
        base=base,
        node=found.node,
        hosts=found.hosts,
        lists=found.lists,
        records=found.records,
        admin=found.admin,
        listeners=found.listener,
        tenants=found.tenant,
        limits={name: value for name, value in chosen.model_dump().items() if value is not None},
    )


def _read(
    table: type[Model], raw: object, place: tuple[str, ...], file: str, problems: list[ConfigProblem]
) -> Model | None:
    """Check one table; its problems are added, and None is what they leave."""
    try:
        # a value that is no table at all is told once, by the table that it stands in
        return table.model_validate(raw if isinstance(raw, dict) else {})
    except ValidationError as error:
        for row in error.errors(include_url=False):
            row["loc"] = (*place, *row["loc"])
            problems.append(explain(file, row, _known(row["loc"])))
        return None


def _known(location: tuple[int | str, ...]) -> Iterator[str]:
    """Give the keys that the table at this place may have."""
    tables: dict[str, type[BaseModel]] = {
        "node": Node,
        "lists": Lists,
        "records": Records,
        "admin": Admin,
        "listener": Listener,
        "tenant": Tenant,
        "limits": Limits,
    }
    table = tables.get(str(location[0]), _File) if len(location) > 1 else _File
    return iter(table.model_fields)


def _between_keys(raw: Mapping[str, object], file: str) -> Iterator[ConfigProblem]:
    """Find what no single key shows. Looks at the raw value, so that a problem elsewhere hides none of these."""
    rows = raw.get("listener")
    listeners = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if rows is None or rows == []:
        yield _problem(file, ("listener",), "none", 'a table [[listener]] with tcp = "127.0.0.1:3128"')
    names = Counter(str(row.get("name", "default")) for row in listeners)
    places = Counter(place for row in listeners if (place := _place(row)) is not None)
    for index, row in enumerate(listeners):
        name, place, tcp = str(row.get("name", "default")), _place(row), row.get("tcp")
        if ("tcp" in row) == ("unix" in row):
            both = "both tcp and unix" if "tcp" in row else "neither tcp nor unix"
            yield _problem(file, ("listener", index), both, 'one of them, such as tcp = "127.0.0.1:3128"')
        if names[name] > 1:
            yield _problem(file, ("listener", index, "name"), f"{show(name)} more than once", "a name of its own")
        if place is not None and places[place] > 1:
            key = "tcp" if "tcp" in row else "unix"
            yield _problem(file, ("listener", index, key), f"{show(place)} more than once", "an address of its own")
        if isinstance(tcp, str) and _is_wildcard(tcp) and row.get("unsafe_wildcard") is not True:
            found = f"{show(tcp)}, which every network of this machine reaches"
            instead = "the one address that jobs use, or unsafe_wildcard = true beside it"
            yield _problem(file, ("listener", index, "tcp"), found, instead)
    hosts = raw.get("hosts")
    if not isinstance(hosts, dict):
        return
    spelled = Counter(_name_key(name) for name in hosts)
    for name, addresses in hosts.items():
        if addresses == []:
            yield _problem(file, ("hosts", name), "no address", "at least one, or leave the name out")
        if spelled[_name_key(name)] > 1:
            yield _problem(file, ("hosts", name), "the same name in another spelling too", "each name once")


def _problem(file: str, location: tuple[str | int, ...], found: str, write_instead: str) -> ConfigProblem:
    return ConfigProblem(file, show_key(location), found, write_instead)


def _place(row: Mapping[str, object]) -> str | None:
    place = row.get("tcp", row.get("unix"))
    if not isinstance(place, str):
        return None
    split = settings.split_address(place)
    if split is None:
        return place
    return None if split[1] == 0 else settings.join_address(fold(split[0]), split[1])


def _is_wildcard(tcp: str) -> bool:
    split = settings.split_address(tcp)
    return split is not None and str(fold(split[0])) in WILDCARDS


def _name_key(name: str) -> str:
    return name.rstrip(".").casefold()
