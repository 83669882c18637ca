"""Users: who may command the daemon, and whom it becomes."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys

import pytest

from egressd.supervisor.identity import UserFault, become, find_user, may_command, overflow_uid, peer_uid

BECOME = """
import os
from egressd.supervisor.identity import become
become((65534, 65534))
print(os.getresuid(), os.getresgid(), os.getgroups())
"""


@pytest.mark.case("H2")
@pytest.mark.parametrize(
    ("uid", "own", "may"),
    [
        (0, 0, True),
        (0, 990, True),
        (990, 990, True),
        (991, 990, False),
        (1, 0, False),
        (65_534, 990, False),
        (65_534, 65_534, False),  # with the overflow uid all strangers look alike
    ],
)
def test_root_and_the_daemons_own_user_may_command(uid: int, own: int, may: bool) -> None:
    assert may_command(uid, own=own, overflow=65_534) is may


def test_the_kernel_says_who_is_at_the_other_end() -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    assert peer_uid(one) == os.geteuid()
    one.close()
    other.close()


def test_the_overflow_uid_is_known() -> None:
    assert overflow_uid() > 0


def test_an_unknown_user_is_told_with_what_to_write() -> None:
    with pytest.raises(UserFault, match="no user 'no-such-user' on this machine; write an existing one"):
        find_user("no-such-user")


def test_our_own_user_is_found_and_becoming_it_changes_nothing() -> None:
    row = pwd.getpwuid(os.geteuid())
    assert find_user(row.pw_name) == (row.pw_uid, row.pw_gid)
    become((row.pw_uid, row.pw_gid))
    assert os.geteuid() == row.pw_uid


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_root_is_given_up_for_good() -> None:
    found = subprocess.run([sys.executable, "-c", BECOME], capture_output=True, text=True, check=True)
    assert found.stdout == "(65534, 65534, 65534) (65534, 65534, 65534) []\n"
