"""The main job in a real sandbox: a namespace with no route and no resolver, and the proxy's socket or address only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.lab import Space, join
from support.lab_daemon import BIN, bare_environment
from support.lab_wire import connect_request
from support.lab_world import PAGE_V4, TRAP_V4, World

pytestmark = pytest.mark.namespace

LINK_NODE, LINK_SANDBOX = "172.31.83.1", "172.31.83.0"


def inside(space: Space, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        space.command(*words), capture_output=True, text=True, timeout=30, check=False,
        env=bare_environment(**more), stdin=subprocess.DEVNULL,
    )  # fmt: skip


def python(space: Space, code: str) -> subprocess.CompletedProcess[str]:
    return inside(space, sys.executable, "-c", f"import socket; {code}")


def fetch(world: World, proxy: str, url: str) -> subprocess.CompletedProcess[str]:
    return inside(
        world.lab.sandbox, str(BIN / "oz0-web"), "fetch", url, OZ0_WEB_PROXY=proxy, SSL_CERT_FILE=str(world.ca_file)
    )


@pytest.mark.parametrize("address", [PAGE_V4, TRAP_V4, "169.254.169.254", "45.83.65.2", "45.83.64.53"])
def test_a_direct_connection_has_no_way(world: World, address: str) -> None:
    done = python(world.lab.sandbox, f"socket.create_connection(({address!r}, 443), 5)")
    assert "Network is unreachable" in done.stderr


def test_a_name_cannot_be_looked_up(world: World) -> None:
    asked = world.dns.total
    done = python(world.lab.sandbox, "socket.getaddrinfo('page.example', 443)")
    assert done.returncode
    assert world.dns.total == asked


def test_a_page_is_fetched_by_name_through_the_socket(world: World) -> None:
    done = fetch(world, f"unix:{world.daemon.channel}", "https://page.example/")
    assert done.returncode == 0, done
    assert "The page of the lab" in done.stdout


@pytest.mark.case("F24", "H1", "H2")
def test_a_page_is_fetched_over_a_link_that_leads_to_the_node_only(world: World, folder: Path) -> None:
    node, sandbox = world.lab.node, world.lab.sandbox
    join(node, (f"{LINK_NODE}/31",), sandbox, (f"{LINK_SANDBOX}/31",))
    try:
        listener = {"name": "link", "tcp": f"{LINK_NODE}:3128", "tenant": "default"}
        with world.launch(folder, {"default": "page.example\n"}, listeners=(listener,)) as daemon:
            proxy = f"http://{LINK_NODE}:3128"
            assert fetch(world, proxy, "https://page.example/").returncode == 0
            refused = fetch(world, proxy, "https://other.example/")
            assert refused.returncode
            assert "not-on-allowlist" in refused.stdout + refused.stderr
            assert "unreachable" in python(sandbox, f"socket.create_connection(({PAGE_V4!r}, 443), 5)").stderr
            itself = daemon.ask(connect_request(f"{LINK_NODE}:3128"))
            assert (itself.status, itself.reason) == (403, "forbidden-address")
    finally:
        node.ip("link del to-sandbox")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://other.example/", "not-on-allowlist"),
        ("https://inside.example/", "resolved-address-denied"),
        ("http://metadata.google.internal/", "forbidden-name"),
        ("http://169.254.169.254/latest/meta-data/", "forbidden-address"),
    ],
)
def test_what_is_refused_is_told_with_its_reason(world: World, url: str, reason: str) -> None:
    trapped, dials = world.trap.accepted, world.sent().dials
    done = fetch(world, f"unix:{world.daemon.channel}", url)
    assert done.returncode
    assert reason in done.stdout + done.stderr
    assert (world.trap.accepted, world.sent().dials) == (trapped, dials)


def test_curl_works_with_the_usual_variable(world: World, folder: Path) -> None:
    if inside(world.lab.node, "sh", "-c", "command -v curl").returncode:
        pytest.skip("curl is not installed")
    listener = {"name": "loopback", "tcp": "127.0.0.1:3128", "tenant": "default"}
    with world.launch(folder, {"default": "page.example\n"}, listeners=(listener,)):
        done = inside(
            world.lab.node, "curl", "-sS", "--cacert", str(world.ca_file), "https://page.example/",
            HTTPS_PROXY="http://127.0.0.1:3128",
        )  # fmt: skip
        assert "The page of the lab" in done.stdout, done
        refused = inside(world.lab.node, "curl", "-sS", "https://other.example/", HTTPS_PROXY="http://127.0.0.1:3128")
        assert "403" in refused.stderr
