"""Decides what the first bytes of a tunnel say about the server's name, and whether the tunnel may go on with them.

`HelloReader` reads one ClientHello across records and segments and gives its server name; `judge_hello` holds it
against the CONNECT name. A byte string that one server could read otherwise than this module does is a `BadHello`, and
never a pass: what looks like TLS to the most lenient server known (Go's, which takes record versions up to 0x0fff and
passes over warnings before the hello) must be plain TLS here, or a fronting hello would come in behind an odd record.

What it cannot see: anything behind the first hello. A second one after HelloRetryRequest is the same by RFC 8446
section 4.1.2, which the origin has to hold the client to; the inner name of Encrypted Client Hello, a renegotiation and
the inner Host are the origin's business too. ECH and its GREASE look alike on purpose (draft-ietf-tls-esni section 6.2)
and are both told as `has_ech`.

Never waits, sees no clock, changes no byte. Called by the worker between the 200 and the relay.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from egress_policy.names import BadName, HostName, parse_name
from egress_policy.reasons import End
from egress_policy.targets import Target
from egressd.limits import CLIENT_HELLO_MAX_BYTES

# RFC 8446 section 5.1, B.1: content types and the largest fragment. 20 to 24: change_cipher_spec, alert, handshake,
# application_data, heartbeat (RFC 6520).
_CONTENT_TYPES = range(20, 25)
_ALERT = 21
_HANDSHAKE = 22
_FRAGMENT_MAX_LENGTH = 1 << 14
_RECORD_HEADER_LENGTH = 5
# Where Go's crypto/tls (conn.go, readRecordOrCCS) stops to take a first record for TLS; all others want 3.
_MAJOR_VERSIONS = range(0x10)
_MAJOR_VERSION = 3
# RFC 8446 section 4: the type of the message and a length of three bytes.
_CLIENT_HELLO = 1
_MESSAGE_HEADER_LENGTH = 4
# RFC 8446 section 4.1.2: two bytes of version, 32 of random.
_SESSION_ID_AT = 34
_SESSION_ID_MAX_LENGTH = 32
# IANA, TLS ExtensionType Values, 2026-01: server_name (RFC 6066), encrypted_client_hello.
_SERVER_NAME = 0
_ENCRYPTED_CLIENT_HELLO = 0xFE0D
# RFC 6066 section 3: the only type of name that was ever given out.
_HOST_NAME = 0
# The port on which a tunnel has to open with TLS.
_HTTPS_PORT = 443


class NeedMore(Enum):
    """The type of `NEED_MORE`: the hello has not ended yet, and nothing says that it is bad."""

    NEED_MORE = "need more"


class NotTls(Enum):
    """The type of `NOT_TLS`: the stream does not open with a TLS record."""

    NOT_TLS = "not tls"


NEED_MORE: Final = NeedMore.NEED_MORE
NOT_TLS: Final = NotTls.NOT_TLS


@dataclass(frozen=True, slots=True)
class Hello:
    """What a ClientHello says in the clear.

    Attributes:
        server_name: The one host name of the server_name extension; None without the extension.
        has_ech: Whether it offers Encrypted Client Hello, or GREASE of it.
    """

    server_name: HostName | None
    has_ech: bool


@dataclass(frozen=True, slots=True)
class BadHello:
    """A stream that opens as TLS, but not with a ClientHello that has one reading.

    Attributes:
        end: How the tunnel ends for it: `not-tls` if it is no ClientHello, `sni-mismatch` if there is a name and it is
            no host name, `sni-missing` if no name came within the bound.
        detail: Fixed text: nothing that a client says inside its tunnel is shown.
    """

    end: End
    detail: str


_TOO_LONG = BadHello(End.SNI_MISSING, "the hello does not end within the bound")
_NO_HANDSHAKE = BadHello(End.NOT_TLS, "a record before the hello")
_ODD_VERSION = BadHello(End.NOT_TLS, "a record of a version that is none")
_EMPTY_FRAGMENT = BadHello(End.NOT_TLS, "an empty fragment")
_LONG_FRAGMENT = BadHello(End.NOT_TLS, "a record that is longer than records are")
_INTERLEAVED = BadHello(End.NOT_TLS, "another record inside the hello")
_NO_CLIENT_HELLO = BadHello(End.NOT_TLS, "a handshake that does not begin with a ClientHello")
_TRAILING_MESSAGE = BadHello(End.NOT_TLS, "something behind the hello in its record")
_MALFORMED = BadHello(End.NOT_TLS, "lengths in the hello that do not fit")
_TWICE = BadHello(End.NOT_TLS, "an extension that comes twice")
_BAD_NAME_LIST = BadHello(End.SNI_MISMATCH, "a list of server names whose lengths do not fit")
_OTHER_NAME_TYPE = BadHello(End.SNI_MISMATCH, "a server name that is no host name by its type")
_MORE_NAMES = BadHello(End.SNI_MISMATCH, "more than one server name")
_NO_NAME = BadHello(End.SNI_MISMATCH, "a server name that is no host name")
_FINAL_DOT = BadHello(End.SNI_MISMATCH, "a server name with a final dot")

Answer = Hello | NeedMore | NotTls | BadHello


@dataclass(frozen=True, slots=True)
class Pass:
    """The tunnel goes on. `would_be` is how it would have ended under `enforce`, in mode `count`."""

    would_be: End | None = None


class HelloReader:
    """Reads the ClientHello that a tunnel opens with. One for each tunnel.

    A header's bytes are looked at once each as they come, a message's once more when it is whole, so that neither the
    size of the segments nor that of the records makes it dear.

    Attributes:
        held: All bytes that were fed, as they came; what goes to the origin if the tunnel goes on.
        examined: Bytes looked at so far.
    """

    __slots__ = ("_at", "_header", "_is_odd", "_left", "_max_bytes", "_message", "_size", "_type", "examined", "held")

    def __init__(self, max_bytes: int = CLIENT_HELLO_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._at = 0  # the next byte of `held`
        self._header = 0  # bytes of the record's header so far
        self._type = 0
        self._is_odd = False  # the first record has a version that only a lenient server takes for TLS
        self._left = 0  # bytes of the record's fragment still to come
        self._message = bytearray()  # the handshake message so far, its header included
        self._size = 0  # of the whole message, once its header is there
        self.held = bytearray()
        self.examined = 0

    def feed(self, chunk: bytes) -> Answer:
        """Take what has arrived.

        Args:
            chunk: The next bytes of the stream. To be called until it answers, and not after that.

        Returns:
            The hello, `NEED_MORE`, `NOT_TLS`, or what is wrong with it: the same in any split of the stream, with the
            first byte that settles it. Bytes behind the record that ends the hello are kept in `held` and not read.

        Source: RFC 8446 section 5.1 for records, section 4.1.2 for the message.
        """
        self.held += chunk
        stop = min(len(self.held), self._max_bytes)
        while self._at < stop:
            answer = self._read_record_header() if self._header < _RECORD_HEADER_LENGTH else self._read_fragment(stop)
            if answer is not None:
                return answer
        if self._at >= self._max_bytes:
            return _TOO_LONG
        return NEED_MORE

    def _next(self) -> int:
        byte = self.held[self._at]
        self._at += 1
        self.examined += 1
        return byte

    def _read_record_header(self) -> NotTls | BadHello | None:
        """Read one byte of a record's header."""
        is_first = self._at < _RECORD_HEADER_LENGTH
        byte = self._next()
        self._header += 1
        match self._header:
            case 1:
                self._type = byte
                if is_first:  # all else that begins with TLS's types is known by the version
                    return None if byte in _CONTENT_TYPES else NOT_TLS
                return None if byte == _HANDSHAKE else _INTERLEAVED
            case 2:
                if byte == _MAJOR_VERSION:
                    return None if self._type == _HANDSHAKE else _NO_HANDSHAKE
                if not is_first:
                    return _ODD_VERSION
                self._is_odd = byte in _MAJOR_VERSIONS and self._type in {_ALERT, _HANDSHAKE}
                return None if self._is_odd else NOT_TLS
            case 3:  # the minor version, which RFC 8446 section 5.1 says to ignore
                return None
            case 4:
                self._left = byte << 8
                return None
            case _:
                self._left |= byte
                return self._judge_length()

    def _judge_length(self) -> NotTls | BadHello | None:
        if self._is_odd:
            # The most lenient server passes over a warning of two bytes, and over an empty record.
            if self._type == _ALERT:
                return _NO_HANDSHAKE if self._left == 2 else NOT_TLS
            return None if self._left else _ODD_VERSION
        if not self._left:
            # "Implementations MUST NOT send zero-length fragments of Handshake types", and some servers count them,
            # some pass over them and some end there.
            return _EMPTY_FRAGMENT
        return None if self._left <= _FRAGMENT_MAX_LENGTH else _LONG_FRAGMENT

    def _read_fragment(self, stop: int) -> Hello | NotTls | BadHello | None:
        """Read one byte of a message's header, or take what is there of its body."""
        message = self._message
        if len(message) < _MESSAGE_HEADER_LENGTH:
            message.append(self._next())
            self._left -= 1
            if len(message) == 1:
                if self._is_odd:
                    return _ODD_VERSION if message[0] == _CLIENT_HELLO else NOT_TLS
                if message[0] != _CLIENT_HELLO:
                    return _NO_CLIENT_HELLO
            elif len(message) == _MESSAGE_HEADER_LENGTH:
                self._size = _MESSAGE_HEADER_LENGTH + int.from_bytes(message[1:], "big")
                if self._size + _RECORD_HEADER_LENGTH > self._max_bytes:
                    return _TOO_LONG
        else:
            taken = min(self._left, self._size - len(message), stop - self._at)
            message += memoryview(self.held)[self._at : self._at + taken]
            self._at += taken
            self._left -= taken
        if len(message) == self._size:
            # Nothing that a client may say before it has heard the server fits into the hello's own record.
            return _TRAILING_MESSAGE if self._left else self._end()
        if not self._left:
            self._header = 0
        return None

    def _end(self) -> Hello | BadHello:
        self.examined += self._size - _MESSAGE_HEADER_LENGTH
        return read_client_hello(bytes(self._message[_MESSAGE_HEADER_LENGTH:]))


