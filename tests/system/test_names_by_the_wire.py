"""Names and authorities asked of a real egressd: what no rule allows is neither dialled nor looked up, in any form."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lab_wire import connect_request, get_request
from support.lab_world import World

pytestmark = pytest.mark.namespace

# Asked of a tenant that allows every name on every port, so that only the form of the authority stands between.
AUTHORITIES = [
    ("D1", "attacker.example\x00.page.example:443", "malformed-request-line"),
    ("D3", "page.example..:443", "malformed-target"),
    ("D3", ".page.example:443", "malformed-target"),
    ("D3", "page..example:443", "malformed-target"),
    ("D3", ".:443", "malformed-target"),
    ("D10", "%70age.example:443", "malformed-target"),
    ("D10", "page.example%00:443", "malformed-target"),
    ("D10", "page.example%2f:443", "malformed-target"),
    ("D10", "page.example%2e:443", "malformed-target"),
    ("D12", "::1:443", "malformed-target"),
    ("D12", "[::1]", "malformed-port"),
    ("D12", "[::1:443", "malformed-target"),
    ("D12", "page.example", "malformed-port"),
    ("D12", "page.example:", "malformed-port"),
    ("D12", ":443", "malformed-target"),
    ("D12", "page.example:0", "malformed-port"),
    ("D12", "page.example:65536", "malformed-port"),
    ("D12", "page.example:4294967739", "malformed-port"),
    ("D12", "page.example:+443", "malformed-port"),
    ("D12", "page.example:-443", "malformed-port"),
    ("D12", "page.example:4_4_3", "malformed-port"),
    ("D12", "page.example:٤٤٣", "malformed-request-line"),
    ("D12", "page.example: 443", "malformed-request-line"),
    ("D12", "page.example:000443", "malformed-port"),
    ("D12", "page.example:443:443", "malformed-target"),
    ("D12", "user@page.example:443", "malformed-target"),
    ("D12", "page.example:443/", "malformed-port"),
    ("D12", "https://page.example:443", "malformed-target"),
    ("D18", "pa\tge.example:443", "malformed-request-line"),
    ("D18", "page.example\\@inside.example:443", "malformed-target"),
    ("D18", "page.exa\rmple:443", "malformed-request-line"),
    ("E11", "-", "malformed-target"),
]

URLS = [
    ("D15", "https://page.example/", "unsupported-scheme"),
    ("D15", "HTTPS://page.example:443/", "unsupported-scheme"),
    ("D16", "ftp://page.example/", "unsupported-scheme"),
    ("D16", "file:///etc/passwd", "unsupported-scheme"),
    ("D16", "gopher://page.example:70/_x", "unsupported-scheme"),
    ("D16", "unix:/run/egressd/admin.sock", "unsupported-scheme"),
    ("D16", "javascript:alert(1)", "unsupported-scheme"),
    ("D18", "http://pa\tge.example/", "malformed-request-line"),
    ("D18", "http://page.example\\@inside.example/", "malformed-target"),
    ("D18", "http://h\\@page.example/", "malformed-target"),
    ("D18", "http://user@page.example/", "malformed-target"),
    ("D18", "http://user:word@page.example/", "malformed-target"),
    ("D18", "http:///page.example/", "malformed-target"),
    ("D18", "http://page.example:0x50/", "malformed-port"),
]


@pytest.mark.parametrize(("case", "authority", "reason"), AUTHORITIES, ids=[ascii(row[1]) for row in AUTHORITIES])
@pytest.mark.case("D1", "D3", "D10", "D12", "D18", "E11")
def test_an_authority_outside_the_grammar_is_refused_with_nothing_sent(
    world: World, case: str, authority: str, reason: str
) -> None:
    before = world.sent()
    reply = world.open_daemon.ask(connect_request(authority, host="page.example:443"))
    assert (reply.status, reply.error) == (400, "http_request_error"), (case, reply)
    assert reply.reason == reason
    assert world.sent() == before


@pytest.mark.parametrize(("case", "url", "reason"), URLS, ids=[ascii(row[1]) for row in URLS])
@pytest.mark.case("D15", "D16", "D18")
def test_a_url_that_is_no_plain_http_url_is_refused_with_nothing_sent(
    world: World, case: str, url: str, reason: str
) -> None:
    before = world.sent()
    request = f"GET {url} HTTP/1.1\r\nHost: page.example\r\nConnection: close\r\n\r\n".encode()
    reply = world.open_daemon.ask(request)
    assert (reply.status, reply.error) == (400, "http_request_error"), (case, reply)
    assert reply.reason == reason
    assert world.sent() == before


@pytest.mark.case("D15")
def test_https_in_absolute_form_is_told_to_use_connect(world: World) -> None:
    reply = world.open_daemon.ask(b"GET https://page.example/ HTTP/1.1\r\nHost: page.example\r\n\r\n")
    assert "CONNECT" in reply.get("proxy-status")[0] + reply.body.decode()


@pytest.mark.case("D16")
def test_a_unix_socket_header_chooses_nothing(world: World) -> None:
    before = world.sent()
    reply = world.daemon.ask(get_request("http://other.example/", "x-unix-socket: /run/egressd/admin.sock"))
    assert (reply.status, reply.reason) == (403, "not-on-allowlist")
    assert world.sent() == before


@pytest.mark.case("D3")
@pytest.mark.parametrize("host", ["page.example", "page.example.", "PAGE.Example", "PAGE.EXAMPLE."])
def test_case_and_one_final_dot_make_no_difference(world: World, host: str) -> None:
    assert world.tls_status(host, world.daemon) == 200


@pytest.mark.case("C4", "F3")
@pytest.mark.parametrize(
    "host", ["c2VjcmV0.a.evil.example", "notpage.example", "page.example.evil.example", "xn--pge-jma.example"]
)
def test_a_name_that_no_rule_allows_is_not_even_looked_up(world: World, host: str) -> None:
    before, asked = world.sent(), world.dns.total
    for request in (connect_request(f"{host}:443"), get_request(f"http://{host}/?secret")):
        reply = world.daemon.ask(request)
        assert (reply.status, reply.reason, reply.error) == (403, "not-on-allowlist", "http_request_denied")
    assert world.sent() == before
    assert world.dns.total == asked


@pytest.mark.case("E12")
@pytest.mark.parametrize("port", [22, 25, 53, 8443])
def test_a_listed_name_on_another_port_is_refused_with_nothing_sent(world: World, port: int) -> None:
    before = world.sent()
    reply = world.daemon.ask(connect_request(f"page.example:{port}"))
    assert (reply.status, reply.reason) == (403, "port-not-allowed")
    assert world.sent() == before


@pytest.mark.case("B4", "B9", "B11")
@pytest.mark.parametrize(
    "host",
    [
        "metadata.google.internal", "metadata.goog", "metadata", "metadata.tencentyun.com", "instance-data",
        "instance-data.ec2.internal", "host.docker.internal", "gateway.docker.internal", "localhost", "a.localhost",
        "METADATA.google.internal.",
    ],
)  # fmt: skip
def test_a_platform_name_is_refused_whatever_the_list_says(world: World, host: str) -> None:
    before = world.sent()
    for request in (connect_request(f"{host}:443"), get_request(f"http://{host}/computeMetadata/v1/")):
        reply = world.open_daemon.ask(request)
        assert (reply.status, reply.reason) == (403, "forbidden-name")
    assert world.sent() == before


@pytest.mark.case("B11")
@pytest.mark.parametrize(
    "host", ["kubernetes.default.svc", "db.internal", "printer.local", "intranet", "nas.home.arpa"]
)
def test_a_name_of_the_local_network_needs_its_own_rule(world: World, host: str) -> None:
    before = world.sent()
    reply = world.open_daemon.ask(connect_request(f"{host}:443"))
    assert (reply.status, reply.reason) == (403, "not-on-allowlist")
    assert world.sent() == before


@pytest.mark.case("E5")
def test_a_host_that_names_another_destination_is_refused(world: World) -> None:
    before = world.sent()
    reply = world.daemon.ask(connect_request("page.example:443", host="other.example:443"))
    assert (reply.status, reply.reason) == (400, "authority-mismatch")
    assert world.sent() == before


@pytest.mark.case("D2")
@pytest.mark.parametrize(
    "lists", [{"default": ""}, {"default": "# nothing yet\n"}, {}], ids=["empty", "comment", "absent"]
)
def test_an_empty_or_absent_list_allows_nothing(world: World, folder: Path, lists: dict[str, str]) -> None:
    with world.launch(folder, lists) as daemon:
        before = world.sent()
        for authority in ("page.example:443", "45.83.64.10:443"):
            reply = daemon.ask(connect_request(authority))
            assert (reply.status, reply.reason) in {(403, "not-on-allowlist"), (403, "ip-not-on-allowlist")}
        assert world.sent() == before


BROAD = [
    "*.",
    "*.*",
    "*.com",
    "foo.*.com",
    "ex*mple.com",
    ".com",
    "*.co.uk",
    "page.example/path",
    "http://page.example",
    "[fe80::1%1]",
]


@pytest.mark.case("D2", "D7")
def test_a_list_with_rules_that_grant_too_much_is_not_loaded_and_each_is_told(world: World, folder: Path) -> None:
    text = "page.example\n" + "".join(f"{rule}\n" for rule in BROAD)
    with world.launch(folder, {"default": text}, serves=False) as daemon:
        before = world.sent()
        reply = daemon.ask(connect_request("page.example:443"))
        assert (reply.status, reply.reason, reply.error) == (503, "policy-unavailable", "proxy_configuration_error")
        assert world.sent() == before
        messages = daemon.messages()
        for line, rule in enumerate(BROAD, start=2):
            assert f"default.list:{line}:" in messages, (rule, messages)
            assert rule in messages
