"""The real command `egressd` with a fake worker: `python -m support.fake_daemon MODES ARGUMENT...`.

For tests of the supervisor's life that need a worker which fails in a known way, or none that carries traffic. MODES is
a comma-separated list for `support.fake_worker`, `-` for none.
"""

from __future__ import annotations

import sys

from egressd import cli
from egressd.supervisor import workers

if __name__ == "__main__":
    modes = [mode for mode in sys.argv[1].split(",") if mode != "-"]
    workers.WORKER = (sys.executable, "-m", "support.fake_worker", *modes)  # type: ignore[assignment]  # of another length
    sys.exit(cli.main(sys.argv[2:]))