def read_client_hello(body: bytes) -> Hello | BadHello:
    """Take the body of a ClientHello apart, without the four bytes before it.

    Every length has to fill exactly what is around it, and no extension may come twice: a reader that takes the first
    and one that takes the last would see two names. Values that stand for nothing (GREASE, RFC 8701) and versions are
    passed over, since no name depends on them. A hello may end after the compression methods (RFC 5246 section
    7.4.1.2).

    Source: RFC 8446 sections 4.1.2 and 4.2.
    """
    session_id = _block(body, _SESSION_ID_AT, 1)
    if session_id is None or len(session_id[0]) > _SESSION_ID_MAX_LENGTH:
        return _MALFORMED
    suites = _block(body, session_id[1], 2)
    if suites is None or not suites[0] or len(suites[0]) % 2:
        return _MALFORMED
    methods = _block(body, suites[1], 1)
    if methods is None or not methods[0]:
        return _MALFORMED
    if methods[1] == len(body):
        return Hello(None, has_ech=False)
    extensions = _block(body, methods[1], 2)
    if extensions is None or extensions[1] != len(body):
        return _MALFORMED
    return _read_extensions(extensions[0])


def _read_extensions(block: bytes) -> Hello | BadHello:
    seen: set[int] = set()
    server_name: HostName | None = None
    at = 0
    while at < len(block):
        extension = _block(block, at + 2, 2)
        if extension is None:
            return _MALFORMED
        kind = int.from_bytes(block[at : at + 2], "big")
        if kind in seen:
            return _TWICE
        seen.add(kind)
        data, at = extension
        if kind == _SERVER_NAME:
            found = read_server_name(data)
            if isinstance(found, BadHello):
                return found
            server_name = found
    return Hello(server_name, has_ech=_ENCRYPTED_CLIENT_HELLO in seen)


