"""First bytes of tunnels, any and in any split: one answer, few looks, and no name that no other reading finds."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from egress_policy.names import HostName
from egress_policy.reasons import End
from egressd.client_hello import NEED_MORE, NOT_TLS, BadHello, Hello, HelloReader, Pass, judge_hello
from support.grants import target
from support.hellos import (
    ECH,
    USUAL,
    body,
    extension,
    feed_in_pieces,
    hello,
    message,
    name_list,
    named,
    names_in,
    openssl_sees,
    records,
    vectors,
)

NAMES = st.one_of(
    st.sampled_from([b"a.example.com", b"b.example.com", b"A.Example.Com", b"a.example.com.", b"192.0.2.1", b"", b"a"]),
    st.text("ab-._0", max_size=12).map(str.encode),
)
EXTENSIONS = st.one_of(
    NAMES.map(named),
    st.lists(NAMES, max_size=3).map(lambda names: extension(0, name_list(*names))),
    st.sampled_from([extension(*each) for each in USUAL]),
    st.builds(extension, st.sampled_from([0, 10, 16, 43, 51, 0x0A0A, ECH]), st.binary(max_size=12)),
)
VERSIONS = st.sampled_from([b"\3\1", b"\3\3", b"\3\0", b"\2\0", b"\x0f\xff", b"\x10\0"])
SPLITS = st.lists(st.integers(1, 40), max_size=30)
KINDS = st.sampled_from([22, 22, 22, 20, 21, 23])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Streams that open with a hello or nearly: every part may be wrong, and a byte of it may be another."""
    extensions = draw(st.one_of(st.none(), st.lists(EXTENSIONS, max_size=5).map(b"".join)))
    content = message(
        body(extensions, session_id=bytes(draw(st.integers(0, 33)))),
        draw(st.sampled_from([1, 1, 1, 1, 0, 2])),
    )
    before = draw(st.sampled_from([b"", b"", b"", b"\x15\3\1\0\2\1\x5a", b"\x16\3\1\0\0", b"\x16\0\0\0\0"]))
    cut = draw(st.integers(0, len(content)))
    first = records(content[:cut], draw(SPLITS), version=draw(VERSIONS))
    data = bytearray(before + first + records(content[cut:], version=draw(VERSIONS), kind=draw(KINDS)))
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data) + draw(st.binary(max_size=20))


GOOD = st.builds(
    lambda sizes, more: hello(b"a.example.com", extension(0x2A2A, more), sizes=sizes), SPLITS, st.binary(max_size=60)
)
FLIPPED = st.builds(
    lambda data, at, byte: data[: at % len(data)] + bytes([byte]) + data[at % len(data) + 1 :],
    st.one_of(GOOD, st.sampled_from([vector.data for vector in vectors() if vector.data])),
    st.integers(0, 400),
    st.integers(0, 255),
)
DATA = st.one_of(streams(), FLIPPED, GOOD, st.binary(max_size=120), st.binary(max_size=60).map(b"\x16\3\1\0".__add__))


@given(DATA, SPLITS, st.one_of(st.none(), st.integers(1, 150)))
@example(hello(), [5, 1, 1, 1, 1], None)
@example(hello(sizes=[1] * 300), [4], None)
def test_any_bytes_in_any_split_give_one_of_four_answers(data: bytes, sizes: list[int], bound: int | None) -> None:
    readers = [HelloReader() if bound is None else HelloReader(bound) for _ in range(3)]

    answers = [
        feed_in_pieces(reader, data, split)[0]
        for reader, split in zip(readers, ([], sizes, [1] * len(data)), strict=True)
    ]

    assert answers[0] == answers[1] == answers[2]
    assert answers[0] in (NEED_MORE, NOT_TLS) or isinstance(answers[0], Hello | BadHello)


@given(DATA, SPLITS)
def test_no_byte_is_looked_at_more_than_twice_and_each_is_kept(data: bytes, sizes: list[int]) -> None:
    for split in (sizes, [], [1] * len(data)):
        reader = HelloReader()
        _, fed = feed_in_pieces(reader, data, split)

        assert reader.examined <= 2 * fed
        assert bytes(reader.held) == data[:fed]


@given(DATA, st.binary(max_size=40))
def test_more_bytes_never_change_an_answer(data: bytes, more: bytes) -> None:
    answer = HelloReader().feed(data)

    assert answer is NEED_MORE or answer == HelloReader().feed(data + more)


@given(DATA)
def test_no_name_is_accepted_that_a_naive_reading_does_not_find(data: bytes) -> None:
    answer = HelloReader().feed(data)

    if isinstance(answer, Hello):
        assert names_in(data) == ([] if answer.server_name is None else [answer.server_name.text])


@given(DATA)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a name beyond ASCII in its callback
def test_whatever_openssl_reads_a_name_from_passes_with_that_name_or_not_at_all(data: bytes) -> None:
    seen = openssl_sees(data)
    judgement = judge_hello(HelloReader().feed(data), target("a.example.com:8443"), mode="enforce", port=8443)

    if seen:
        is_it = seen[0] is not None and seen[0].lower() == "a.example.com"
        assert isinstance(judgement, End) or (is_it and judgement == Pass())


@given(GOOD, SPLITS)
def test_a_good_hello_is_read_whatever_else_is_in_it(data: bytes, sizes: list[int]) -> None:
    assert feed_in_pieces(HelloReader(), data, sizes)[0] == Hello(HostName("a.example.com"), has_ech=False)
