"""Every spelling of an address that led somewhere it should not elsewhere, asked of a real egressd in a namespace.

The list of the tenant allows every name, address and port, so that nothing but the floor stands between. Behind the
node all these addresses answer; that nothing was sent is what the kernel counted in the node's namespace.
"""

from __future__ import annotations

import pytest

from support.lab_wire import connect_request, get_request
from support.lab_world import World

pytestmark = pytest.mark.namespace

FORBIDDEN = (403, "forbidden-address", "destination_ip_prohibited")
MALFORMED = (400, "malformed-target", "http_request_error")
BAD_LINE = (400, "malformed-request-line", "http_request_error")

FLOOR = [
    ("A7", "[::127.0.0.1]"),
    ("A7", "[::7f00:1]"),
    ("A9", "[64:ff9b:1::a00:1]"),
    ("A9", "[64:ff9b::7f00:1]"),
    ("A10", "[2002:7f00:1::]"),
    ("A10", "[2002:a9fe:a9fe::]"),
    ("A12", "[::ffff:0:127.0.0.1]"),
    ("A12", "[2a0c:5ac0:1::5efe:7f00:1]"),
    ("A12", "[2a0c:5ac0:1::200:5efe:a9fe:a9fe]"),
    ("A13", "[::]"),
    ("A13", "[::1]"),
    ("A13", "0.0.0.0"),
    ("A13", "0.1.2.3"),
    ("A13", "127.0.0.1"),
    ("A13", "127.255.255.254"),
    ("A14", "224.0.0.1"),
    ("A14", "239.255.255.250"),
    ("A14", "255.255.255.255"),
    ("A14", "[ff02::1]"),
    ("A14", "[ff0e::1]"),
    ("A15", "100.64.0.1"),
    ("A15", "100.127.255.254"),
    ("A16", "192.0.0.1"),
    ("A16", "198.18.0.1"),
    ("A16", "198.19.255.254"),
    ("A16", "240.0.0.1"),
    ("A16", "192.0.2.1"),
    ("A16", "198.51.100.1"),
    ("A16", "203.0.113.1"),
    ("A17", "[fec0::1]"),
    ("A17", "[3fff::1]"),
    ("A17", "[5f00::1]"),
    ("A17", "[100::1]"),
    ("A17", "[2001:db8::1]"),
    ("A17", "[2001::1]"),
    ("A17", "[4000::1]"),
    ("A17", "[e000::1]"),
    ("A17", "[fe80::1]"),
    ("A20", "192.88.99.1"),
    ("A20", "[::ffff:168.63.129.16]"),
    ("A20", "[::ffff:a9fe:a9fe]"),
    ("A20", "[::ffff:10.0.0.7]"),
    ("A20", "10.0.0.7"),
    ("A20", "172.16.0.1"),
    ("A20", "192.168.1.1"),
    ("A20", "[fd00::7]"),
    ("B1", "169.254.169.254"),
    ("B1", "[fd00:ec2::254]"),
    ("B1", "169.254.169.253"),
    ("B1", "[fd00:ec2::253]"),
    ("B1", "169.254.169.123"),
    ("B1", "[fd00:ec2::123]"),
    ("B2", "169.254.170.2"),
    ("B3", "169.254.170.23"),
    ("B3", "[fd00:ec2::23]"),
    ("B4", "[fd20:ce::254]"),
    ("B4", "169.254.169.252"),
    ("B5", "168.63.129.16"),
    ("B6", "100.100.100.200"),
    ("B6", "[::ffff:100.100.100.200]"),
    ("B6", "100.100.2.136"),
    ("B6", "100.100.2.138"),
    ("B7", "192.0.0.192"),
    ("B7", "[fd00:c1::a9fe:a9fe]"),
    ("B8", "[fd00:a9fe:a9fe::1]"),
    ("B8", "[fe80::a9fe:a9fe]"),
    ("B9", "169.254.0.23"),
    ("B10", "169.254.42.42"),
    ("B10", "[fd00:42::42]"),
    ("F24", "45.83.65.2"),
    ("F24", "[2a0c:5ac0:2::2]"),
]

