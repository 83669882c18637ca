"""An authoritative DNS server for tests, the demo and the bench: real sockets, answers as told, all counted.

A name's type has a script of `Step`s: each question takes the next one, and the last one stays (answer 1, then answer
2 is rebinding). A name that is not known is NXDOMAIN, a type that a known name has not is an empty answer; `*.suffix`
and `*` stand for names below. Answers can be late, missing, held until released, or wrong in every way that a resolver
must survive. Wire by dnslib; nothing is asked of anyone else.

Used as `with DnsServer() as server`, or as a process that prints the addresses it listens on:
`python -m support.dns_server --listen 127.0.0.1:0 --zone zone.json --log questions.jsonl`. The zone file has, by name
and type, a list of values, or a step as an object (`{"values": [...], "ttl": 60, "how": "servfail", "delay": 0.1}`), or
a list of such objects.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import json
import os
import selectors
import signal
import socket
import struct
import threading
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv6Address
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dnslib import AAAA, CNAME, QTYPE, RCODE, RR, SOA, TXT, A, DNSError, DNSRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

HOWS = frozenset(
    {
        "answer",
        "nxdomain",
        "servfail",
        "refused",
        "drop",  # no answer at all
        "truncated",  # TC over UDP, the answer over TCP
        "wrong-id",  # an answer to another question's id
        "wrong-question",  # the id is right, the question section is another name's
        "wrong-name",  # the records belong to another name
        "wrong-type",  # the records are TXT
        "garbage",  # the right id, then bytes that are no message
    }
)
WAIT_SECONDS = 5.0
_PLAIN_UDP_MAX_BYTES = 512
_RECEIVE_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class Step:
    """What one question gets.

    Attributes:
        values: Addresses of the asked type (or text, for TXT).
        ttl: Seconds, of every record.
        chain: Aliases between the asked name and the values: the asked name is one of the first, and so on.
        how: One of `HOWS`.
        delay: Seconds before the answer leaves.
    """

    values: tuple[str, ...] = ()
    ttl: int = 60
    chain: tuple[str, ...] = ()
    how: str = "answer"
    delay: float = 0.0

    def __post_init__(self) -> None:
        assert self.how in HOWS, self.how


@dataclass(frozen=True, slots=True)
class Question:
    """One question as it arrived."""

    name: str
    type: str
    transport: str


class DnsServer:
    """The server, in a thread of its own between `start` and `stop`.

    Args of the constructor: where to listen, as (address, port) pairs with 0 for any port; or pairs of bound sockets
    (UDP, listening TCP) that were made elsewhere, in another network namespace say; and a file that gets a line for
    each question.

    Attributes:
        addresses: Where it listens, in the form that a configuration takes: `127.0.0.1:5353`, `[::1]:5353`.
        questions: Everything asked so far, in order.
    """

    def __init__(
        self,
        listen: Iterable[tuple[str, int]] = (("127.0.0.1", 0), ("::1", 0)),
        *,
        sockets: Sequence[tuple[socket.socket, socket.socket]] | None = None,
        log: Path | None = None,
    ) -> None:
        self._pairs = list(sockets) if sockets is not None else [bind_pair(*place) for place in listen]
        self.addresses = tuple(_written(udp.getsockname()) for udp, _ in self._pairs)
        self.questions: list[Question] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._scripts: dict[str, dict[str, list[Step]]] = {}
        self._held_names: set[str] = set()
        self._held: list[Callable[[], None]] = []
        self._changed = threading.Condition()
        self._late: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._log = log.open("a", encoding="utf-8") if log is not None else None
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._thread: threading.Thread | None = None
        self._stopping = False

    # What it says

    def set(self, name: str, qtype: str, *steps: Step) -> None:
        """Give a name's type its script; one that was there is forgotten, and its questions start anew."""
        with self._changed:
            self._scripts.setdefault(name.lower().rstrip("."), {})[qtype] = list(steps)

    def set_addresses(self, name: str, *addresses: str, then: Sequence[str] | None = None, ttl: int = 60) -> None:
        """Give a name addresses of both families, and others from its second question on."""
        for qtype, colon in (("A", False), ("AAAA", True)):
            rows = (addresses,) if then is None else (addresses, then)
            steps = (Step(tuple(each for each in row if (":" in each) is colon), ttl) for row in rows)
            self.set(name, qtype, *steps)

    def set_how(self, name: str, how: str, *addresses: str, delay: float = 0.0) -> None:
        """Make both families of a name answer in one of the ways of `HOWS`."""
        for qtype, colon in (("A", False), ("AAAA", True)):
            values = tuple(each for each in addresses if (":" in each) is colon)
            self.set(name, qtype, Step(values, how=how, delay=delay))

    def load(self, zone: Mapping[str, Mapping[str, Any]]) -> None:
        """Take a zone in the form of the zone file."""
        for name, types in zone.items():
            for qtype, given in types.items():
                rows = given if isinstance(given, list) and given and isinstance(given[0], dict) else [given]
                self.set(name, qtype, *(_step(row) for row in rows))

    def hold(self, name: str) -> None:
        """Keep the answers for a name back until `release`."""
        with self._changed:
            self._held_names.add(name)

    def release(self) -> None:
        """Send what is held, in the order of the questions, and hold nothing any more."""
        with self._changed:
            self._held_names.clear()
        self._wake_out.send(b"r")

    # What it was asked

    def count(self, name: str, qtype: str | None = None) -> int:
        """How often a name was asked for, of one type or of all."""
        with self._changed:
            if qtype is not None:
                return self._counts[name, qtype]
            return sum(times for (asked, _), times in self._counts.items() if asked == name)

    @property
    def total(self) -> int:
        """How many questions arrived."""
        return len(self.questions)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition on the questions; one that does not come within five seconds fails the test."""
        with self._changed:
            assert self._changed.wait_for(condition, WAIT_SECONDS), f"did not come; asked so far: {self.questions}"

    # Its life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Serve in a thread; the sockets are bound already, so no question is lost before it."""
        self._thread = threading.Thread(target=self.serve, name="dns-server", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close everything."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._wake_out.send(b"s")
        if self._thread is not None:
            self._thread.join()
        for sock in (*(sock for pair in self._pairs for sock in pair), self._wake_in, self._wake_out):
            sock.close()
        self._selector.close()
        if self._log is not None:
            self._log.close()

    def serve(self) -> None:
        """Answer until `stop`."""
        for udp, tcp in self._pairs:
            udp.setblocking(False)
            tcp.setblocking(False)
            self._watch(udp, partial(self._on_udp, udp))
            self._watch(tcp, partial(self._on_accept, tcp))
        self._watch(self._wake_in, self._on_wake)
        while not self._stopping:
            wait = self._late[0][0] - time.monotonic() if self._late else None
            for key, _ in self._selector.select(wait if wait is None else max(wait, 0)):
                key.data()
            while self._late and self._late[0][0] <= time.monotonic():
                heapq.heappop(self._late)[2]()
        for key in list(self._selector.get_map().values()):
            self._selector.unregister(key.fileobj)
            if isinstance(key.fileobj, _Stream):
                key.fileobj.sock.close()

    def _watch(self, source: Any, handler: Callable[[], None]) -> None:  # noqa: ANN401 - anything with a descriptor
        self._selector.register(source, selectors.EVENT_READ, handler)

    def _on_wake(self) -> None:
        self._wake_in.recv(64)
        if not self._held_names:
            held, self._held = self._held, []
            for send in held:
                send()

    # The two transports

    def _on_udp(self, udp: socket.socket) -> None:
        try:
            message, peer = udp.recvfrom(_RECEIVE_BYTES)
        except OSError:  # what an earlier answer to a closed port brought back
            return

        def send(answer: bytes) -> None:
            with contextlib.suppress(OSError):
                udp.sendto(answer, peer)

        self._take(message, "udp", send)

    def _on_accept(self, tcp: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock, _ = tcp.accept()
            stream = _Stream(sock)
            self._watch(stream, partial(self._on_stream, stream))

    def _on_stream(self, stream: _Stream) -> None:
        try:
            chunk = stream.sock.recv(_RECEIVE_BYTES)
        except OSError:
            chunk = b""
        if not chunk:
            self._selector.unregister(stream)
            stream.sock.close()
            return
        for message in stream.feed(chunk):
            self._take(message, "tcp", stream.send)

    # One question

    def _take(self, message: bytes, transport: str, send: Callable[[bytes], None]) -> None:
        try:
            asked = DNSRecord.parse(message)
        except DNSError:
            return
        name = str(asked.q.qname).rstrip(".").lower()
        qtype = str(QTYPE[asked.q.qtype])
        with self._changed:
            known, step = self._next_step(name, qtype)
            self._counts[name, qtype] += 1
            self.questions.append(Question(name, qtype, transport))
            held = name in self._held_names
            if self._log is not None:
                self._log.write(json.dumps({"name": name, "type": qtype, "transport": transport}) + "\n")
                self._log.flush()
            self._changed.notify_all()
        if step.how == "drop":
            return
        answer = _packed(asked, step, known=known, transport=transport)
        if held:
            self._held.append(lambda: send(answer))
        elif step.delay:
            heapq.heappush(self._late, (time.monotonic() + step.delay, next(self._order), lambda: send(answer)))
        else:
            send(answer)

    def _next_step(self, name: str, qtype: str) -> tuple[bool, Step]:
        labels = name.split(".")
        for key in (name, *("*." + ".".join(labels[at:]) for at in range(1, len(labels))), "*"):
            types = self._scripts.get(key)
            if types is not None:
                steps = types.get(qtype, [])
                if len(steps) > 1:
                    return True, steps.pop(0)
                return True, steps[0] if steps else Step()
        return False, Step(how="nxdomain")


class _Stream:
    """One TCP client: messages behind a length of two bytes (RFC 1035 section 4.2.2)."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._kept = b""

    def fileno(self) -> int:
        return self.sock.fileno()

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        self._kept += chunk
        while len(self._kept) >= 2 and len(self._kept) >= (end := 2 + struct.unpack("!H", self._kept[:2])[0]):
            message, self._kept = self._kept[2:end], self._kept[end:]
            yield message

    def send(self, answer: bytes) -> None:
        with contextlib.suppress(OSError):
            self.sock.sendall(struct.pack("!H", len(answer)) + answer)


def _packed(asked: DNSRecord, step: Step, *, known: bool, transport: str) -> bytes:
    """The bytes of the answer to one question."""
    reply = asked.reply(ra=1, aa=1)
    if step.how == "garbage":
        return struct.pack("!H", asked.header.id) + b"\x84\x00\x00\x01\xff\xff\x00\x00\x00\x00" + b"\xc0" * 7
    if step.how in {"nxdomain", "servfail", "refused"}:
        reply.header.rcode = getattr(RCODE, {"nxdomain": "NXDOMAIN"}.get(step.how, step.how.upper()))
    else:
        owner = "stranger.example" if step.how == "wrong-name" else str(asked.q.qname)
        _fill(reply, owner, asked.q.qtype, step)
    if step.how == "wrong-id":
        reply.header.id = (asked.header.id + 1) & 0xFFFF
    if step.how == "wrong-question":
        reply.q.qname = "stranger.example"
    if not reply.rr and (known or step.how == "nxdomain"):
        # What negative caching goes by (RFC 2308 section 3): a day, to show that nobody keeps it that long.
        reply.add_auth(
            RR("example", QTYPE.SOA, ttl=86_400, rdata=SOA("ns.example", "root.example", (1, 1, 1, 1, 86_400)))
        )
    packed: bytes = reply.pack()
    if transport == "udp" and (step.how == "truncated" or len(packed) > _udp_room(asked)):
        reply = asked.reply(ra=1, aa=1)
        reply.header.tc = 1
        packed = reply.pack()
    return packed


def _fill(reply: DNSRecord, owner: str, qtype: int, step: Step) -> None:
    for alias in step.chain:
        reply.add_answer(RR(owner, QTYPE.CNAME, ttl=step.ttl, rdata=CNAME(alias)))
        owner = alias
    # dnslib reads no dotted tail (::ffff:10.0.0.7); the sixteen bytes say the same.
    make = {QTYPE.A: A, QTYPE.AAAA: lambda text: AAAA(tuple(IPv6Address(text).packed))}.get(qtype, TXT)
    if step.how == "wrong-type":
        make, qtype = TXT, QTYPE.TXT
    for value in step.values:
        reply.add_answer(RR(owner, qtype, ttl=step.ttl, rdata=make(value)))


def _udp_room(asked: DNSRecord) -> int:
    """How long an answer the asker takes over UDP (RFC 6891 section 6.2.3)."""
    sizes = [extra.edns_len for extra in asked.ar if extra.rtype == QTYPE.OPT]
    return max(_PLAIN_UDP_MAX_BYTES, *sizes) if sizes else _PLAIN_UDP_MAX_BYTES


def bind_pair(address: str, port: int) -> tuple[socket.socket, socket.socket]:
    """Bind UDP and TCP to one address and port; with port 0 to one that is free for both."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    while True:
        tcp = socket.socket(family, socket.SOCK_STREAM)
        udp = socket.socket(family, socket.SOCK_DGRAM)
        try:
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tcp.bind((address, port))
            udp.bind((address, tcp.getsockname()[1]))
            tcp.listen()
        except OSError:
            tcp.close()
            udp.close()
            if port:
                raise
        else:
            return udp, tcp


def _written(place: tuple[Any, ...]) -> str:
    return f"[{place[0]}]:{place[1]}" if ":" in place[0] else f"{place[0]}:{place[1]}"


def _step(row: Any) -> Step:  # noqa: ANN401 - a row of JSON
    if isinstance(row, dict):
        return Step(**{**row, "values": tuple(row.get("values", ())), "chain": tuple(row.get("chain", ()))})
    return Step(tuple(row))


def _place(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return address.strip("[]"), int(port)


def main() -> None:
    """Serve a zone file until a signal; the first lines of output are the addresses, one each."""
    options = argparse.ArgumentParser(prog="python -m support.dns_server")
    options.add_argument("--listen", action="append", type=_place, metavar="IP:PORT")
    options.add_argument("--zone", type=Path, required=True, metavar="FILE")
    options.add_argument("--log", type=Path, metavar="FILE")
    given = options.parse_args()
    server = DnsServer(given.listen or [("127.0.0.1", 0)], log=given.log)
    server.load(json.loads(given.zone.read_text(encoding="utf-8")))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # nothing of it outlives the process
    print("\n".join(server.addresses), flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve()
    server.stop()


if __name__ == "__main__":
    main()
