"""Plays the demo: makes the place, goes through the steps, and ends with 0 only if each came out as it says.

Ends with 1 where a step did not, with 2 where there is no place to play in. Called by `scripts/demo`.
"""

from __future__ import annotations

import argparse
import sys

from demo.places import LIST, UNLISTED, place
from demo.stage import Stage
from demo.steps import STEPS
from support.lab import LabFault

WARNING = """
!!  This is not the real demo: {reason}.
!!  It plays on this machine's loopback instead, and egressd runs with unsafe_reach, which takes
!!  127.64.0.0/24 for public addresses. Never use that setting outside of tests and demos.
"""


def main() -> int:
    """Play, and return the exit code."""
    options = argparse.ArgumentParser(prog="scripts/demo", description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--loopback", action="store_true", help="play on loopback even where namespaces can be made")
    given = options.parse_args()
    stage = Stage(whole=[f"egressctl tenant default allow {UNLISTED}"])
    try:
        with place(loopback=given.loopback) as (made, reason):
            if reason is not None:
                print(WARNING.format(reason=reason))
            stage.say("A job in a sandbox fetches by name, through the node's proxy, what the tenant's list allows.")
            print()
            stage.show(made.description)
            print("\n    the list   " + ", ".join(LIST.split()))
            for step in STEPS:
                step(stage, made)
    except LabFault as fault:
        print(f"The demo has no place to play in: {fault}", file=sys.stderr)
        return 2
    return stage.end()


if __name__ == "__main__":
    sys.exit(main())
