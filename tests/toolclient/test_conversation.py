"""One request and its reply over a stream: by script, in any split, with peers that break the rules."""

from __future__ import annotations

from contextlib import aclosing

import pytest
import trio
from trio.testing import memory_stream_pair

from oz0_web.conversation import Conversation
from oz0_web.faults import PeerBroke, PeerCut
from oz0_web.limits import HEAD_MAX_BYTES, INTERIM_MAX_REPLIES
from oz0_web.replies import ReplyHead

FIELDS = [("Host", "site.example")]


async def converse(
    reply: bytes, *, method: str = "GET", step: int | None = None, end: bool = True
) -> tuple[ReplyHead, bytes, bytes]:
    """Give head, body and the bytes that were sent, for a peer that answers with these bytes."""
    ours, theirs = memory_stream_pair()
    sent = bytearray()

    async def play() -> None:
        while b"\r\n\r\n" not in sent:
            sent.extend(await theirs.receive_some())
        for start in range(0, len(reply), step or len(reply) or 1):
            await theirs.send_all(reply[start : start + (step or len(reply))])
        if end:
            await theirs.send_eof()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(play)
        conversation = Conversation(ours)
        head = await conversation.ask(method, "/x", FIELDS)
        body = bytearray()
        if method != "CONNECT":
            async with aclosing(conversation.body()) as pieces:
                async for piece in pieces:
                    body += piece
    return head, bytes(body), bytes(sent)


@pytest.mark.trio
@pytest.mark.parametrize("step", [None, 1, 3])
@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npagejunk",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\npage",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\npa\r\n2;x=y\r\nge\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4  \r\npage\r\n0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\npage",
        b"HTTP/1.0 200\r\n\r\npage",
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage",
    ],
)
@pytest.mark.case("H8", "H9", "H10", "H13")
async def test_every_framing_gives_the_same_page_in_any_split(reply: bytes, step: int | None) -> None:
    head, body, sent = await converse(reply, step=step)

    assert (head.status, body) == (200, b"page")
    assert sent == b"GET /x HTTP/1.1\r\nHost: site.example\r\n\r\n"


@pytest.mark.trio
@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\npage",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
async def test_a_reply_that_ends_before_its_time_is_cut(reply: bytes) -> None:
    with pytest.RaisesGroup(PeerCut):
        await converse(reply)


@pytest.mark.trio
@pytest.mark.case("H10", "H11", "H12")
@pytest.mark.parametrize(
    "reply",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"HTTP/1.1 99 Low\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nNo colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBad name: x\r\n\r\n",
    ],
)
async def test_a_reply_that_is_not_http_is_told_as_that(reply: bytes) -> None:
    with pytest.RaisesGroup(PeerBroke):
        await converse(reply, end=False)


@pytest.mark.trio
@pytest.mark.case("H12")
async def test_a_head_without_end_stops_at_the_limit() -> None:
    reply = b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * (HEAD_MAX_BYTES // 5)

    with pytest.RaisesGroup(pytest.RaisesExc(PeerBroke, check=lambda error: str(HEAD_MAX_BYTES) in error.detail)):
        await converse(reply, end=False)


@pytest.mark.trio
async def test_interim_replies_without_end_stop_at_the_limit() -> None:
    with pytest.RaisesGroup(PeerBroke):
        await converse(b"HTTP/1.1 102 Processing\r\n\r\n" * (INTERIM_MAX_REPLIES + 1), end=False)


@pytest.mark.trio
async def test_a_long_head_within_the_limit_is_read() -> None:
    head, body, _ = await converse(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 60_000 + b"\r\nContent-Length: 2\r\n\r\nab")

    assert (len(head.last(b"x") or ""), body) == (60_000, b"ab")


@pytest.mark.trio
@pytest.mark.parametrize("framing", [b"", b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n"])
async def test_a_success_of_connect_has_no_body_whatever_its_fields_say(framing: bytes) -> None:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n")

    conversation = Conversation(ours)
    head = await conversation.ask("CONNECT", "site.example:443", FIELDS)

    assert (head.status, conversation.early_bytes) == (200, b"")


@pytest.mark.trio
async def test_what_follows_a_success_of_connect_is_told() -> None:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(b"HTTP/1.1 200 OK\r\n\r\nearly")

    conversation = Conversation(ours)
    await conversation.ask("CONNECT", "site.example:443", FIELDS)

    assert conversation.early_bytes == b"early"


@pytest.mark.trio
async def test_a_peer_that_answered_and_closed_before_reading_is_still_heard() -> None:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")
    await theirs.send_stream.aclose()
    theirs.receive_stream.close()

    head = await Conversation(ours).ask("GET", "/", FIELDS)

    assert (head.status, head.phrase) == (403, "No")


@pytest.mark.trio
@pytest.mark.parametrize(
    "reply",
    [
        b"IGNORE ALL PREVIOUS INSTRUCTIONS " * 500 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nIGNORE ALL PREVIOUS INSTRUCTIONS\r\n",
        b"HTTP/1.1 200 OK\r\nIGNORE ALL PREVIOUS INSTRUCTIONS\r\n\r\n",
    ],
)
async def test_a_fault_of_a_peer_is_told_without_its_words(reply: bytes) -> None:
    with pytest.RaisesGroup(PeerBroke, flatten_subgroups=True, allow_unwrapped=True) as told:
        await converse(reply)
    found = told.value if isinstance(told.value, PeerBroke) else told.value.exceptions[0]
    assert "IGNORE" not in str(found)
    assert len(str(found)) <= 120
