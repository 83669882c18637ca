"""Faults carry data and can be raised, caught and grouped."""

from __future__ import annotations

import pytest

from oz0_web.faults import Fault, PeerBroke, PeerCut, ProxyBroke, ProxyUnreachable, TimedOut, TlsFault, TrustFault


@pytest.mark.parametrize(
    "fault",
    [
        ProxyUnreachable("127.0.0.1:1", "connection refused"),
        ProxyBroke("why"),
        TlsFault("host", "why", is_certificate=True),
        TrustFault("/x", "why"),
        PeerBroke("why"),
        PeerCut("why"),
        TimedOut("reply", 1.0),
    ],
)
def test_each_fault_can_be_raised_caught_as_a_fault_and_hashed(fault: Fault) -> None:
    with pytest.raises(Fault) as caught:
        raise fault

    assert caught.value is fault
    assert {fault} == {fault}
