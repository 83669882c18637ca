"""What the client calls itself."""

from __future__ import annotations

import re
from importlib import metadata

from oz0_web.identity import PRODUCT, USER_AGENT, VERSION


def test_the_version_is_the_distributions() -> None:
    assert metadata.version("oz0-web") == VERSION


def test_the_user_agent_is_honest_and_begins_with_the_robots_token() -> None:
    assert re.fullmatch(r"oz0-web/[0-9.]+", USER_AGENT)
    assert USER_AGENT.startswith(f"{PRODUCT}/")
