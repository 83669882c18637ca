"""The request-targets of CONNECT and of plain requests, byte by byte."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from egress_policy.addresses import AddressClass, classify
from egress_policy.names import HostName, is_localhost
from egress_policy.targets import AUTHORITY_MAX_LENGTH, AbsoluteForm, BadTarget, Target, parse_absolute, parse_authority
from egress_policy.vocabulary import Reason


def test_connect_asks_for_a_name_or_an_address_and_a_port() -> None:
    assert parse_authority(b"Example.com.:443") == Target("https", HostName("example.com"), 443)
    assert parse_authority(b"10.0.0.7:8080") == Target("https", ip_address("10.0.0.7"), 8080)
    assert parse_authority(b"[2606:4700::1]:443") == Target("https", ip_address("2606:4700::1"), 443)


@pytest.mark.case("D12")
@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"::1:443", Reason.MALFORMED_TARGET),
        (b"[::1]", Reason.MALFORMED_PORT),
        (b"host", Reason.MALFORMED_PORT),
        (b"10.0.0.7", Reason.MALFORMED_PORT),
        (b":443", Reason.MALFORMED_TARGET),
        (b"", Reason.MALFORMED_TARGET),
        (b":", Reason.MALFORMED_TARGET),
        (b"host:", Reason.MALFORMED_PORT),
        (b"host:0", Reason.MALFORMED_PORT),
        (b"host:65536", Reason.MALFORMED_PORT),
        (b"host:+443", Reason.MALFORMED_PORT),
        (b"host:4_4_3", Reason.MALFORMED_PORT),
        ("host:٤٤٣".encode(), Reason.MALFORMED_TARGET),
        (b"host: 443", Reason.MALFORMED_PORT),
        (b"host:443 ", Reason.MALFORMED_PORT),
        (b"host:443:443", Reason.MALFORMED_TARGET),
        (b"[::1]443", Reason.MALFORMED_TARGET),
    ],
)
def test_case_d12_a_connect_target_has_one_host_and_one_port(raw: bytes, reason: Reason) -> None:
    found = parse_authority(raw)

    assert isinstance(found, BadTarget)
    assert found.reason is reason


@pytest.mark.case("A3", "A4", "D1", "D10", "D14", "D18")
@pytest.mark.parametrize(
    "host",
    [
        "１２７.0.0.1".encode(),
        "①②⑦.0.0.1".encode(),
        "127。0。0。1".encode(),
        b"127.0.0.1 x",
        b"127.0.0.1\x00",
        b"127.0.0.1.",
        b"2130706433",
        b"0x7f000001",
        b"0177.0.0.1",
        b"127.1",
        b"attacker.example\x00.google.com",
        b"%65xample.com",
        b"example.com%00",
        b"example.com%2f",
        b"127.0.0.%31",
        b"[::1%2500]x",
        b"exa\tmple.com",
        b"exa\r\nmple.com",
        b"h\\@e",
        b"user@host",
        b"user:pass@host",
        b"a/b",
        b"a?b",
        b"a#b",
        b"b\xc3\xbccher.de",
        b"\xe2\x84\xaaelvin.com",
        b"*.example.com",
        b"a,b",
        b"http://host",
    ],
)
def test_other_spellings_of_a_host_are_malformed_and_never_decoded(host: bytes) -> None:
    connect = parse_authority(host + b":443")
    plain = parse_absolute(b"http://" + host + b"/")

    assert isinstance(connect, BadTarget)
    assert connect.reason in {Reason.MALFORMED_TARGET, Reason.MALFORMED_PORT}
    # A slash or question mark ends the authority of an absolute target, so what precedes it is the host there.
    assert isinstance(plain, BadTarget) or (
        host in {b"a/b", b"a?b", b"http://host"} and plain.target.host == HostName("a")
    )


@pytest.mark.case("D10")
@pytest.mark.parametrize("host", [b"[fe80::1%eth0]", b"[fe80::1%25eth0]"])
def test_a_zone_is_a_reason_of_its_own(host: bytes) -> None:
    for found in (parse_authority(host + b":443"), parse_absolute(b"http://" + host + b"/")):
        assert isinstance(found, BadTarget)
        assert found.reason is Reason.SCOPED_IP


@pytest.mark.case("A6", "A7", "A9", "A10", "A12", "A13")
@pytest.mark.parametrize(
    "raw",
    [
        *(b"[::ffff:127.0.0.1]:80", b"[::ffff:7f00:1]:80", b"[0:0:0:0:0:ffff:127.0.0.1]:80", b"[::127.0.0.1]:80"),
        *(b"[64:ff9b:1::a00:1]:80", b"[2002:7f00:1::]:80", b"[2002:a9fe:a9fe::]:80", b"[::ffff:0:127.0.0.1]:80"),
        *(b"[2606:4700::5efe:7f00:1]:80", b"[::]:80", b"0.0.0.0:80", b"0.1.2.3:80", b"[::ffff:100.100.100.200]:80"),
        *(b"127.0.0.1:80", b"[::1]:80", b"[0000::0001]:80", b"[::ffff:a9fe:a9fe]:80"),
    ],
)
def test_a_literal_that_is_read_at_all_is_judged_by_what_it_is(raw: bytes) -> None:
    found = parse_authority(raw)

    assert isinstance(found, Target)
    assert not isinstance(found.host, HostName)
    assert classify(found.host) is AddressClass.FLOOR


@pytest.mark.case("C3")
@pytest.mark.parametrize("raw", [b"evil.localhost:80", b"EVIL.LOCALHOST.:80", b"localhost:80"])
def test_localhost_names_stay_names_and_are_known_as_such(raw: bytes) -> None:
    found = parse_authority(raw)

    assert isinstance(found, Target)
    assert isinstance(found.host, HostName)
    assert is_localhost(found.host)


def test_a_connect_target_has_a_bound() -> None:
    longest = b".".join([b"a" * 49] * 5) + b".bcd.:65535"
    assert len(longest) == AUTHORITY_MAX_LENGTH

    assert isinstance(parse_authority(longest), Target)
    assert isinstance(parse_authority(longest + b"5"), BadTarget)
    assert isinstance(parse_authority(b"[" * 1_000_000), BadTarget)


@pytest.mark.parametrize(
    ("raw", "host", "port", "path"),
    [
        (b"http://example.com/", "example.com", 80, b"/"),
        (b"HTTP://EXAMPLE.COM./a/b?c=d", "example.com", 80, b"/a/b?c=d"),
        (b"http://example.com:8080/x", "example.com", 8080, b"/x"),
        (b"http://example.com?q", "example.com", 80, b"/?q"),
        (b"http://example.com?q/r", "example.com", 80, b"/?q/r"),
        (b"http://10.0.0.7:8080//x", "10.0.0.7", 8080, b"//x"),
        (b"http://[2606:4700::1]/", "2606:4700::1", 80, b"/"),
        (b'http://h/a|b{}"^`[]%zz%2f..;@:/../', "h", 80, b'/a|b{}"^`[]%zz%2f..;@:/../'),
        (b"http://h/@evil.com/", "h", 80, b"/@evil.com/"),
        (b"http://h?http://e@f/", "h", 80, b"/?http://e@f/"),
    ],
)
def test_a_plain_target_is_a_host_and_the_path_to_ask_for(raw: bytes, host: str, port: int, path: bytes) -> None:
    found = parse_absolute(raw)

    assert isinstance(found, AbsoluteForm)
    assert (found.target.scheme, found.target.host_text, found.target.port) == ("http", host, port)
    assert found.path == path
    assert not found.is_bare


def test_a_plain_target_without_path_and_query_is_told_apart_for_options() -> None:
    found = parse_absolute(b"http://example.com:8080")

    assert isinstance(found, AbsoluteForm)
    assert (found.path, found.is_bare) == (b"/", True)


@pytest.mark.case("D15")
@pytest.mark.parametrize("raw", [b"https://host/", b"HTTPS://host:443/", b"https:host"])
def test_https_in_absolute_form_is_told_to_connect(raw: bytes) -> None:
    found = parse_absolute(raw)

    assert isinstance(found, BadTarget)
    assert found.reason is Reason.UNSUPPORTED_SCHEME
    assert "CONNECT" in found.detail


@pytest.mark.case("D16")
@pytest.mark.parametrize(
    "raw",
    [
        *(b"ftp://h/", b"file:///etc/passwd", b"gopher://h:25/_x", b"unix:/run/x.sock", b"ws://h/", b"httpx://h/"),
        *(
            b"http+unix://h/",
            b"javascript:alert(1)",
            b"jar:http://127.0.0.1!/",
            b"dict://h:1/",
            b"view-source:http://h/",
        ),
    ],
)
def test_other_schemes_are_refused(raw: bytes) -> None:
    found = parse_absolute(raw)

    assert isinstance(found, BadTarget)
    assert found.reason is Reason.UNSUPPORTED_SCHEME


@pytest.mark.case("D18")
@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"/", b"*", b"//h/", b"h/", b"http:/h/", b"http:h", b"http:", b"http:\\\\h/", b"http:///h/", b"http://"),
        *(
            b"http://exa\tmple.com/",
            b"http://h\r\n/",
            b"http://h\\@e/",
            b"http://h/\\x",
            b"http://h/a b",
            b"http://h/\x00",
        ),
        *(b"http://h/\x7f", b"http://h/\xc3\xbc", b"http://h/#f", b"http://h#@e/", b"http://u@h/", b"http://u:p@h/"),
        *(
            b"http://@h/",
            b"http://h@/",
            b" http://h/",
            b"\thttp://h/",
            b"http://h\x0b/",
            b"http://[::1/",
            b"http://::1/",
        ),
        *(b"http://?q", b"http://#f", b"http://%68/", b"http://h%00/"),
    ],
)
def test_a_plain_target_outside_the_grammar_is_malformed(raw: bytes) -> None:
    found = parse_absolute(raw)

    assert isinstance(found, BadTarget)
    assert found.reason is Reason.MALFORMED_TARGET


@pytest.mark.parametrize("port", [b"", b"0", b"65536", b"+80", b"080000", b"8 0"])
def test_an_odd_port_of_a_plain_target_is_malformed(port: bytes) -> None:
    found = parse_absolute(b"http://h:" + port + b"/")

    assert isinstance(found, BadTarget)
    assert found.reason is Reason.MALFORMED_PORT


def test_a_plain_target_may_be_long_but_its_authority_may_not() -> None:
    assert isinstance(parse_absolute(b"http://h/" + b"a" * 1_000_000), AbsoluteForm)
    assert isinstance(parse_absolute(b"http://" + b"a" * 1_000_000), BadTarget)
    assert isinstance(parse_absolute(b"a" * 1_000_000), BadTarget)


def test_details_are_fit_for_records() -> None:
    for raw in (b"\x1b[2J:1", b"h\r\nX: y:1", b"'\"<script>:443", b"\xff\xfe:1"):
        found = parse_authority(raw)
        assert isinstance(found, BadTarget)
        assert found.detail.isascii()
        assert found.detail.isprintable()
        assert len(found.detail) < 300
