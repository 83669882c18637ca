"""What the proxy's own answers become."""

from __future__ import annotations

import pytest

from egress_policy.reasons import Reason
from egress_policy.targets import Url, parse_url
from egress_policy.wire import read_proxy_status
from oz0_web.stops import By, Code, Stop, proxy_stop


def stop_for(status: int, phrase: str = "", proxy_status: str | None = None) -> Stop:
    url = parse_url("https://a.example/")
    assert isinstance(url, Url)
    return proxy_stop(url, status, phrase, read_proxy_status([proxy_status]) if proxy_status else None)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_becomes_a_stop_by_the_proxy_that_keeps_it(reason: Reason) -> None:
    stop = stop_for(403, "Refused", f"egressd; error=http_request_denied; reason={reason}")

    assert (stop.by, stop.reason, stop.status) == (By.PROXY, reason.value, 403)


def test_an_unknown_reason_is_kept_as_it_is() -> None:
    stop = stop_for(403, "Refused", 'egressd; error=http_request_denied; reason=full-moon; details="wait"')

    assert (stop.code, stop.reason, stop.detail) == (Code.PROXY_REFUSED, "full-moon", "wait")


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (403, Code.PROXY_REFUSED, None),
        (407, Code.PROXY_REFUSED, "credentials-required"),
        (400, Code.PROXY_FAILED, None),
        (405, Code.PROXY_FAILED, None),
        (502, Code.PROXY_FAILED, None),
        (302, Code.PROXY_FAILED, None),
    ],
)
def test_without_a_reason_the_status_decides(status: int, code: Code, reason: str | None) -> None:
    stop = stop_for(status, "Some words")

    assert (stop.code, stop.reason) == (code, reason)
    assert f"{status} Some words" in stop.detail


def test_a_phrase_is_bounded_and_made_printable() -> None:
    stop = stop_for(403, "a\x1b[31m" + "b" * 500)

    assert len(stop.detail) < 120
    assert stop.detail.isprintable()
