"""Any bytes give a target or a refusal and never an exception; what was read is read again as the same."""

from __future__ import annotations

import string

from hypothesis import example, given
from hypothesis import strategies as st

from egress_policy.names import BadName, HostName, parse_name, to_name
from egress_policy.targets import (
    AbsoluteForm,
    BadTarget,
    BadUrl,
    Target,
    Url,
    parse_absolute,
    parse_authority,
    parse_url,
    same_authority,
)

# Text in which something is likely to be read: hosts, ports, and what breaks them.
PIECES = [
    *(
        "example",
        "com",
        "localhost",
        "127",
        "0",
        "0x7f",
        "1",
        "xn--a",
        "-",
        "_",
        ".",
        "..",
        ":",
        "::",
        "[",
        "]",
        "@",
        "%",
    ),
    *(
        "%00",
        "%2f",
        "/",
        "//",
        "\\",
        "?",
        "#",
        " ",
        "\t",
        "\r\n",
        "\x00",
        "443",
        "80",
        "65536",
        "+1",
        "http:",
        "https:",
    ),
    *(
        "fe80::1",
        "::ffff:127.0.0.1",
        "*",
        "é",
        "ß",
        "。",
        "１",
        "\u200d",
        "\u0301",
        "א",
        "\ufeff",
        "\ud800",
        "/.",
        "%2e",
    ),
]
texts = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
raws = st.one_of(st.binary(max_size=120), texts.map(lambda text: text.encode("utf-8", "surrogatepass")))
WIRE_ALPHABET = set(string.ascii_lowercase + string.digits + "-_.")
BASE = Url("https", HostName("base.example"), 443, "/a/b", "q", "f")


def check_target(target: Target) -> None:
    assert 1 <= target.port <= 65535
    if isinstance(target.host, HostName):
        assert set(target.host.text) <= WIRE_ALPHABET
        assert parse_name(target.host.text) == target.host
    again = parse_authority(target.authority.encode("ascii"))
    assert isinstance(again, Target)
    assert (again.host, again.port) == (target.host, target.port)
    assert same_authority(target.authority.encode("ascii"), target)
    assert same_authority(target.authority.upper().encode("ascii"), target)


def check_detail(detail: str) -> None:
    assert detail.isascii()
    assert detail.isprintable()
    assert len(detail) < 500


@given(raw=raws)
@example(raw=b"[::1%25]:1")
def test_any_bytes_give_a_connect_target_or_a_refusal(raw: bytes) -> None:
    found = parse_authority(raw)

    if isinstance(found, Target):
        check_target(found)
        assert found.scheme == "https"
        assert same_authority(raw.lower(), found) or b"[" in raw or b":0" in raw or raw.endswith(b".")
    else:
        assert isinstance(found, BadTarget)
        check_detail(found.detail)


@given(raw=st.one_of(raws, raws.map(lambda raw: b"http://" + raw)))
def test_any_bytes_give_a_plain_target_or_a_refusal(raw: bytes) -> None:
    found = parse_absolute(raw)

    if isinstance(found, AbsoluteForm):
        check_target(found.target)
        assert found.target.scheme == "http"
        assert found.path.startswith(b"/")
        assert all(0x21 <= byte <= 0x7E for byte in found.path)
        assert found.path.removeprefix(b"/") in raw
    else:
        check_detail(found.detail)


@given(raw=raws, value=raws)
def test_any_host_field_compares_without_an_exception(raw: bytes, value: bytes) -> None:
    target = parse_authority(raw)
    if isinstance(target, Target) and same_authority(value, target):
        other = parse_authority(
            value if b":" in value.rpartition(b"]")[2] else value + b":" + str(target.port).encode()
        )
        assert isinstance(other, Target)
        assert (other.host, other.port) == (target.host, target.port)


@given(text=texts, base=st.sampled_from([None, BASE]))
def test_any_text_gives_a_url_or_a_refusal(text: str, base: Url | None) -> None:
    found = parse_url(text, base)

    if isinstance(found, BadUrl):
        check_detail(found.detail)
        return
    assert found.text.isascii()
    assert found.text.isprintable()
    assert not set(found.text) & {" ", "<", ">"}
    assert parse_url(found.text) == found
    check_target(found.target)
    # The proxy reads what the client sends as the same destination.
    sent = parse_absolute(f"http://{found.target.authority}{found.request_path}".encode())
    assert isinstance(sent, AbsoluteForm)
    assert (sent.target.host, sent.target.port) == (found.host, found.port)
    assert sent.path == found.request_path.encode()


@given(text=texts)
def test_any_text_gives_a_name_or_a_refusal_and_conversion_is_done_once(text: str) -> None:
    wire, human = parse_name(text), to_name(text)

    if isinstance(wire, HostName):
        assert human == wire
    if isinstance(human, HostName):
        assert parse_name(human.text) == human
        assert to_name(human.text) == human
        assert to_name(human.text.upper() + ".") == human
    else:
        assert isinstance(human, BadName)
        check_detail(human.detail)


@given(text=st.text(max_size=40))
def test_conversion_never_gives_what_the_wire_would_not_take(text: str) -> None:
    found = to_name(f"{text}.example")

    if isinstance(found, HostName):
        assert found.text == "example" or found.text.endswith(".example")
        assert set(found.text) <= WIRE_ALPHABET


@given(
    left=st.text(string.ascii_letters + string.digits, min_size=1, max_size=20),
    inside=st.sampled_from([*range(0x21), *b"\"#$%&'()*+,/;<=>?@[\\]^`{|}~", *range(0x7F, 0x100)]),
    right=st.text(string.ascii_letters + string.digits, min_size=1, max_size=20),
)
def test_one_odd_byte_anywhere_in_a_host_makes_the_target_malformed(left: str, inside: int, right: str) -> None:
    raw = left.encode() + bytes([inside]) + right.encode() + b".example:443"

    assert isinstance(parse_authority(raw), BadTarget)
