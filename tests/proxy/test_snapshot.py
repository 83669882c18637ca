"""The snapshot: read back whole, and refused at the first odd thing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from egressd.snapshot import GrantSpec, ListText, Snapshot, SnapshotFault, from_json, from_value, to_json

FULL = Snapshot(
    version=7,
    grants=(
        GrantSpec(
            tenant="default",
            plugin="brave",
            job="j-1",
            lists=(
                ListText("tenant", "tenants/default.list", "docs.python.org # ümlaut\n"),
                ListText("plugin", "plugins/brave.list", ""),
            ),
            endpoints=("searx.internal:8080",),
            private=("10.20.0.0/16",),
            public_only=True,
            mode="report",
            unavailable=None,
        ),
        GrantSpec(tenant="other", unavailable="tenants/other.list is broken and there is no earlier one"),
    ),
    channels={"default": 0, "second": 1},
    own=("127.0.0.0/8", "::1/128"),
    protected=("192.0.2.53/32",),
    unsafe_reach=("127.0.0.5/32",),
    nat64="64:ff9b::/96",
    hosts={"searx.internal": ("10.20.0.9",)},
    listeners=("127.0.0.1:3128", "[::1]:3128"),
    command_template="oz0 tenant egress {tenant} {host}",
    proxy_names=("proxy.internal:3128",),
    grant_visible=False,
)


def full_value() -> dict[str, Any]:
    value: dict[str, Any] = json.loads(to_json(FULL))
    return value


def test_a_snapshot_is_read_back_equal() -> None:
    assert from_json(to_json(FULL)) == FULL
    assert from_json(to_json(Snapshot(version=1))) == Snapshot(version=1)


def test_a_snapshot_is_ascii_whatever_the_lists_say() -> None:
    assert to_json(FULL).isascii()


def test_lone_surrogates_of_a_path_survive() -> None:
    odd = Snapshot(version=1, grants=(GrantSpec(tenant="t", unavailable="no folder \udcff"),))
    assert from_json(to_json(odd)) == odd


@pytest.mark.case("H8")
@pytest.mark.parametrize("path", [(), ("grants", 0), ("grants", 0, "lists", 0)])
def test_an_unknown_key_is_a_fault(path: tuple[str | int, ...]) -> None:
    value = full_value()
    place: Any = value
    for step in path:
        place = place[step]
    place["surprise"] = 1
    with pytest.raises(SnapshotFault, match="surprise"):
        from_value(value)


@pytest.mark.parametrize("name", sorted(json.loads(to_json(FULL))))
def test_every_missing_key_is_a_fault(name: str) -> None:
    value = full_value()
    del value[name]
    with pytest.raises(SnapshotFault, match=name):
        from_value(value)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("version", -1),
        ("version", True),
        ("version", "1"),
        ("grants", {}),
        ("channels", []),
        ("channels", {"default": 2}),
        ("channels", {"default": True}),
        ("own", "127.0.0.0/8"),
        ("own", [1]),
        ("nat64", 1),
        ("hosts", {"a": "10.0.0.1"}),
        ("command_template", None),
        ("grant_visible", 1),
    ],
)
def test_a_wrong_type_is_a_fault(name: str, wrong: object) -> None:
    value = full_value()
    value[name] = wrong
    with pytest.raises(SnapshotFault, match=name):
        from_value(value)


@pytest.mark.parametrize(("name", "wrong"), [("mode", "audit"), ("public_only", "no"), ("plugin", 1), ("lists", [1])])
def test_a_wrong_value_in_a_grant_is_a_fault(name: str, wrong: object) -> None:
    value = full_value()
    value["grants"][0][name] = wrong
    with pytest.raises(SnapshotFault):
        from_value(value)


def test_a_list_of_an_unknown_kind_is_a_fault() -> None:
    value = full_value()
    value["grants"][0]["lists"][0]["kind"] = "endpoint"
    with pytest.raises(SnapshotFault, match="kind"):
        from_value(value)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_bytes_that_are_no_snapshot_are_a_fault(raw: bytes) -> None:
    with pytest.raises(SnapshotFault):
        from_json(raw)
