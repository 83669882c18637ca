"""The sum of what dead workers counted."""

from __future__ import annotations

from egressd.supervisor.totals import Totals

ROW = ["default", "", "CONNECT", "allowed", ""]


def test_nothing_is_counted_at_first() -> None:
    assert Totals().counts() == {"requests": [], "tunnel_ends": {}}


def test_totals_add_up_and_what_was_open_is_gone() -> None:
    totals = Totals()
    totals.bury({"requests": [[*ROW, 3]], "bytes_up": 10, "tunnels_open": 2, "connections_open": 5})
    totals.bury({"requests": [["default", None, *ROW[2:], 4]], "bytes_up": 1, "tunnel_ends": {"idle": 2}})

    assert totals.counts() == {"bytes_up": 11, "requests": [[*ROW, 7]], "tunnel_ends": {"idle": 2}}


def test_tunnels_that_began_and_did_not_end_died_with_the_worker() -> None:
    totals = Totals()
    totals.bury({"tunnels": 5, "tunnel_ends": {"idle": 1, "reset": 1}})
    totals.bury({"tunnels": 1, "tunnel_ends": {"idle": 1}})

    assert totals.counts()["tunnel_ends"] == {"idle": 2, "reset": 1, "worker-died": 3}
    assert totals.counts()["tunnels"] == 6


def test_counts_of_another_shape_are_passed_over() -> None:
    totals = Totals()
    totals.bury({"type": "counts", "requests": [5, [], ["a", "b"], [*ROW, 1]], "tunnel_ends": {"idle": "many"}})
    totals.bury({"requests": 5, "tunnel_ends": 5})

    assert totals.counts() == {"requests": [[*ROW, 1]], "tunnel_ends": {}}