def read_server_name(data: bytes) -> HostName | BadHello:
    """Read the data of a server_name extension: a list of exactly one host name.

    "The ServerNameList MUST NOT contain more than one name of the same name_type", and no other type was ever given
    out: servers pass over one or end there, so a list with one has no single reading. A host name is "a byte string
    using ASCII encoding without a trailing dot", and "literal IPv4 and IPv6 addresses are not permitted". The final
    dot that a request may have is therefore none here: Go refuses it, others look for a site of that very name and
    answer with their default one, which is not what was judged. Letters of either case are the same.

    Source: RFC 6066 section 3.
    """
    names = _block(data, 0, 2)
    if names is None or names[1] != len(data) or not names[0]:
        return _BAD_NAME_LIST
    if names[0][0] != _HOST_NAME:
        return _OTHER_NAME_TYPE
    name = _block(names[0], 1, 2)
    if name is None:
        return _BAD_NAME_LIST
    if name[1] != len(names[0]):
        return _MORE_NAMES
    text = name[0].decode("latin-1")  # any byte is a character, and those beyond ASCII are in no name
    if text.endswith("."):
        return _FINAL_DOT
    found = parse_name(text)
    return _NO_NAME if isinstance(found, BadName) else found


def _block(data: bytes, at: int, width: int) -> tuple[bytes, int] | None:
    """What stands behind a length of `width` bytes at `at`, and where it ends; None if the data ends before it."""
    start = at + width
    if start > len(data):
        return None
    end = start + int.from_bytes(data[at:start], "big")
    return (data[start:end], end) if end <= len(data) else None


