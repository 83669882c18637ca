"""Host names from the wire and from people."""

from __future__ import annotations

import pytest

from egress_policy.names import (
    NAME_MAX_LENGTH,
    BadName,
    HostName,
    is_floor_name,
    is_localhost,
    needs_exact_rule,
    parse_name,
    to_name,
)


def name(text: str) -> HostName:
    found = parse_name(text)
    assert isinstance(found, HostName), found
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("example.com", "example.com"),
        ("EXAMPLE.Com", "example.com"),
        ("a", "a"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("r3---sn-4g5e6nl7.googlevideo.com", "r3---sn-4g5e6nl7.googlevideo.com"),
        ("some-.blogspot.com", "some-.blogspot.com"),
        ("xn--bcher-kva.de", "xn--bcher-kva.de"),
        ("127.0.0.1.nip.io", "127.0.0.1.nip.io"),
        ("0x7f.example", "0x7f.example"),
        ("1.2.3.4a", "1.2.3.4a"),
        ("a.b2", "a.b2"),
        ("a" * 63 + ".b", "a" * 63 + ".b"),
    ],
)
def test_a_name_is_read_in_lower_case(text: str, expected: str) -> None:
    assert parse_name(text) == HostName(expected)


@pytest.mark.case("D3")
@pytest.mark.parametrize("text", ["api.example.com.", "API.example.com.", "api.example.com"])
def test_one_final_dot_is_dropped(text: str) -> None:
    assert parse_name(text) == HostName("api.example.com")
    assert to_name(text) == HostName("api.example.com")


@pytest.mark.case("D3")
@pytest.mark.parametrize("text", ["api.example.com..", "..", ".", "", ".example.com", "a..b", ". ."])
def test_empty_labels_make_no_name(text: str) -> None:
    assert isinstance(parse_name(text), BadName)
    assert isinstance(to_name(text), BadName)


@pytest.mark.parametrize("text", ["a" * 64 + ".b", "b." + "a" * 64, "x" * 64])
def test_a_label_of_sixty_four_characters_is_too_long(text: str) -> None:
    found = parse_name(text)

    assert isinstance(found, BadName)
    assert "label is longer" in found.detail


def test_a_name_has_at_most_253_characters_without_its_final_dot() -> None:
    longest = ".".join(["a" * 49] * 5) + ".bcd"
    assert len(longest) == NAME_MAX_LENGTH

    assert parse_name(longest) == HostName(longest)
    assert parse_name(longest + ".") == HostName(longest)
    assert isinstance(parse_name(longest + "e"), BadName)
    assert isinstance(parse_name("x" * 1_000_000), BadName)


@pytest.mark.case("D1")
@pytest.mark.parametrize("character", [*map(chr, range(0x2D)), "/", *":;<=>?@[\\]^`{|}~\x7f\x80\xa0"])
def test_a_character_outside_the_alphabet_makes_no_name(character: str) -> None:
    text = f"attacker.example{character}.google.com"

    assert isinstance(parse_name(text), BadName)
    assert isinstance(parse_name(character), BadName)


@pytest.mark.case("A3")
@pytest.mark.parametrize("text", ["１２７.0.0.1", "①②⑦.0.0.1", "127。0。0。1", "127．0．0．1", "𝟏𝟐𝟕.𝟎.𝟎.𝟏"])
def test_digits_and_dots_of_other_scripts_are_no_name_on_either_way(text: str) -> None:
    assert isinstance(parse_name(text), BadName)
    assert isinstance(to_name(text), BadName)


@pytest.mark.parametrize("text", ["\u212a.com", "ﬁ.com", "bücher.de", "ｅxample.com"])
def test_the_wire_takes_ascii_only(text: str) -> None:
    assert isinstance(parse_name(text), BadName)


@pytest.mark.case("D14")
@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1.",
        "2130706433",
        "0x7f000001",
        "0X7F000001",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f.0.0.0x1",
        "1.2.3.4.5",
        "256.256.256.256",
        "example.0x",
        "example.0x7f.",
        "example.123",
        "0",
        "00",
    ],
)
def test_what_others_read_as_an_odd_ipv4_address_is_no_name(text: str) -> None:
    assert isinstance(parse_name(text), BadName)
    assert isinstance(to_name(text), BadName)


