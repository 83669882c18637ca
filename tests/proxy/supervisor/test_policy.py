"""The policy snapshot: what it is made of, and that the next one is taken whole or not at all."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import NoReturn

import pytest

from egressd.snapshot import from_json, to_json
from egressd.supervisor.config import Config, load, read_toml
from egressd.supervisor.own_addresses import Network, RouteFault
from egressd.supervisor.policy import (
    Machine,
    PolicyKeeper,
    Report,
    change_line,
    idle_notices,
    list_keys,
    system_resolvers,
    unsafe_notices,
    waits_for_restart,
)
from egressd.supervisor.problems import ConfigError, ConfigProblem

LISTENERS = """
[[listener]]
tcp = "127.0.0.1:3128"
[[listener]]
name = "research"
unix = "r.sock"
tenant = "research"
plugin = "brave"
[[listener]]
name = "again"
unix = "a.sock"
tenant = "default"
"""
TENANT = """
[tenant.research]
private = ["10.20.0.0/16"]
public_only = true
mode = "report"
endpoints = ["searx.internal:8080"]
"""
OWN: tuple[Network, ...] = (ip_network("127.0.0.0/8"), ip_network("192.0.2.7/32"))
MACHINE = Machine(own=OWN, resolvers=("127.0.0.53", "192.0.2.53"), listeners=("127.0.0.1:3128",))


class Node:
    """A folder of lists, a configuration and the keeper between them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "lists/tenants").mkdir(parents=True)
        (folder / "lists/plugins").mkdir()
        self.text = LISTENERS + TENANT
        self.own: Callable[[], tuple[Network, ...]] = lambda: OWN
        self.keeper = PolicyKeeper(
            read_config=self.config, read_own=self.read_own, config=self.config(), machine=MACHINE
        )

    def config(self) -> Config:
        return load(read_toml(self.text, file="e.toml"), file="e.toml", base=self.folder)

    def read_own(self) -> tuple[Network, ...]:
        return self.own()

    def write(self, source: str, text: str) -> None:
        (self.folder / "lists" / source).write_text(text)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def refuse_config() -> NoReturn:
    raise ConfigError([ConfigProblem("e.toml", "node", "5", "a table")])


def refuse_own() -> NoReturn:
    raise RouteFault("netlink: no answer")


def test_one_grant_for_each_pair_of_tenant_and_plugin(node: Node) -> None:
    node.write("tenants/research.list", "arxiv.org\n")
    node.write("plugins/brave.list", "api.search.brave.com\n")
    assert node.keeper.start().is_whole
    snapshot = node.keeper.snapshot
    assert snapshot.version == 1
    assert snapshot.channels == {"default": 0, "research": 1, "again": 0}
    default, research = snapshot.grants
    assert (default.tenant, default.plugin, default.private, default.mode) == ("default", None, (), "enforce")
    assert [(row.kind, row.source, row.text) for row in default.lists] == [("tenant", "tenants/default.list", "")]
    assert [(row.kind, row.source, row.text) for row in research.lists] == [
        ("tenant", "tenants/research.list", "arxiv.org\n"),
        ("plugin", "plugins/brave.list", "api.search.brave.com\n"),
    ]
    assert research.private == ("10.20.0.0/16",)
    assert research.endpoints == ("searx.internal:8080",)
    assert research.public_only is True
    assert research.mode == "report"
    assert from_json(to_json(snapshot)) == snapshot


def test_own_addresses_are_the_kernels_and_the_configured_ones(node: Node) -> None:
    node.text += '[node]\nown_addresses = ["203.0.113.5"]\nprotected = ["10.9.0.0/16"]\n'
    node.keeper.config = node.config()
    node.keeper.start()
    assert node.keeper.snapshot.own == ("203.0.113.5/32", "127.0.0.0/8", "192.0.2.7/32")


def test_a_resolver_that_is_not_our_own_is_protected(node: Node) -> None:
    node.keeper.start()
    assert node.keeper.snapshot.protected == ("192.0.2.53/32",)


@pytest.mark.case("D2")
def test_a_broken_list_without_an_old_one_makes_every_grant_with_it_unavailable(node: Node) -> None:
    node.write("tenants/research.list", "arxiv.org\n")
    node.write("plugins/brave.list", "*.*\n")
    report = node.keeper.start()
    default, research = node.keeper.snapshot.grants
    assert default.unavailable is None
    assert research.unavailable == "plugins/brave.list is broken and there is no earlier one"
    assert not report.is_whole
    assert any(line.startswith("plugins/brave.list:1:") and "write" in line for line in report.lines)


def test_a_reload_gives_a_version_only_to_what_has_changed(node: Node) -> None:
    node.keeper.start()
    assert node.keeper.reload().version == 1
    node.write("tenants/default.list", "docs.python.org\n")
    report = node.keeper.reload()
    assert (report.version, report.changed, report.is_whole) == (2, ("tenants/default.list",), True)
    node.write("tenants/default.list", "docs.python.org\n*.*\n")
    report = node.keeper.reload()
    assert (report.version, report.changed, report.is_whole) == (2, (), False)


