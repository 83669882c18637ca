"""Smokescreen's own tables: authorities, lists and address classes, deviations one by one."""

from __future__ import annotations

from typing import Any

import pytest

from egress_policy.addresses import AddressClass, classify, parse_address
from egress_policy.rules import BadRule, ListKind, MatchOutcome, Rule, RuleList, RuleSet, parse_rule
from egress_policy.targets import Target, parse_authority
from egress_policy.urls import Url, parse_url
from support.corpora import corpus_file, corpus_json

# Authorities that Smokescreen takes and that are malformed here.
STRICTER_AUTHORITIES = {
    "[example.net.]:1337",  # brackets are for IPv6 addresses
    "[example.net]:1337",
    "[127.0.0.1]:1337",
    "\U0001f510.example.com:123",  # the wire is ASCII
    "\U0001f510.example.com:007",
}


@pytest.mark.case("D3", "D12")
def test_authorities_are_read_as_smokescreen_reads_them_or_refused() -> None:
    stricter = set()
    for row in corpus_json("smokescreen/cases.json")["hostport"]:
        found = parse_authority(row["hostport"].encode())
        if row["error"] is not None:
            assert not isinstance(found, Target), row
        elif isinstance(found, Target):
            assert (found.host_text, found.port) == (row["host"].removesuffix("."), row["port"]), row
        else:
            stricter.add(row["hostport"])

    assert stricter == STRICTER_AUTHORITIES


# Rows with a scheme where the two differ: an IPv6 address with brackets is right here and not there, and without them
# the other way round; and smtp is no scheme here.
OTHER_URLS = {("https", "[2001:DB8::1337]"), ("https", "2001:DB8::1337")}


def test_hosts_with_a_scheme_are_read_the_same_way() -> None:
    other = set()
    for row in corpus_json("smokescreen/cases.json")["hostport_with_scheme"]:
        found = parse_url(f"{row['scheme']}://{row['hostport']}/")
        if isinstance(found, Url) is (row["error"] is None):
            if isinstance(found, Url):
                expected = row["host"].removesuffix(".").strip("[]")
                assert (found.target.host_text, found.port) == (expected, row["port"])
        elif row["scheme"] != "smtp":
            other.add((row["scheme"], row["hostport"]))

    assert other == OTHER_URLS


# ---------------------------------------------------------------------------------------------- lists


def read_config(name: str) -> dict[str, dict[str, Any]]:
    """Read services and global lists from the few forms of YAML that these files use."""
    services: dict[str, dict[str, Any]] = {"global_allow_list": {"domains": []}, "global_deny_list": {"domains": []}}
    current: dict[str, Any] = {}
    for line in corpus_file(f"smokescreen/testdata/{name}").read_text(encoding="utf-8").split("\n"):
        text = line.split("#")[0].strip()
        key, _, value = text.removeprefix("- ").partition(":")
        if key == "name":
            current = services.setdefault(value.strip(), {"domains": []})
        elif key in {"default", "global_allow_list", "global_deny_list"}:
            current = services.setdefault(key, {"domains": []})
        elif key == "action":
            current["action"] = value.strip()
        elif text.startswith("- "):
            current["domains"].append(text[2:].strip().strip('"'))
    return services


def rules(texts: list[str], *, deny: bool = False) -> tuple[Rule, ...]:
    found = [parse_rule(f"! {text}" if deny else text) for text in texts]
    assert not any(isinstance(each, BadRule) for each in found), found
    return tuple(each for each in found if isinstance(each, Rule))


# Where the two decide differently, with why.
OTHER_DECISIONS = {
    # A deny beats every allow here, also one in the service's own list.
    "allow despite global denylist with allowed domains override": MatchOutcome.DENIED,
    # Reporting is a mode of the grant and relaxes after the match; the match itself is the same.
    "reported when reporting": MatchOutcome.NONE,
}


@pytest.mark.case("D3")
def test_lists_decide_as_smokescreens_do() -> None:
    seen = 0
    for row in corpus_json("smokescreen/cases.json")["acl"]:
        config = read_config(row["config"])
        service = config.get(row["service"], config["default"])
        domains = ["*"] if service["action"] == "open" else service["domains"]
        lists = [
            RuleList(ListKind.TENANT, "service", rules(domains)),
            RuleList(ListKind.PLUGIN, "global allow", rules(config["global_allow_list"]["domains"])),
            RuleList(ListKind.PLUGIN, "global deny", rules(config["global_deny_list"]["domains"], deny=True)),
        ]
        target = parse_authority(f"{row['host']}:443".encode())
        assert isinstance(target, Target)
        found = RuleSet(lists).match(target, now=0).outcome
        seen += 1
        if row["name"] in OTHER_DECISIONS:
            assert found is OTHER_DECISIONS[row["name"]]
        else:
            assert (found is MatchOutcome.ALLOWED) is (row["decision"] == "Allow"), row["name"]

    assert seen >= 19


@pytest.mark.case("D7")
@pytest.mark.parametrize(
    "name", ["contains_invalid_glob.yaml", "contains_invalid_glob_default.yaml", "contains_middle_glob.yaml"]
)
def test_the_globs_that_smokescreen_refuses_at_load_are_no_rules(name: str) -> None:
    domains = [domain for service in read_config(name).values() for domain in service["domains"]]

    assert domains
    assert all(isinstance(parse_rule(domain), BadRule) for domain in domains)


# ---------------------------------------------------------------------------------------------- addresses

# What a user opened there and is floor here, since no setting but `unsafe_reach` opens loopback.
STRICTER_ADDRESSES = {
    "127.0.1.1",
    "64:ff9c::1",  # outside the NAT64 prefix, but outside 2000::/3 as well
}


@pytest.mark.case("A6", "A9", "A10", "A15")
def test_addresses_are_classed_as_smokescreen_does_or_stricter() -> None:
    table = corpus_json("smokescreen/cases.json")["classify_addr"]
    stricter, opened = set(), set()
    for row in table["cases"]:
        address = parse_address(row["ip"])
        assert address is not None
        found = classify(address)
        if row["class"] == "ipDenyUserConfigured":
            continue  # a deny rule's business, below
        if row["class"].startswith("ipDeny"):
            assert found is not AddressClass.PUBLIC, row
        elif found is AddressClass.FLOOR:
            stricter.add(row["ip"])
        elif found is AddressClass.PRIVATE:
            opened.add(row["ip"])

    assert stricter == STRICTER_ADDRESSES
    # Private addresses that the user's settings open: here by a tenant's rule, not by their class.
    assert opened == {"10.0.0.1", "10.0.1.1", "172.16.1.1", "192.168.1.1"}


def test_ranges_and_addresses_that_a_user_denies_are_denied() -> None:
    config = corpus_json("smokescreen/cases.json")["classify_addr"]
    settings = config["config"]
    allow = rules([f"{text}:*" for text in settings["allowRanges"]] + settings["allowAddresses"])
    deny = rules(settings["denyRanges"] + settings["denyAddresses"], deny=True)
    found = RuleSet([RuleList(ListKind.TENANT, "t", (*allow, *deny, *rules(["0.0.0.0/0:*", "::/0:*"])))])
    for row in config["cases"]:
        address = parse_address(row["ip"])
        assert address is not None
        denied = found.denies_address(address, row["port"], now=0) is not None
        assert denied is (row["class"] == "ipDenyUserConfigured"), row
        outcome = found.match(Target("https", address, row["port"]), now=0).outcome
        assert outcome is (MatchOutcome.DENIED if denied else MatchOutcome.ALLOWED)