@pytest.mark.parametrize("text", ["-x.com", "-", "--for.example"])
def test_a_name_does_not_begin_like_an_option(text: str) -> None:
    assert parse_name(text) == BadName("the name begins with a hyphen")


def test_a_detail_echoes_little_and_nothing_unprintable() -> None:
    found = parse_name("\x1b[31m\r\n" + "é" * 500)

    assert isinstance(found, BadName)
    assert found.detail.isascii()
    assert found.detail.isprintable()
    assert len(found.detail) < 400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bücher.de", "xn--bcher-kva.de"),
        ("BÜCHER.DE.", "xn--bcher-kva.de"),
        ("faß.de", "xn--fa-hia.de"),  # non-transitional: not fass.de
        ("日本語。ＪＰ", "xn--wgv71a119e.jp"),
        ("🔐.example.com", "xn--jv8h.example.com"),
        ("✉\ufe0f.example.com", "xn--4bi.example.com"),
        ("ex\u00adam\u200bple.com", "example.com"),
        ("ⓔⓧⓐⓜⓟⓛⓔ.ⓒⓞⓜ", "example.com"),
        ("ｌocalhost", "localhost"),
        ("xn--bcher-kva.dé", "xn--bcher-kva.xn--d-bga"),
    ],
)
def test_what_people_write_is_converted_as_browsers_do(text: str, expected: str) -> None:
    assert to_name(text) == HostName(expected)


@pytest.mark.parametrize(
    "text",
    [
        "a\u200cb.com",  # a joiner out of place
        "\u0301a.com",  # begins with a combining mark
        "xn--tešla.com",
        "xn--a.ß",  # an A-label of nothing
        "xn--fa-hia\u2260.de",
        "אa.com",  # right to left and left to right in one label
        "a／b.com",  # becomes a slash
        "good．com＠evil.com",
        "a℀b.com",  # becomes a/c
        "evil.com？.com",
        "a：80",
        "\ud800.com",
        "ü" * 60 + ".de",
        "ü" * 2000,
        "xn--" + "a" * 70 + ".ü",
        "\u2260\x00.com",
    ],
)
def test_what_people_write_is_refused_where_it_is_no_name(text: str) -> None:
    found = to_name(text)

    assert isinstance(found, BadName)
    assert found.detail.isascii()
    assert found.detail.isprintable()


def test_conversion_has_a_bound_on_its_work() -> None:
    # The punycode codec is quadratic; beyond the bound it is never asked.
    assert isinstance(to_name("ü" * 10_000_000), BadName)


@pytest.mark.case("B4", "B9", "B11")
@pytest.mark.parametrize(
    "text",
    [
        "metadata",
        "metadata.google.internal",
        "METADATA.google.internal.",
        "metadata.goog",
        "metadata.tencentyun.com",
        "instance-data",
        "instance-data.ec2.internal",
        "host.docker.internal",
        "gateway.docker.internal",
        "a.b.docker.internal",
        "localhost",
        "LOCALHOST.",
        "evil.localhost",
    ],
)
def test_metadata_and_loopback_names_are_floor(text: str) -> None:
    assert is_floor_name(name(text))


@pytest.mark.parametrize(
    "text",
    [
        "metadata.com",
        "xmetadata.goog",
        "x.metadata.goog",
        "instance-data.com",
        "docker.internal",
        "xdocker.internal",
        "localhost.com",
        "notlocalhost",
        "tencentyun.com",
    ],
)
def test_names_beside_the_floor_are_not_floor(text: str) -> None:
    assert not is_floor_name(name(text))


@pytest.mark.case("B11")
@pytest.mark.parametrize(
    "text",
    [
        "kubernetes",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "printer.local",
        "searx.internal",
        "home.arpa",
        "nas.home.arpa",
        "ip6-localhost",
        "svc",
    ],
)
def test_names_of_this_network_need_an_exact_rule(text: str) -> None:
    assert needs_exact_rule(name(text))


@pytest.mark.parametrize("text", ["example.com", "local.example", "xhome.arpa", "1.in-addr.arpa", "a.svc.example"])
def test_names_of_the_world_need_no_exact_rule(text: str) -> None:
    assert not needs_exact_rule(name(text))


def test_localhost_is_itself_and_all_below() -> None:
    assert is_localhost(name("localhost"))
    assert is_localhost(name("a.localhost"))
    assert not is_localhost(name("xlocalhost"))
    assert not is_localhost(name("localhost.localdomain"))
