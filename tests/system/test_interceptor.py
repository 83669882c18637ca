"""A proxy that opens TLS on the way: mitmproxy, a real one, whose certificates the client must not believe."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lab_daemon import BIN, bare_environment, wait_until
from support.lab_origin import Origin, listener, pages
from support.lab_world import World
from support.project import ROOT

MITMDUMP = ROOT / ".venv-peers" / "bin" / "mitmdump"
NAME = "page.example"


@pytest.fixture
def interceptor(folder: Path) -> Iterator[int]:
    """The port of a mitmproxy that answers every CONNECT with a certificate of its own."""
    if not MITMDUMP.exists():
        reason = f"{MITMDUMP.relative_to(ROOT)} is not there; scripts/test installs it from constraints-peers.txt"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with listener() as probe:
        port = int(probe.getsockname()[1])
    words = [
        str(MITMDUMP), "--listen-host", "127.0.0.1", "--listen-port", str(port), "--set", f"confdir={folder}",
        "--set", "connection_strategy=lazy", "--set", "flow_detail=1",
    ]  # fmt: skip
    with (folder / "mitmproxy.txt").open("wb") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=bare_environment())
    try:
        wait_until(lambda: process.poll() is None and _listens(port), "mitmproxy to listen", 30)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def fetch(port: int, url: str, ca_file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "oz0-web", "fetch", url], capture_output=True, text=True, timeout=30, check=False,
        stdin=subprocess.DEVNULL,
        env=bare_environment(OZ0_WEB_PROXY=f"http://127.0.0.1:{port}", SSL_CERT_FILE=str(ca_file)),
    )  # fmt: skip


@pytest.mark.slow
def test_an_interceptor_is_refused_and_sees_no_request(loopback: World, interceptor: int, folder: Path) -> None:
    done = fetch(interceptor, f"https://{NAME}/secret-path", loopback.ca_file)
    assert done.returncode
    assert "certificate" in (done.stdout + done.stderr).lower()
    log = (folder / "mitmproxy.txt").read_text()
    assert "secret-path" not in log
    assert NAME in log or "client TLS handshake failed" in log.lower() or "handshake" in log.lower()


@pytest.mark.slow
def test_the_same_interceptor_would_have_been_believed_with_its_certificate(
    loopback: World, interceptor: int, folder: Path
) -> None:
    with Origin([listener()], pages({"/": b"<p>seen on the way"})) as origin:
        # What shows that the refusal above is about the certificate: with it trusted, the interceptor gets the request.
        fetch(interceptor, f"https://127.0.0.1.example:{origin.port}/secret-path", folder / "mitmproxy-ca-cert.pem")
    assert "secret-path" in (folder / "mitmproxy.txt").read_text()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