def test_one_broken_list_does_not_keep_the_others_from_being_loaded(node: Node) -> None:
    node.keeper.start()
    node.write("tenants/default.list", "*.*\n")
    node.write("tenants/research.list", "arxiv.org\n")
    report = node.keeper.reload()
    assert (report.version, report.changed) == (2, ("tenants/research.list",))
    assert node.keeper.snapshot.grants[0].lists[0].text == ""
    assert node.keeper.snapshot.grants[0].unavailable is None


def test_a_broken_configuration_leaves_the_old_one_and_lists_are_loaded_all_the_same(node: Node) -> None:
    node.keeper.start()
    node.keeper.read_config = refuse_config
    node.write("tenants/default.list", "docs.python.org\n")
    report = node.keeper.reload()
    assert not report.is_whole
    assert report.lines == ("e.toml: node: found 5; write a table",)
    assert node.keeper.snapshot.grants[1].private == ("10.20.0.0/16",)
    assert node.keeper.snapshot.grants[0].lists[0].text == "docs.python.org\n"


def test_policy_in_the_configuration_is_loaded_and_the_rest_waits_for_a_restart(node: Node) -> None:
    node.keeper.start()
    node.text = (
        LISTENERS.replace("3128", "3199")
        + '[node]\nresolvers = ["192.0.2.99"]\nunsafe_reach = ["127.0.0.5/32"]\nworkers = 64\n'
        "[limits]\nhead_max_bytes = 1000\n"
    )
    report = node.keeper.reload()
    assert report.changed == ("configuration",)
    assert report.waiting == ("listener", "limits", "node.resolvers", "node.workers")
    assert node.keeper.snapshot.unsafe_reach == ("127.0.0.5/32",)
    assert node.keeper.snapshot.grants[1].mode == "enforce"
    assert node.keeper.snapshot.protected == ("192.0.2.53/32",)
    assert node.keeper.config.listeners[0].tcp == "127.0.0.1:3128"
    assert node.keeper.reload().waiting == report.waiting
    assert any("takes effect at the next restart" in line for line in report.lines)


def test_own_addresses_are_read_anew_and_kept_when_they_cannot_be(node: Node) -> None:
    node.keeper.start()
    node.own = lambda: (*OWN, ip_network("198.51.100.0/24"))
    assert node.keeper.reload().version == 2
    assert "198.51.100.0/24" in node.keeper.snapshot.own
    node.own = refuse_own
    report = node.keeper.reload()
    assert not report.is_whole
    assert "198.51.100.0/24" in node.keeper.snapshot.own


def test_every_list_that_a_listener_uses_is_asked_for_once(node: Node) -> None:
    assert [name for _, name in list_keys(node.config())] == ["default", "research", "brave"]


@pytest.mark.case("H7")
def test_whatever_lowers_the_guard_is_named(node: Node) -> None:
    assert unsafe_notices(node.config()) == ("report mode: tenant research is not enforced",)
    node.text = LISTENERS.replace("127.0.0.1:3128", "0.0.0.0:3128").replace('3128"', '3128"\nunsafe_wildcard = true')
    node.text += '[node]\nunsafe_reach = ["127.0.0.5/32", "::1/128"]\n'
    assert unsafe_notices(node.config()) == (
        "unsafe_reach: 127.0.0.5/32, ::1/128 is treated as public",
        "unsafe_wildcard: listener default is open to every network of this machine",
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nameserver 192.0.2.1\nnameserver ::1\nsearch example.com\n", ("192.0.2.1", "::1")),
        ("# nameserver 192.0.2.1\noptions ndots:5\n", ("127.0.0.1",)),
        ("nameserver\nnameserver dns.local\nnameserver fe80::1%eth0\n  nameserver\t192.0.2.1 \n", ("192.0.2.1",)),
        ("", ("127.0.0.1",)),
    ],
)
def test_name_servers_of_the_machine(text: str, found: tuple[str, ...]) -> None:
    assert system_resolvers(text) == found


def test_nothing_waits_where_nothing_changed(node: Node) -> None:
    config = node.config()
    assert waits_for_restart(config, dataclasses.replace(config)) == ()


def test_a_change_is_recorded_with_who_when_and_what(node: Node) -> None:
    node.keeper.start()
    node.write("tenants/default.list", "docs.python.org\n")
    line = change_line(node.keeper.reload(), who="uid 0 by the admin socket", unix_now=1_764_547_200.25)
    assert json.loads(line) == {
        "time": "2025-12-01T00:00:00.250Z",
        "record": "policy",
        "version": 2,
        "who": "uid 0 by the admin socket",
        "changed": ["tenants/default.list"],
        "changed_more": 0,
        "whole": True,
        "problems": 0,
    }


def test_a_record_of_many_changes_is_one_line_that_a_pipe_takes_whole() -> None:
    names = tuple(f"tenants/{'n' * 63}-{number}.list" for number in range(1000))
    line = change_line(Report(version=2, changed=names), who="SIGHUP", unix_now=0)
    assert len(line) < 4096
    assert json.loads(line)["changed_more"] == 970


@pytest.mark.case("H8")
def test_a_tenants_table_that_nothing_uses_is_told(node: Node) -> None:
    assert idle_notices(node.config()) == ()
    node.text = LISTENERS + TENANT.replace("tenant.research", "tenant.reserach")
    assert idle_notices(node.config()) == ("tenant.reserach: no listener belongs to this tenant",)
