"""Grants for tests of the deciding modules: one call makes what a snapshot with these lists would make."""

from __future__ import annotations

from egress_policy.targets import Target, parse_authority
from egressd.grants import Grant, compile_policy
from egressd.snapshot import GrantSpec, ListText, Snapshot

OWN = ("127.0.0.0/8", "::1/128", "198.51.100.9/32", "45.83.64.1/32")


def grant(
    tenant_rules: str = "",
    plugin_rules: str | None = None,
    *,
    endpoints: tuple[str, ...] = (),
    private: tuple[str, ...] = (),
    public_only: bool = False,
    unavailable: str | None = None,
    unsafe_reach: tuple[str, ...] = (),
    listeners: tuple[str, ...] = (),
    nat64: str | None = None,
    protected: tuple[str, ...] = (),
    grant_visible: bool = True,
    mode: str = "enforce",
) -> Grant:
    """The grant of one tenant (and plugin), on a node with a few addresses of its own."""
    lists = [ListText("tenant", "tenants/default.list", tenant_rules)]
    if plugin_rules is not None:
        lists.append(ListText("plugin", "plugins/web.list", plugin_rules))
    spec = GrantSpec(
        tenant="default",
        plugin="web" if plugin_rules is not None else None,
        lists=tuple(lists),
        endpoints=endpoints,
        private=private,
        public_only=public_only,
        unavailable=unavailable,
        mode=mode,
    )
    snapshot = Snapshot(
        version=7,
        grants=(spec,),
        channels={"default": 0},
        own=OWN,
        protected=protected,
        unsafe_reach=unsafe_reach,
        nat64=nat64,
        listeners=listeners,
        grant_visible=grant_visible,
    )
    return compile_policy(snapshot).channels["default"]


def target(authority: str) -> Target:
    """The target of a CONNECT."""
    parsed = parse_authority(authority.encode())
    assert isinstance(parsed, Target), parsed
    return parsed
