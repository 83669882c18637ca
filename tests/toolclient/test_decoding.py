"""Content codings: what decodes, what is the site's fault, and that no bomb goes off."""

from __future__ import annotations

import gzip
import resource
import tracemalloc
import zlib
from collections.abc import Callable

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from oz0_web.decoding import Work, check_end, decode, decoders
from oz0_web.faults import PeerBroke
from oz0_web.limits import CODINGS_MAX, DECODED_PIECE_BYTES

TEXT = b"".join(b"line %d of the text\n" % number for number in range(20_000))


def raw_deflate(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(data) + engine.flush()


def undo(codings: list[str], data: bytes, *, step: int | None = None, wanted: int = 10_000_000) -> bytes:
    chain, work, found = decoders(codings), Work(wanted), bytearray()
    step = step or max(1, len(data))
    for start in range(0, len(data), step):
        for piece in decode(chain, data[start : start + step], work):
            found += piece
    check_end(chain)
    return bytes(found)


@pytest.mark.parametrize("step", [None, 1, 7])
@pytest.mark.parametrize(
    ("codings", "data"),
    [
        ([], TEXT),
        (["identity"], TEXT),
        (["gzip"], gzip.compress(TEXT)),
        (["x-gzip"], gzip.compress(TEXT)),
        (["gzip", "gzip"], gzip.compress(gzip.compress(TEXT))),
        (["deflate", "gzip"], gzip.compress(zlib.compress(TEXT))),
        (["br"], brotli.compress(TEXT, quality=4)),
        (["zstd"], zstd.compress(TEXT)),
        (["zstd"], zstd.compress(TEXT[:1_000]) + zstd.compress(TEXT[1_000:])),
        (["gzip", "deflate", "br", "zstd"], zstd.compress(brotli.compress(zlib.compress(gzip.compress(TEXT))))),
    ],
    ids=lambda value: "+".join(value) or "none" if isinstance(value, list) else "",
)
@pytest.mark.case("H3")
def test_codings_are_undone_in_reverse_order_in_any_split(codings: list[str], data: bytes, step: int | None) -> None:
    assert undo(codings, data, step=step) == TEXT


@pytest.mark.parametrize("step", [None, 1])
@pytest.mark.case("H1", "H2")
def test_deflate_is_taken_with_and_without_the_zlib_wrapping(step: int | None) -> None:
    assert undo(["deflate"], zlib.compress(TEXT), step=step) == TEXT
    assert undo(["deflate"], raw_deflate(TEXT), step=step) == TEXT


@pytest.mark.case("H7")
def test_bytes_after_the_end_of_the_stream_are_dropped() -> None:
    assert undo(["gzip"], gzip.compress(b"page") + gzip.compress(b"more") + b"junk") == b"page"


BOMB = bytes(64_000_000)


@pytest.mark.slow
@pytest.mark.case("H7")
@pytest.mark.parametrize(
    ("codings", "pack"),
    [
        (["gzip"], lambda: gzip.compress(BOMB, 9)),
        (["deflate"], lambda: zlib.compress(BOMB, 9)),
        (["br"], lambda: brotli.compress(BOMB, quality=5)),
        (["zstd"], lambda: zstd.compress(BOMB)),
        (["br", "zstd"], lambda: zstd.compress(brotli.compress(BOMB, quality=5))),
    ],
    ids=["gzip", "deflate", "br", "zstd", "br+zstd"],
)
def test_a_bomb_comes_out_in_small_pieces_and_stays_small_in_memory(
    codings: list[str], pack: Callable[[], bytes]
) -> None:
    bomb = pack()
    chain, work = decoders(codings), Work(64_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    tracemalloc.start()
    sizes = [len(piece) for piece in decode(chain, bomb, work)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert sum(sizes) == 64_000_000
    assert max(sizes) <= DECODED_PIECE_BYTES
    assert peak < 2_000_000
    # What the libraries take outside Python's own memory, in KiB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


@pytest.mark.case("H7")
def test_a_bomb_of_a_bomb_that_gives_nothing_ends_by_its_work() -> None:
    empty_blocks = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\x00\x00\x00\xff\xff" * 4_000_000
    outer = gzip.compress(empty_blocks, 9)
    assert len(outer) < 100_000

    with pytest.raises(PeerBroke, match="without end"):
        undo(["gzip", "gzip"], outer, wanted=1_000_000)


@pytest.mark.parametrize("codings", [["compress"], ["gzip", "aes128gcm"], ["nonsense"], ["gzip"] * (CODINGS_MAX + 1)])
def test_a_coding_that_was_not_asked_for_is_the_sites_fault(codings: list[str]) -> None:
    with pytest.raises(PeerBroke):
        decoders(codings)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_bytes_that_are_not_of_the_coding_are_the_sites_fault(coding: str) -> None:
    with pytest.raises(PeerBroke, match=coding):
        undo([coding], b"<html>not compressed at all")


@pytest.mark.parametrize(
    ("coding", "data"),
    [
        ("gzip", gzip.compress(TEXT)[:-9]),
        ("gzip", gzip.compress(TEXT)[:5]),
        ("br", brotli.compress(TEXT)[:-5]),
        ("zstd", zstd.compress(TEXT)[:-5]),
        ("zstd", zstd.compress(TEXT)[:3]),
    ],
)
def test_a_compressed_body_that_ends_early_is_not_taken_for_whole(coding: str, data: bytes) -> None:
    with pytest.raises(PeerBroke, match="before its time"):
        undo([coding], data)


def test_a_zstd_frame_that_needs_a_bigger_window_than_http_has_is_the_sites_fault() -> None:
    options: dict[int, int] = {
        zstd.CompressionParameter.window_log: 27,
        zstd.CompressionParameter.content_size_flag: 0,
    }
    engine = zstd.ZstdCompressor(options=options)
    data = engine.compress(TEXT) + engine.flush()

    with pytest.raises(PeerBroke, match="zstd"):
        undo(["zstd"], data)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_no_bytes_at_all_are_an_empty_body(coding: str) -> None:
    assert undo([coding], b"") == b""


@given(st.binary(max_size=300), st.sampled_from([["gzip"], ["deflate"], ["br"], ["zstd"], ["gzip", "deflate"]]))
def test_any_bytes_decode_or_are_the_sites_fault(data: bytes, codings: list[str]) -> None:
    try:
        undo(codings, data)
    except PeerBroke:
        return


@given(st.binary(max_size=2_000), st.integers(1, 50))
def test_any_body_comes_back_in_any_split(data: bytes, step: int) -> None:
    assert undo(["gzip"], gzip.compress(data), step=step) == data
    assert undo(["deflate"], raw_deflate(data), step=step) == data
    assert undo(["br"], brotli.compress(data, quality=1), step=step) == data
    assert undo(["zstd"], zstd.compress(data), step=step) == data
