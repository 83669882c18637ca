"""Measures what one head costs: parsing, framing and building anew in microseconds, the worst heads in milliseconds.

Prints figures and decides nothing; no test looks at a clock. Run as `.venv/bin/python bench/heads.py`.
Each figure is the fastest of several rounds, since a machine only ever makes a round slower.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable

from egress_policy.reasons import Reason, Refusal, Stage
from egress_policy.targets import AbsoluteForm, parse_absolute
from egressd.forwarding import forwarded_reply, forwarded_request, origin_keeps_alive, wants_keep_alive
from egressd.framing import BadFraming, ChunkedReader, encode_chunk, reply_framing, request_framing
from egressd.http_head import NEED_MORE, HeadReader, ReplyHead, ReplyReader, RequestHead
from egressd.limits import HEAD_MAX_BYTES
from egressd.views import closing_response

ROUNDS = 15
CALLS = 10_000
CONNECT = b"CONNECT docs.python.org:443 HTTP/1.1\r\nHost: docs.python.org:443\r\nUser-Agent: curl/8.5.0\r\n\r\n"
GET = (
    b"GET http://docs.python.org/3/library/re.html HTTP/1.1\r\nHost: docs.python.org\r\nUser-Agent: curl/8.5.0\r\n"
    b"Accept: */*\r\nAccept-Encoding: gzip, deflate, br\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef\r\n"
    b"X-Request-Id: 1234\r\nConnection: keep-alive\r\n\r\n"
)
REPLY = (
    b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Tue, 01 Dec 2026 10:00:00 GMT\r\nContent-Type: text/html\r\n"
    b'Content-Length: 1024\r\nConnection: keep-alive\r\nETag: "66f3b0a1-400"\r\nAccept-Ranges: bytes\r\n\r\n'
)
START = b"GET http://a/ HTTP/1.1\r\n"
WORST = {
    "one line of spaces": START + b"X:" + b" " * (HEAD_MAX_BYTES - len(START) - 6) + b"\r\n\r\n",
    "spaces and tabs in turn": START + b"X:" + b" \t" * ((HEAD_MAX_BYTES - len(START) - 6) // 2) + b"\r\n\r\n",
    "one long name": START + b"X" * (HEAD_MAX_BYTES - len(START) - 5) + b":\r\n\r\n",
    "one long target": b"GET " + b"/" * (HEAD_MAX_BYTES - 17) + b" HTTP/1.1\r\n\r\n",
    "shortest fields": (START + b"a:\r\n" * (HEAD_MAX_BYTES // 4))[: HEAD_MAX_BYTES - 4] + b"\r\n\r\n",
    "a long line that is none": START + b"X" * (HEAD_MAX_BYTES - len(START) - 4) + b"\r\n\r\n",
}


def show(name: str, call: Callable[[], object]) -> None:
    """Print the microseconds of one call."""
    best = min(timeit.repeat(call, number=CALLS, repeat=ROUNDS)) / CALLS
    print(f"{name:44}{best * 1e6:8.2f} us")


def show_worst(name: str, data: bytes) -> None:
    """Print the CPU milliseconds of a large head, whole and byte by byte, and the looks at each byte."""
    times = []
    reader = HeadReader()
    for size in (len(data), 1):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        reader = HeadReader()
        began = time.process_time()
        for piece in pieces:
            if reader.feed(piece) is not NEED_MORE:
                break
        times.append((time.process_time() - began) * 1e3)
    print(f"{name:44}{times[0]:8.2f} ms whole {times[1]:8.2f} ms byte by byte, {reader.examined / len(data):.2f} looks")


def main() -> None:
    """Measure and print."""
    request, reply = HeadReader().feed(GET), ReplyReader().feed(REPLY)
    assert isinstance(request, RequestHead)  # noqa: S101 - the figures below are of these
    assert isinstance(reply, ReplyHead)  # noqa: S101 - the same
    asked = parse_absolute(request.target)
    assert isinstance(asked, AbsoluteForm)  # noqa: S101 - the same
    body, reply_body = request_framing(request), reply_framing(reply, request_method="GET", status=200)
    assert not isinstance(body, BadFraming)  # noqa: S101 - the same
    assert not isinstance(reply_body, BadFraming)  # noqa: S101 - the same
    early = CONNECT + b"\x16\x03\x01" + b"x" * 514
    answer = REPLY + b"x" * 1024
    refusal = Refusal(Reason.NOT_ON_ALLOWLIST, Stage.ALLOW, asked.target)
    template = "egressctl tenant {tenant} allow {host}"

    show("CONNECT, 3 lines", lambda: HeadReader().feed(CONNECT))
    show("CONNECT with a ClientHello behind it", lambda: HeadReader().feed(early))
    show("GET, 7 fields", lambda: HeadReader().feed(GET))
    show("reply, 7 fields and 1 KiB of body", lambda: ReplyReader().feed(answer))
    show("framing of the GET", lambda: request_framing(request))
    show("framing of the reply", lambda: reply_framing(reply, request_method="GET", status=200))
    show("does the client's connection go on", lambda: wants_keep_alive(request))
    show("does the origin's connection go on", lambda: origin_keeps_alive(reply))
    show("GET built anew", lambda: forwarded_request(request, asked.target, asked.path, body))
    show("reply built anew", lambda: forwarded_reply(reply, reply_body, keep_alive=True, client_minor=1))
    for method in ("CONNECT", "GET"):
        show(
            f"refusal of a {method}",
            lambda method=method: closing_response(  # type: ignore[misc]  # bound to this turn's value
                refusal, method=method, accept=None, tenant="default", command_template=template
            ),
        )
    chunks = encode_chunk(b"x" * 8192) * 8
    show("64 KiB of chunks of 8 KiB, cut", lambda: ChunkedReader().feed(chunks))
    show("64 KiB inside one chunk, cut", chunk_feeder(b"x" * 65_536))
    for name, data in WORST.items():
        show_worst(f"64 KiB: {name}", data)


def chunk_feeder(piece: bytes) -> Callable[[], object]:
    """A call that feeds one piece of a chunk that has no end in sight."""
    reader = ChunkedReader()

    def feed() -> object:
        return reader.feed(piece)

    reader.feed(b"ffffffff\r\n")
    return feed


if __name__ == "__main__":
    main()
