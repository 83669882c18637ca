"""Runs `python -m egressd`, the same as the command `egressd`."""

from __future__ import annotations

import sys

from egressd.cli import main

if __name__ == "__main__":
    sys.exit(main())
