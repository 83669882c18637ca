"""A proxy that opens TLS on the way: mitmproxy, a real one, whose certificates the client must not believe."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lab_daemon import BIN, bare_environment, wait_until
from support.lab_origin import listener
from support.project import ROOT

MITMDUMP = ROOT / ".venv-peers" / "bin" / "mitmdump"
URL = "https://page.example/secret-path"

pytestmark = pytest.mark.slow


@pytest.fixture
def interceptor(folder: Path) -> Iterator[str]:
    """The address of a mitmproxy that answers every CONNECT with a certificate of its own, and can reach nothing."""
    if not MITMDUMP.exists():
        reason = f"{MITMDUMP.relative_to(ROOT)} is not there; scripts/test installs it from constraints-peers.txt"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with listener() as nobody, listener() as probe:
        dead, port = (int(stream.getsockname()[1]) for stream in (nobody, probe))
    words = [
        str(MITMDUMP), "--listen-host", "127.0.0.1", "--listen-port", str(port), "--set", f"confdir={folder}",
        "--mode", f"upstream:http://127.0.0.1:{dead}", "--set", "connection_strategy=lazy", "--set", "flow_detail=1",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=bare_environment(PYTHONUNBUFFERED="1")
        )
    try:
        wait_until(lambda: process.poll() is None and _listens(port), "mitmproxy to listen", 30)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def fetch(proxy: str, *, trusting: Path | None) -> subprocess.CompletedProcess[str]:
    trust = {} if trusting is None else {"SSL_CERT_FILE": str(trusting)}
    return subprocess.run(
        [BIN / "oz0-web", "fetch", URL], capture_output=True, text=True, timeout=30, check=False,
        stdin=subprocess.DEVNULL, env=bare_environment(OZ0_WEB_PROXY=proxy, **trust),
    )  # fmt: skip


def test_an_interceptor_is_refused_and_sees_no_request(interceptor: str, folder: Path) -> None:
    done = fetch(interceptor, trusting=None)
    assert done.returncode
    assert "certificate" in (done.stdout + done.stderr).lower()

    def told() -> bool:
        return "Client TLS handshake failed" in (folder / "log").read_text()

    wait_until(told, "mitmproxy to say that it was not believed")
    assert "secret-path" not in (folder / "log").read_text()


def test_the_refusal_is_about_the_certificate_since_one_that_trusts_it_is_read(interceptor: str, folder: Path) -> None:
    fetch(interceptor, trusting=folder / "mitmproxy-ca-cert.pem")
    first = f"GET {URL.rpartition('/')[0]}/robots.txt"
    wait_until(lambda: first in (folder / "log").read_text(), "mitmproxy to have read the request")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
