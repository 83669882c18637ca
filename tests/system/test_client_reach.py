"""What the client reaches: the proxy and nothing else, by name and never by a resolver of its own.

`oz0-web` runs as itself under an audit hook (in `support/audit_site/sitecustomize.py`) that ends the process at the
first look-up and at any connect but the proxy's.
"""

from __future__ import annotations

import json
import ssl
import subprocess
from pathlib import Path

import pytest
import trustme

from support.lab_daemon import BIN, bare_environment
from support.lab_origin import Origin, Visit, listener, pages
from support.lab_wire import parse_reply
from support.lab_world import World

AUDIT = Path(__file__).parents[1] / "support" / "audit_site"
AUDIT_CODE = 97


def fetch(world: World, proxy: str, url: str, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = bare_environment(
        OZ0_WEB_PROXY=proxy, SSL_CERT_FILE=str(world.ca_file), PYTHONPATH=str(AUDIT), AUDIT_ALLOW=proxy, **more
    )
    return subprocess.run(
        [BIN / "oz0-web", "fetch", url, *options], capture_output=True, text=True, timeout=30, check=False,
        env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def via(world: World) -> str:
    return f"unix:{world.daemon.channel}"


def test_the_hook_ends_a_process_that_looks_a_name_up_or_dials_elsewhere() -> None:
    for line in (
        "socket.getaddrinfo('page.example', 443)",
        "socket.gethostbyname('page.example')",
        "socket.create_connection(('127.0.0.1', 9))",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 53))",
    ):
        done = subprocess.run(
            [BIN / "python", "-c", f"import socket; {line}"], capture_output=True, text=True, timeout=10, check=False,
            env=bare_environment(PYTHONPATH=str(AUDIT), AUDIT_ALLOW="unix:/nowhere"),
        )  # fmt: skip
        assert done.returncode == AUDIT_CODE, (line, done)


def test_a_page_is_fetched_by_name_through_the_proxy_alone(loopback: World) -> None:
    with loopback.origin(
        pages({"/": b"<title>T</title><h1>Hello</h1><p>From the origin."}), tls=loopback.echo_name
    ) as origin:
        done = fetch(loopback, via(loopback), f"https://{loopback.echo_name}:{origin.port}/")
        assert done.returncode == 0, done
        assert "From the origin." in done.stdout
        assert origin.accepted == 2  # robots.txt, and the page


def test_a_plain_page_carries_no_header_of_the_proxy_to_the_origin(loopback: World) -> None:
    with loopback.origin(pages({"/": b"<h1>Hello</h1><p>From the origin."})) as origin:
        done = fetch(loopback, via(loopback), f"http://{loopback.echo_name}:{origin.port}/")
        assert done.returncode == 0, done
        assert [request.path for request in origin.requests if request.path == "/"] == ["/"]
        names = {name.lower() for request in origin.requests for name, _ in request.fields}
        assert not {"oz0-egress-public-only", "proxy-authorization"} & names


def test_a_refusal_of_the_proxy_is_told_with_its_reason_and_the_command(loopback: World) -> None:
    before = loopback.sent()
    done = fetch(loopback, via(loopback), "https://other.example/")
    assert done.returncode not in {0, AUDIT_CODE}, done
    said = done.stdout + done.stderr
    assert "not-on-allowlist" in said
    assert "egressctl tenant default allow other.example" in said
    assert loopback.sent() == before


@pytest.mark.parametrize(
    "hop", ["http://127.0.0.1:9/", "http://169.254.169.254/latest/", "https://other.example/", "file:///etc/passwd"]
)
def test_a_redirect_is_judged_like_the_first_request(loopback: World, hop: str) -> None:
    def talk(visit: Visit) -> None:
        while visit.read_request():
            visit.answer(b"", f"Location: {hop}", status="302 Found")

    with loopback.origin(talk) as origin:
        done = fetch(loopback, via(loopback), f"http://{loopback.echo_name}:{origin.port}/")
        assert done.returncode not in {0, AUDIT_CODE}, done
        assert "root:" not in done.stdout


@pytest.mark.parametrize("proxy", ["", "http://proxy.example:3128", "http://0x7f000001:3128"])
def test_without_a_proxy_address_no_request_is_made(loopback: World, proxy: str) -> None:
    done = fetch(loopback, proxy, f"https://{loopback.echo_name}/")
    assert done.returncode not in {0, AUDIT_CODE}, done
    assert "proxy" in (done.stdout + done.stderr).lower()
    assert "Traceback" not in done.stderr


def test_a_proxy_that_is_not_there_is_a_fault_and_no_way_around_is_tried(loopback: World, folder: Path) -> None:
    done = fetch(loopback, f"unix:{folder}/none.sock", f"https://{loopback.echo_name}/")
    assert done.returncode not in {0, AUDIT_CODE}, done


def test_json_carries_the_reason_as_data(loopback: World) -> None:
    done = fetch(loopback, via(loopback), "https://other.example/", "--json")
    assert "not-on-allowlist" in json.dumps(json.loads(done.stdout or done.stderr))


def test_an_origin_with_a_foreign_certificate_is_not_believed(loopback: World) -> None:
    foreign = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert(loopback.echo_name).configure_cert(foreign)
    with loopback.origin(pages({"/": b"<p>not to be shown"}), tls=foreign) as origin:
        done = fetch(loopback, via(loopback), f"https://{loopback.echo_name}:{origin.port}/")
        assert done.returncode not in {0, AUDIT_CODE}, done
        assert "not to be shown" not in done.stdout
        assert not origin.requests


def test_an_origin_with_the_certificate_of_another_name_is_not_believed(loopback: World) -> None:
    with loopback.origin(pages({"/": b"<p>not to be shown"}), tls="another.example") as origin:
        done = fetch(loopback, via(loopback), f"https://{loopback.echo_name}:{origin.port}/")
        assert done.returncode not in {0, AUDIT_CODE}, done
        assert not origin.requests


def test_every_fetch_asks_the_proxy_for_public_addresses_only(loopback: World) -> None:
    heads: list[bytes] = []

    def proxy(visit: Visit) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            part = visit.stream.recv(65_536)
            if not part:
                return
            head += part
        heads.append(head)
        visit.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with Origin([listener()], proxy) as fake:
        for scheme in ("https", "http"):
            fetch(loopback, f"http://127.0.0.1:{fake.port}", f"{scheme}://page.example/")
    asked = [head for head in heads if b"page.example" in head.split(b"\r\n")[0]]
    assert {head.split(b" ")[0] for head in asked} == {b"CONNECT", b"GET"}
    for head in asked:
        assert parse_reply(head.replace(b"CONNECT ", b"HTTP/1.1 ", 1)).get("oz0-egress-public-only") == ["1"]
