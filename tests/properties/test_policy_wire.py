"""A refusal and a grant survive the round trip, and nothing that arrives in their place raises."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from egress_policy.names import HostName
from egress_policy.reasons import DETAILS, ERROR, ERRORS, Reason, Refusal, Stage, command_to_allow, sentence
from egress_policy.rules import ListKind
from egress_policy.structured_fields import read_list, string_text
from egress_policy.targets import Target
from egress_policy.wire import (
    BadGrant,
    GrantDocument,
    GrantList,
    Received,
    asks_public_only,
    read_grant,
    read_proxy_status,
    write_grant,
    write_proxy_status,
)

NAMES = st.from_regex(r"[a-z0-9_][a-z0-9_-]{0,20}(\.[a-z0-9_-]{1,20}){0,3}\.example", fullmatch=True)
TARGETS = st.builds(Target, st.just("https"), NAMES.map(HostName), st.integers(1, 65535))
refusals = st.sampled_from(Reason).flatmap(
    lambda reason: st.builds(
        Refusal,
        st.just(reason),
        st.sampled_from(Stage),
        st.one_of(st.none(), TARGETS),
        st.one_of(st.none(), st.text()),
        st.one_of(st.none(), st.sampled_from(sorted(ERRORS[reason]))),
    )
)


@given(refusal=refusals, before=st.lists(st.sampled_from(["cache;hit", "a, b;c=1", '"x";y'])), at_end=st.booleans())
def test_a_refusal_survives_the_header_round_trip(refusal: Refusal, before: list[str], *, at_end: bool) -> None:
    value = write_proxy_status(refusal)
    values = [*before, value] if at_end else [value, *before]

    expected = Received(refusal.reason, refusal.error or ERROR[refusal.reason], DETAILS[refusal.reason])
    assert read_proxy_status(values) == expected
    assert read_proxy_status([", ".join(values)]) == expected
    assert read_proxy_status([value, value]) is None


@given(values=st.lists(st.one_of(st.text(max_size=60), st.text('egrsd;=ronb"\\, ()?1:@%-.', max_size=60)), max_size=4))
def test_any_field_gives_a_refusal_or_none(values: list[str]) -> None:
    found = read_proxy_status(values)

    assert found is None or isinstance(found, Received)
    read_list(values)


@given(token=st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True))
def test_an_unknown_reason_is_kept_as_it_came(token: str) -> None:
    found = read_proxy_status([f"egressd; error=http_request_denied; reason={token}"])

    assert found is not None
    assert found.reason == token
    assert isinstance(found.reason, Reason) is (token in {reason.value for reason in Reason})


@given(text=st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_a_string_survives_its_escapes(text: str) -> None:
    found = read_list([f"x;y={string_text(text)}"])

    assert found is not None
    assert found[0].parameters == {"y": text}


@given(values=st.lists(st.text(max_size=8), max_size=3))
def test_only_a_plain_no_is_a_no(values: list[str]) -> None:
    plain = len(values) == 1 and values[0].strip(" \t").lower() in {"0", "?0", "false"}

    assert asks_public_only(values) is (bool(values) and not plain)


RULES = st.lists(
    NAMES.flatmap(lambda name: st.sampled_from([name, f"! {name}", f"*.{name}:8080", f".{name}"])), max_size=4
)
documents = st.builds(
    GrantDocument,
    job=st.one_of(st.none(), st.text()),
    tenant=st.text(),
    plugin=st.one_of(st.none(), st.text()),
    version=st.integers(0, 2**53),
    lists=st.lists(
        st.builds(
            GrantList,
            st.sampled_from(ListKind),
            st.text(),
            RULES.map(tuple),
            st.one_of(st.none(), st.just(("GET", "HEAD"))),
            st.sampled_from(["enforce", "count", "off"]),
        ),
        max_size=3,
    ).map(tuple),
    endpoints=st.lists(NAMES.map(lambda name: f"{name}:8080"), max_size=2).map(tuple),
    limits=st.dictionaries(st.text(max_size=5), st.integers(0, 10**9), max_size=3),
    command=st.text(),
    public_only=st.booleans(),
)


@given(document=documents)
def test_a_grant_survives_the_round_trip(document: GrantDocument) -> None:
    assert read_grant(write_grant(document)) == document


@given(
    raw=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(
                    st.sampled_from(["job", "tenant", "lists", "rules", "kind", "version"]), inner, max_size=4
                ),
            ),
            max_leaves=12,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_any_bytes_give_a_grant_or_none(raw: bytes) -> None:
    assert isinstance(read_grant(raw), (GrantDocument, BadGrant))


@given(document=documents, data=st.data())
def test_a_grant_that_was_cut_is_none(document: GrantDocument, data: st.DataObject) -> None:
    raw = write_grant(document)

    assert isinstance(read_grant(raw[: data.draw(st.integers(0, len(raw) - 1))]), BadGrant)


@given(refusal=refusals, tenant=st.text(st.characters(codec="ascii"), max_size=20), template=st.text(max_size=40))
def test_the_sentence_shows_the_target_and_never_the_rule(refusal: Refusal, tenant: str, template: str) -> None:
    said = sentence(refusal, tenant=tenant, command_template="c {tenant} {host}")

    if refusal.target is not None:
        assert refusal.target.authority in said
        command_to_allow(refusal.target, tenant=tenant, command_template=template)
    assert DETAILS[refusal.reason] in said