ODD = [
    ("A3", "１２７.0.0.1", BAD_LINE),
    ("A3", "①②⑦.0.0.1", BAD_LINE),
    ("A3", "127。0。0。1", BAD_LINE),
    ("A4", "127.0.0.1 x", BAD_LINE),
    ("A4", "127.0.0.1\tx", BAD_LINE),
    ("D14", "0x7f000001", MALFORMED),
    ("D14", "0x7f.0.0.1", MALFORMED),
    ("D14", "2130706433", MALFORMED),
    ("D14", "017700000001", MALFORMED),
    ("D14", "0177.0.0.1", MALFORMED),
    ("D14", "127.1", MALFORMED),
    ("D14", "127.0.1", MALFORMED),
    ("D14", "127.0.0.0x1", MALFORMED),
    ("D14", "127.0.0.01", MALFORMED),
    ("D14", "127.0.0.256", MALFORMED),
    ("D14", "1.2.3.4.5", MALFORMED),
    ("D14", "127.0.0.1.", (400, "malformed-target", "http_request_error")),
    ("D14", "[127.0.0.1]", MALFORMED),
    ("D14", "[::ffff:127.0.0.1%25lo]", (403, "scoped-ip", "destination_ip_prohibited")),
    ("D14", "[fe80::1%eth0]", (403, "scoped-ip", "destination_ip_prohibited")),
]


@pytest.mark.parametrize(("case", "host"), FLOOR, ids=[f"{case}-{host}" for case, host in FLOOR])
@pytest.mark.case(
    "A7", "A9", "A10", "A12", "A13", "A14", "A15", "A16", "A17", "A20", "B1", "B2", "B3", "B4", "B5", "B6"
)
@pytest.mark.case("B7", "B8", "B9", "B10", "F24", "F3")
def test_a_forbidden_literal_is_refused_in_both_forms_with_nothing_sent(world: World, case: str, host: str) -> None:
    before = world.sent()
    for request in (connect_request(f"{host}:443"), get_request(f"http://{host}/")):
        reply = world.open_daemon.ask(request)
        assert (reply.status, reply.reason, reply.error) == FORBIDDEN, (case, reply)
        assert reply.phrase == "Refused by egress policy (forbidden-address)"
    assert world.sent() == before


@pytest.mark.parametrize(("case", "host", "wanted"), ODD, ids=[f"{case}-{host!a}" for case, host, _ in ODD])
@pytest.mark.case("A3", "A4", "D14")
def test_an_odd_spelling_is_refused_with_nothing_sent(
    world: World, case: str, host: str, wanted: tuple[int, str, str]
) -> None:
    before = world.sent()
    reply = world.open_daemon.ask(connect_request(f"{host}:443", host="x.example:443"))
    assert (reply.status, reply.reason, reply.error) == wanted, (case, reply)
    assert world.sent() == before


@pytest.mark.case("D13")
def test_a_public_literal_needs_a_rule_of_its_own(world: World) -> None:
    before = world.sent()
    for host in ("45.83.64.10", "[2a0c:5ac0:1::10]", "[::ffff:45.83.64.10]"):
        reply = world.daemon.ask(connect_request(f"{host}:443"))
        assert (reply.status, reply.reason) == (403, "ip-not-on-allowlist")
    assert world.sent() == before


def test_the_count_that_proves_silence_does_count(world: World) -> None:
    before = world.sent()
    with world.open_daemon.connect() as client:
        client.sendall(connect_request("45.83.64.10:443"))
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
    after = world.sent()
    assert (after.dials, after.datagrams) == (before.dials + 1, before.datagrams)


@pytest.mark.case("A6", "B5", "B6", "C3")
@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.7", "169.254.169.254", "168.63.129.16", "100.64.0.1", "45.83.65.2", "0.0.0.0",
        "192.0.0.192", "::ffff:100.100.100.200", "::ffff:10.0.0.7", "::1", "fd00:ec2::254", "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::", "fe80::1",
    ],
)  # fmt: skip
def test_a_listed_name_with_such_an_address_is_refused_and_nothing_dialled(world: World, address: str) -> None:
    name = world.name_with(address)
    before = world.sent()
    for request in (connect_request(f"{name}:443"), get_request(f"http://{name}/")):
        reply = world.open_daemon.ask(request)
        assert (reply.status, reply.reason) == (403, "resolved-address-denied")
        assert address not in str(reply)
    assert world.sent().dials == before.dials
