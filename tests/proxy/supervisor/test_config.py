"""The configuration file: what each key gives, and every problem at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from egressd.limits import Limits
from egressd.supervisor.config import COMMAND_LINE, Config, embedded, load, read_file, read_toml
from egressd.supervisor.descriptors import default_workers
from egressd.supervisor.problems import ConfigError

WHOLE = """
[node]
resolvers = ["127.0.0.53", "127.0.0.1:5353"]
own_addresses = ["192.0.2.7"]
protected = ["10.9.0.0/16"]
unsafe_reach = ["127.0.0.5/32"]
nat64_prefix = "64:ff9b::/96"
command = "oz0 tenant egress {tenant} {host}"
grant_visible = false
proxy_names = ["Proxy.Internal:3128"]

[hosts]
"Searx.Internal" = ["10.20.0.9"]

[lists]
folder = "policy"

[records]
path = "records.jsonl"
required = true

[admin]
socket = "admin.sock"
tcp = "127.0.0.1:3129"

[[listener]]
tcp = "127.0.0.1:3128"

[[listener]]
name = "research"
unix = "job/proxy.sock"
unix_mode = "0666"
tenant = "research"
plugin = "brave"

[tenant.research]
private = ["10.20.0.0/16"]
public_only = true
mode = "report"
endpoints = ["searx.internal:8080"]