def judge_hello(result: Answer | None, target: Target, *, mode: str, port: int) -> Pass | End | NeedMore:
    """Decide whether a tunnel goes on.

    A tunnel to a name that opens with a TLS record has to carry that name, on any port: a hello without a name is
    ended too, since the origin would choose for itself. Elsewhere than on 443 other protocols pass, and one in which
    the server speaks first may stay silent for as long as it likes; but a TLS record that was begun has to become a
    hello in time, or waiting for the deadline would be the way around the check.

    Args:
        result: What the reader answered. `NEED_MORE`: the deadline has passed, or the client has ended its direction,
            with a record begun. None: the same, with no byte at all.
        target: Of the CONNECT.
        mode: `enforce`, `count` or `off`, as the matching rule or list says.
        port: Of the CONNECT.

    Returns:
        `Pass`, the end of the tunnel, or `NEED_MORE` when silence decides nothing: read on without a deadline, which
        starts with the first byte.
    """
    if mode == "off" or not isinstance(target.host, HostName):
        return Pass()
    end = _end_of(result, target.host, is_https=port == _HTTPS_PORT)
    if isinstance(end, End):
        return Pass(end) if mode == "count" else end
    return end


def _end_of(result: Answer | None, name: HostName, *, is_https: bool) -> Pass | End | NeedMore:
    match result:
        case Hello(server_name=None):
            return End.SNI_MISSING
        case Hello():
            return Pass() if result.server_name == name else End.SNI_MISMATCH
        case BadHello():
            return result.end
        case NotTls.NOT_TLS:
            return End.NOT_TLS if is_https else Pass()
        case NeedMore.NEED_MORE:
            return End.HELLO_TIMEOUT
        case None:
            return End.HELLO_TIMEOUT if is_https else NEED_MORE
