"""How many workers this machine has cores for, and how many connections the descriptors of a worker can hold.

A worker inherits the limit, so it is raised to what the system allows before the worker is spawned; and it is given no
more connections than fit, so that one too many is refused with a reason, and no accept fails. Imports nothing heavy:
the command line calls `raise_limit` first of all.
"""

from __future__ import annotations

import os
import resource

from egressd.limits import WORKERS_DEFAULT_MAX

# Control socket, record sink, epoll set, DNS sockets, listeners, and the pipes of splice (32 large ones and others).
RESERVED = 256
# A tunnel is two sockets, the client's and the target's.
PER_CONNECTION = 2


def default_workers() -> int:
    """Give how many workers there are where nothing is configured: one for each core that this process may use."""
    return min(WORKERS_DEFAULT_MAX, len(os.sched_getaffinity(0)))


def raise_limit() -> int:
    """Raise the soft limit of open descriptors to the hard one; returns what holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def connections_within(limit: int, wanted: int, workers: int = 1) -> int:
    """Give how many connections the workers may hold together under a limit of descriptors, at least one.

    Args:
        limit: Open descriptors a process may have; negative for no limit.
        wanted: The configured number for the node.
        workers: How many processes share it.
    """
    if limit < 0:
        return wanted
    return max(1, min(wanted, workers * ((limit - RESERVED) // PER_CONNECTION)))


def share(connections: int, workers: int, place: int) -> int:
    """Give one worker's share of the node's connections; the shares differ by one at most, and none is nothing."""
    return max(1, connections // workers + (place < connections % workers))
