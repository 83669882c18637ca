"""Starts a worker process: `python -m egressd.worker --control-fd N`. Only the supervisor calls it."""

from __future__ import annotations

import argparse
import gc
import signal

import uvloop

from egressd.worker.service import run


def main() -> None:
    """Run one worker on the control socket that was handed over."""
    parser = argparse.ArgumentParser(
        prog="egressd.worker", description="A worker of egressd; the supervisor starts it."
    )
    parser.add_argument("--control-fd", type=int, required=True, help="the worker's end of the control socket pair")
    descriptor: int = parser.parse_args().control_fd
    # A terminal's Ctrl-C reaches the whole process group; the supervisor decides how a worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loop = uvloop.new_event_loop()
    # What is loaded now stays; collecting it again and again would cost every request.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    run(loop, descriptor)


if __name__ == "__main__":
    main()
