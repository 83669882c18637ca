"""The main job, shown in a real sandbox: `python -m demo`, which `scripts/demo` calls.

The lab that it plays in is the one of the system tests, in `tests/support`; here it is made importable.
"""

from __future__ import annotations

import sys
from pathlib import Path

_LAB = str(Path(__file__).resolve().parent.parent / "tests")
if _LAB not in sys.path:
    sys.path.insert(0, _LAB)
