"""Pipes are handed out empty, few of them large, and none when there is none to be had."""

from __future__ import annotations

import fcntl
import os
import resource
from typing import TYPE_CHECKING

import pytest

from egressd.limits import PIPE_BYTES, PIPE_MAX_IDLE_PIPES
from egressd.worker.pipes import Pipe, PipePool

if TYPE_CHECKING:
    from collections.abc import Iterator


def size(pipe: Pipe) -> int:
    return fcntl.fcntl(pipe[1], fcntl.F_GETPIPE_SZ)


def is_open(pipe: Pipe) -> bool:
    try:
        os.fstat(pipe[0])
    except OSError:
        return False
    return True


class Taken:
    """A pool, and every pipe that it gave, to be closed at the end."""

    def __init__(self, max_large: int) -> None:
        self.pool = PipePool(max_large)
        self.pipes: list[Pipe] = []

    def get(self) -> Pipe:
        pipe = self.pool.get()
        assert pipe is not None
        self.pipes.append(pipe)
        return pipe

    def put(self, pipe: Pipe) -> None:
        self.pipes.remove(pipe)
        self.pool.put(pipe)

    def close(self) -> None:
        for pipe in self.pipes:
            self.pool.discard(pipe)
        self.pool.close()


@pytest.fixture
def taken() -> Iterator[Taken]:
    taken = Taken(2)
    yield taken
    taken.close()


def test_only_so_many_pipes_are_large(taken: Taken) -> None:
    assert [size(taken.get()) for _ in range(4)] == [PIPE_BYTES, PIPE_BYTES, 65_536, 65_536]


def test_neither_end_waits_and_no_child_gets_one(taken: Taken) -> None:
    for descriptor in taken.get():
        assert not os.get_blocking(descriptor)
        assert not os.get_inheritable(descriptor)


def test_a_pipe_given_back_is_given_again_a_large_one_first(taken: Taken) -> None:
    large, _, small = taken.get(), taken.get(), taken.get()
    taken.put(large)
    taken.put(small)

    assert [taken.get(), taken.get()] == [large, small]


def test_a_discarded_pipe_is_closed_and_makes_room_for_a_large_one(taken: Taken) -> None:
    first, _ = taken.get(), taken.get()
    os.write(first[1], b"somebody's bytes")
    taken.pipes.remove(first)

    taken.pool.discard(first)

    assert not is_open(first)
    third = taken.get()
    assert size(third) == PIPE_BYTES
    with pytest.raises(BlockingIOError):
        os.read(third[0], 1)


def test_no_more_idle_pipes_are_kept_than_the_limit() -> None:
    taken = Taken(0)
    pipes = [taken.get() for _ in range(PIPE_MAX_IDLE_PIPES + 3)]
    for pipe in pipes:
        taken.put(pipe)

    assert sum(map(is_open, pipes)) == PIPE_MAX_IDLE_PIPES
    taken.close()
    assert not any(map(is_open, pipes))


def test_without_descriptors_there_is_an_idle_pipe_or_none(taken: Taken) -> None:
    taken.pool = PipePool(0)
    idle = taken.get()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        assert taken.pool.get() is None
        taken.put(idle)
        assert taken.get() == idle
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_pool_that_may_have_no_large_pipe_of_the_user_goes_on_with_default_ones(
    taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel's word to a user above the limit, which root never hears.
    kernel = fcntl.fcntl

    def refusing(descriptor: int, command: int, argument: int = 0) -> int:
        if command == fcntl.F_SETPIPE_SZ:
            raise PermissionError
        return kernel(descriptor, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", refusing)

    assert size(taken.get()) == 65_536
    monkeypatch.undo()
    assert size(taken.get()) == 65_536  # it is not asked again


def test_a_pipe_that_the_kernel_made_tiny_is_none(taken: Taken, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fcntl.fcntl

    def tiny(descriptor: int, command: int, argument: int = 0) -> int:
        return 8_192 if command == fcntl.F_GETPIPE_SZ else kernel(descriptor, command, argument)

    taken.pool = PipePool(0)
    monkeypatch.setattr(fcntl, "fcntl", tiny)

    assert taken.pool.get() is None
