"""Measures the time from exec to egressd's first answer on a connection, and to the first connection it accepts.

A client tries to connect from the first moment on and asks for its own grant as soon as it is through: a listening
socket alone proves nothing, since the kernel takes connections before anybody accepts them. Called by `scripts/bench
--startup`; ends with 1 when the median is over the target.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGET_SECONDS = 0.6
GIVE_UP_SECONDS = 20.0
ASK = b"GET /.well-known/egress HTTP/1.1\r\nHost: egressd\r\nConnection: close\r\n\r\n"


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def first_answer(port: int, began: float) -> tuple[float, float]:
    """Seconds from `began` until a connection stands, and until the first byte of its answer is here."""
    while time.perf_counter() - began < GIVE_UP_SECONDS:
        with socket.socket() as client:
            client.settimeout(GIVE_UP_SECONDS)
            if client.connect_ex(("127.0.0.1", port)):
                time.sleep(0.001)
                continue
            connected = time.perf_counter() - began
            client.sendall(ASK)
            with contextlib.suppress(ConnectionError):
                if client.recv(1):
                    return connected, time.perf_counter() - began
    raise SystemExit(f"egressd gave no answer within {GIVE_UP_SECONDS} s")


def one_start(folder: Path) -> tuple[float, float]:
    """Start egressd once on fresh lists, take the two times, and end it."""
    port = free_port()
    (folder / "lists" / "tenants").mkdir(parents=True, exist_ok=True)
    (folder / "lists" / "tenants" / "default.list").write_text("example.com\n*.example.org\n", encoding="ascii")
    command = [
        *(sys.executable, "-m", "egressd", "--lists", str(folder / "lists")),
        *("--listen", f"127.0.0.1:{port}", "--admin", str(folder / "admin.sock")),
    ]
    with (folder / "output").open("wb") as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            return first_answer(port, began)
        except SystemExit:
            print((folder / "output").read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
            raise
        finally:
            process.terminate()
            process.wait(GIVE_UP_SECONDS)


def main() -> int:
    """Print every start and the medians; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="starts to take the median of (default 5)")
    options = parser.parse_args()
    answers = []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="egressd-startup-") as folder:
            connected, answered = one_start(Path(folder))
        answers.append(answered)
        print(f"start {number + 1}: connected after {connected:.3f} s, answered after {answered:.3f} s")
    median = statistics.median(answers)
    verdict = "met" if median < TARGET_SECONDS else "missed"
    print(f"median until the first answer: {median:.3f} s (target: under {TARGET_SECONDS} s, {verdict})")
    return 0 if median < TARGET_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