[limits]
head_max_bytes = 1000
drain_seconds = 0
dial_timeout_seconds = 2.5
"""
BROKEN = """
surprise = 1
[node]
resolvers = ["dns.local"]
own_adresses = []
[hosts]
"Example.COM" = ["x"]
"example.com" = []
[limits]
head_max_bytes = 0
dns_timeout_seconds = "a"
foo = 1
[[listener]]
tcp = "0.0.0.0:3128"
unix = "/x"
[[listener]]
tcp = "localhost:3128"
tenent = "default"
[tenant.a]
mode = "audit"
[tenant."../x"]
[admin]
tcp = "192.0.2.1:80"
"""


def read(text: str) -> Config:
    return load(read_toml(text, file="e.toml"), file="e.toml", base=Path("/etc/egressd"))


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return [str(problem) for problem in caught.value.problems]


def test_every_key_is_read() -> None:
    config = read(WHOLE)
    assert config.node.resolvers == ("127.0.0.53", "127.0.0.1:5353")
    assert config.node.own_addresses == ("192.0.2.7/32",)
    assert config.node.protected == ("10.9.0.0/16",)
    assert config.node.unsafe_reach == ("127.0.0.5/32",)
    assert config.node.nat64_prefix == "64:ff9b::/96"
    assert config.node.command == "oz0 tenant egress {tenant} {host}"
    assert config.node.grant_visible is False
    assert config.node.proxy_names == ("proxy.internal:3128",)
    assert config.hosts == {"searx.internal": ("10.20.0.9",)}
    assert config.lists_folder == Path("/etc/egressd/policy")
    assert config.path(config.records.path) == Path("/etc/egressd/records.jsonl")
    assert config.records.required is True
    assert (config.admin.socket, config.admin.tcp) == ("admin.sock", "127.0.0.1:3129")
    first, second = config.listeners
    assert (first.name, first.tcp, first.unix, first.tenant, first.plugin) == (
        "default",
        "127.0.0.1:3128",
        None,
        "default",
        None,
    )
    assert (second.name, second.tcp, second.unix, second.unix_mode) == ("research", None, "job/proxy.sock", "0666")
    assert (second.tenant, second.plugin) == ("research", "brave")
    tenant = config.tenant("research")
    assert tenant.private == ("10.20.0.0/16",)
    assert tenant.public_only is True
    assert tenant.mode == "report"
    assert tenant.endpoints == ("searx.internal:8080",)
    assert config.limits == {"head_max_bytes": 1000, "drain_seconds": 0.0, "dial_timeout_seconds": 2.5}


def test_what_is_not_written_has_its_default() -> None:
    config = read('[[listener]]\ntcp = "127.0.0.1:3128"')
    assert config.node.unsafe_reach == ()
    assert config.node.grant_visible is True
    assert config.node.command == "egressctl tenant {tenant} allow {host}"
    assert config.tenant("default").mode == "enforce"
    assert config.tenant("default").private == ()
    assert config.node.workers == default_workers()
    assert config.records.path == "-"
    assert config.admin.socket is None
    assert config.limits == {}


@pytest.mark.parametrize("name", [name for name in Limits.__dataclass_fields__])  # noqa: C416 - pytest wants a list
def test_every_limit_can_be_set_under_its_name(name: str) -> None:
    config = read(f'[[listener]]\ntcp = "127.0.0.1:1"\n[limits]\n{name} = 7')
    assert config.limits == {name: 7}
    assert Limits(**config.limits) != Limits()  # type: ignore[arg-type]  # ints and floats by name


@pytest.mark.case("H8")
def test_every_problem_is_told_at_once_with_key_found_and_what_to_write() -> None:
    assert problems(BROKEN) == [
        (
            "e.toml: node.resolvers[0]: found 'dns.local' (not a name server's address);"
            ' write an IP address, with a port if it is not 53, such as "127.0.0.53"'
        ),
        "e.toml: node.own_adresses: found a key that means nothing here; write own_addresses, or leave it out",
        (
            "e.toml: hosts.'Example.COM'[0]: found 'x' (not an address);"
            ' write an IP address, such as "192.0.2.7" or "2001:db8::7"'
        ),
        (
            "e.toml: admin.tcp: found '192.0.2.1:80' (not a loopback address);"
            ' write a loopback address, such as "127.0.0.1:3129"'
        ),
        (
            "e.toml: listener[1].tcp: found 'localhost:3128' (not an address with a port);"
            ' write an IP address and a port, such as "127.0.0.1:3128" or "[::1]:3128"'
        ),
        "e.toml: listener[1].tenent: found a key that means nothing here; write tenant, or leave it out",
        "e.toml: tenant.a.mode: found 'audit'; write 'enforce' or 'report'",
        (
            "e.toml: tenant.'../x': found '../x' (not a name);"
            " write letters, digits, '_', '-' and '.', not beginning with '.' or '-', at most 63"
        ),
        (
            "e.toml: surprise: found a key that means nothing here;"
            " write one of admin, hosts, limits, listener, lists, node, records, tenant, or leave it out"
        ),
        "e.toml: limits.head_max_bytes: found 0; write a number from 1",
        "e.toml: limits.dns_timeout_seconds: found 'a'; write a number",
        (
            f"e.toml: limits.foo: found a key that means nothing here;"
            f" write one of {', '.join(sorted(Limits.__dataclass_fields__))}, or leave it out"
        ),
        'e.toml: listener[0]: found both tcp and unix; write one of them, such as tcp = "127.0.0.1:3128"',
        "e.toml: listener[0].name: found 'default' more than once; write a name of its own",
        (
            "e.toml: listener[0].tcp: found '0.0.0.0:3128', which every network of this machine reaches;"
            " write the one address that jobs use, or unsafe_wildcard = true beside it"
        ),
        "e.toml: listener[1].name: found 'default' more than once; write a name of its own",
        "e.toml: hosts.'Example.COM': found the same name in another spelling too; write each name once",
        "e.toml: hosts.'example.com': found no address; write at least one, or leave the name out",
        "e.toml: hosts.'example.com': found the same name in another spelling too; write each name once",
    ]


@pytest.mark.case("H8")
@pytest.mark.parametrize(
    "text",
    [
        '[node]\nuser = "a"\n[node]\nuser = "b"',
        "[node]\ngrant_visible = true\ngrant_visible = false",
        "node = 1\n[node]",
        "[[listener]\n",
        "a = 'x\n'",
    ],
)
def test_a_second_table_or_key_of_one_name_is_no_toml(text: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith("e.toml: TOML: found ")
    assert problem.endswith("write TOML 1.0; a text needs quotes, a key may stand once")


@pytest.mark.case("H10")
@pytest.mark.parametrize("tcp", ["0.0.0.0:3128", "[::]:3128", "[::ffff:0.0.0.0]:3128", "[0:0::0]:3128"])
def test_every_spelling_of_a_wildcard_address_is_refused(tcp: str) -> None:
    (problem,) = problems(f'[[listener]]\ntcp = "{tcp}"')
    assert "which every network of this machine reaches" in problem


@pytest.mark.case("H10")
def test_a_wildcard_address_can_be_asked_for_and_is_unsafe_by_name() -> None:
    assert read('[[listener]]\ntcp = "0.0.0.0:3128"\nunsafe_wildcard = true').listeners[0].unsafe_wildcard


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "listener: found none"),
        ("listener = []", "listener: found none"),
        ("listener = 5", "listener: found 5; write an array"),
        ("listener = [5]", "listener[0]: found 5; write a table"),
        ('node.workers = 0\n[[listener]]\ntcp = "127.0.0.1:1"', "node.workers: found 0; write"),
        ('node.workers = 65\n[[listener]]\ntcp = "127.0.0.1:1"', "node.workers: found 65; write"),
        ("[[listener]]", "listener[0]: found neither tcp nor unix"),
        ('node = []\n[[listener]]\ntcp = "127.0.0.1:1"', "node: found []; write a table"),
        ('limits = 5\n[[listener]]\ntcp = "127.0.0.1:1"', "limits: found 5; write a table"),
        ('[[listener]]\ntcp = "127.0.0.1:1"\nunix_mode = 438', "listener[0].unix_mode: found 438; write a text"),
        ('[lists]\nfolder = ""\n[[listener]]\ntcp = "127.0.0.1:1"', "lists.folder: found ''; write a text that is"),
        ('[records]\nrequired = "no"\n[[listener]]\ntcp = "127.0.0.1:1"', "records.required: found 'no'; write true"),
        ('[limits]\ndial_timeout_seconds = inf\n[[listener]]\ntcp = "127.0.0.1:1"', "found inf; write a finite number"),
        ('[limits]\nhead_max_bytes = 1.5\n[[listener]]\ntcp = "127.0.0.1:1"', "found 1.5; write a whole number"),
        ('[limits]\nhead_max_bytes = true\n[[listener]]\ntcp = "127.0.0.1:1"', "found true; write a whole number"),
    ],
)
def test_a_single_problem_is_told(text: str, expected: str) -> None:
    (problem,) = problems(text)
    assert expected in problem


@pytest.mark.parametrize("second", ["127.0.0.1:3128", "[::ffff:127.0.0.1]:3128"])
def test_one_address_twice_is_told_in_any_spelling(second: str) -> None:
    text = f'[[listener]]\nname = "a"\ntcp = "127.0.0.1:3128"\n[[listener]]\nname = "b"\ntcp = "{second}"'
    assert len(problems(text)) == 2


def test_port_zero_may_stand_twice() -> None:
    text = '[[listener]]\nname = "a"\ntcp = "127.0.0.1:0"\n[[listener]]\nname = "b"\ntcp = "127.0.0.1:0"'
    assert len(read(text).listeners) == 2


def test_the_embedded_default_is_one_listener_of_tenant_default() -> None:
    raw = embedded("lists", listen=None, admin=None)
    config = load(raw, file=COMMAND_LINE, base=Path("/home/me"))
    (listener,) = config.listeners
    assert (listener.name, listener.tcp, listener.tenant) == ("default", "127.0.0.1:3128", "default")
    assert config.lists_folder == Path("/home/me/lists")
    assert config.node.workers == 1


def test_the_embedded_default_takes_flags_under_the_same_rules() -> None:
    config = load(embedded("/l", listen="[::1]:99", admin="a.sock"), file=COMMAND_LINE, base=Path("/home/me"))
    assert (config.listeners[0].tcp, config.admin.socket, config.lists_folder) == ("[::1]:99", "a.sock", Path("/l"))
    with pytest.raises(ConfigError, match=r"the command line: listener\[0\].tcp: found '0.0.0.0:1', which every"):
        load(embedded("/l", listen="0.0.0.0:1", admin=None), file=COMMAND_LINE, base=Path("/"))


def test_a_file_that_cannot_be_read_is_one_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a file that cannot be read"):
        read_file(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigError, match="not UTF-8 at 5"):
        read_file(tmp_path / "bad.toml")
    (tmp_path / "good.toml").write_text("a = 1")
    assert read_file(tmp_path / "good.toml") == {"a": 1}
