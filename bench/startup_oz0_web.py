"""Measures the CPU that `oz0-web fetch` spends before its first byte reaches the proxy.

A listening socket stands in for the proxy; when the first byte is here, the process's user and system time are read
from /proc and it is stopped. Wall time is not the measure: it depends on what else the machine does. Called by
`scripts/bench --startup`; ends with 1 when the median is over the target.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
from pathlib import Path

TARGET_SECONDS = 0.35
GIVE_UP_SECONDS = 20.0
# Fields 14 and 15 of /proc/PID/stat, counted from 1; what follows the command's name begins with field 3 (proc(5)).
UTIME, STIME = 14 - 3, 15 - 3


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and of all its threads so far.

    The scheduler's own count is in nanoseconds; the fields of `stat` are in ticks of 10 ms and stand in where it is
    not.
    """
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9
    except FileNotFoundError:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[UTIME]) + int(fields[STIME])) / os.sysconf("SC_CLK_TCK")


def one_start(url: str) -> tuple[float, bytes]:
    """Start a fetch, and give its CPU time when the first bytes are here, and those bytes."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(GIVE_UP_SECONDS)
        proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-m", "oz0_web", "fetch", url],
            env={"PATH": os.environ["PATH"], "OZ0_WEB_PROXY": proxy},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(GIVE_UP_SECONDS)
                first = connection.recv(4096)
                return cpu_seconds(process.pid), first
        finally:
            process.kill()
            process.wait(GIVE_UP_SECONDS)


def main() -> int:
    """Print every start and the median; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="starts to take the median of (default 5)")
    parser.add_argument("--url", default="https://docs.example.org/guide?page=1", help="what is fetched")
    options = parser.parse_args()
    one_start(options.url)  # writes the byte code, which an installed package has
    taken = []
    for number in range(options.rounds):
        seconds, first = one_start(options.url)
        taken.append(seconds)
        print(f"start {number + 1}: {seconds:.3f} s of CPU until {first.split(chr(13).encode())[0].decode()!r}")
    median = statistics.median(taken)
    print(f"median {median:.3f} s, target {TARGET_SECONDS} s")
    return 0 if median <= TARGET_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
