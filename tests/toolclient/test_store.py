"""Kept conversions: for whom, how long, how many."""

from __future__ import annotations

import pytest

from egress_policy.targets import Url, parse_url
from oz0_web import store as module
from oz0_web.limits import STORE_MAX_PAGES, STORE_SECONDS
from oz0_web.page import Page
from oz0_web.store import Asked, Kept, Store

URL = "https://a.example/"


def url(text: str = URL) -> Url:
    parsed = parse_url(text)
    assert isinstance(parsed, Url)
    return parsed


def kept(content: str = "x", *, at: float = 0.0, final: str = URL, is_cut: bool = False, max_bytes: int = 100) -> Kept:
    page = Page("text/html", "T", content)
    return Kept(
        url=url(final), status=200, page=page, is_cut=is_cut, max_bytes=max_bytes, way=(url(final),), read_at=at
    )


def asked(text: str = URL, caller: str = "") -> Asked:
    return Asked(caller, text, "markdown")


def test_a_page_is_found_by_the_url_asked_for_and_by_the_final_one() -> None:
    store, page = Store(), kept(final="https://b.example/")
    store.keep(asked(), page)

    assert store.find(asked(), 100, 1.0) is page
    assert store.find(asked("https://b.example/"), 100, 1.0) is page


def test_it_is_found_by_the_caller_that_read_it_and_in_its_form_only() -> None:
    store = Store()
    store.keep(asked(caller="one"), kept())

    assert store.find(asked(caller="two"), 100, 1.0) is None
    assert store.find(Asked("one", URL, "text"), 100, 1.0) is None
    assert store.find(asked(caller="one"), 100, 1.0) is not None


@pytest.mark.parametrize(("now", "is_found"), [(STORE_SECONDS - 1, True), (STORE_SECONDS, False)])
def test_it_is_kept_for_ten_minutes(now: float, *, is_found: bool) -> None:
    store = Store()
    store.keep(asked(), kept())

    assert (store.find(asked(), 100, now) is not None) is is_found
    assert (store.find(asked(), 100, 1.0) is not None) is is_found


@pytest.mark.parametrize(
    ("is_cut", "wanted", "is_found"), [(False, 1_000, True), (True, 1_000, False), (True, 100, True), (True, 50, True)]
)
def test_one_that_was_cut_does_not_do_where_more_is_wanted(wanted: int, *, is_cut: bool, is_found: bool) -> None:
    store = Store()
    store.keep(asked(), kept(is_cut=is_cut))

    assert (store.find(asked(), wanted, 1.0) is not None) is is_found


def test_the_least_recently_used_goes_first() -> None:
    store = Store()
    names = [f"https://a.example/{each}" for each in range(STORE_MAX_PAGES)]
    for name in names:
        store.keep(asked(name), kept(final=name))
    store.find(asked(names[0]), 100, 1.0)
    store.keep(asked(), kept())

    assert [store.find(asked(name), 100, 1.0) is not None for name in names[:3]] == [True, False, True]


def test_the_text_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STORE_MAX_BYTES", 2_500)
    store = Store()
    for each in "abc":
        store.keep(asked(URL + each), kept("x" * 1_000, final=URL + each))
    store.keep(asked(URL + "big"), kept("x" * 3_000, final=URL + "big"))

    assert [store.find(asked(URL + each), 100, 1.0) is not None for each in ("a", "b", "c", "big")] == [
        *(False, True, True, False)
    ]


def test_a_page_that_is_another_than_this_callers_last_is_told() -> None:
    store = Store()

    assert store.keep(asked(), kept("one")) is False
    assert store.keep(asked(), kept("one")) is False
    assert store.keep(asked(caller="two"), kept("two")) is False
    assert store.keep(asked(), kept("two", at=5_000.0)) is True


def test_what_is_remembered_of_pages_is_bounded_too() -> None:
    store = Store()
    for each in range(1_000):
        store.keep(asked(f"{URL}{each}"), kept(final=f"{URL}{each}"))

    assert len(store._digests) == 8 * STORE_MAX_PAGES
