"""What the client calls itself: the product token that sites see and robots rules name, and its version.

Decides nothing. The version stands here a second time (a test compares it with the distribution's), because reading it
from the installed metadata costs 20 ms of CPU at every start.
"""

from __future__ import annotations

PRODUCT = "oz0-web"
VERSION = "0.1.0"
USER_AGENT = f"{PRODUCT}/{VERSION}"
