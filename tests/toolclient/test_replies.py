"""Questions asked of a reply's head."""

from __future__ import annotations

import pytest

from oz0_web.replies import ReplyHead

HEAD = ReplyHead(
    200,
    "OK",
    (
        (b"location", "/é".encode()),
        (b"location", b"/\xe9"),
        (b"content-encoding", b" GZip ,, identity"),
        (b"content-encoding", b"deflate"),
    ),
)


def test_values_are_utf_8_or_else_latin_1() -> None:
    assert HEAD.all(b"location") == ("/é", "/é")


def test_the_last_value_or_none() -> None:
    assert HEAD.last(b"content-encoding") == "deflate"
    assert HEAD.last(b"content-type") is None


def test_members_are_split_over_fields_and_lower_case() -> None:
    assert HEAD.members(b"content-encoding") == ("gzip", "identity", "deflate")


@pytest.mark.parametrize(("status", "success"), [(199, False), (200, True), (299, True), (300, False)])
def test_success_is_2xx(status: int, *, success: bool) -> None:
    assert ReplyHead(status, "", ()).is_success is success
