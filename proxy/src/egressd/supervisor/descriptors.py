"""How many connections the descriptors of a worker can hold.

A worker inherits the limit, so it is raised to what the system allows before the worker is spawned; and it is given no
more connections than fit, so that one too many is refused with a reason, and no accept fails. Imports nothing heavy:
the command line calls `raise_limit` first of all.
"""

from __future__ import annotations

import resource

# Control socket, record sink, epoll set, DNS sockets, listeners, and the pipes of splice (32 large ones and others).
RESERVED = 256
# A tunnel is two sockets, the client's and the target's.
PER_CONNECTION = 2


def raise_limit() -> int:
    """Raise the soft limit of open descriptors to the hard one; returns what holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def connections_within(limit: int, wanted: int) -> int:
    """Give how many connections a worker may hold under a limit of descriptors, at least one.

    Args:
        limit: Open descriptors a process may have; negative for no limit.
        wanted: The configured number.
    """
    if limit < 0:
        return wanted
    return max(1, min(wanted, (limit - RESERVED) // PER_CONNECTION))
