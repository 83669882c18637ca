"""Builds the head that goes on: a request's for its origin, a reply's for its client, each line from the parsed value.

What belongs to one hop ends here, in both directions: Connection and what it nominates, Keep-Alive, TE, Trailer,
Upgrade (but an asked-for switch to WebSocket), every Proxy-* and Oz0-Egress-* field; from requests also what tells the
origin about the client (Forwarded, X-Forwarded-*, the client's Via). Host, Content-Length and Transfer-Encoding are
written from the judged target and framing, never copied, so nominating them changes nothing (case F11).

Judges no target and moves no body. Called by the worker's exchange; the two builders are on the path of every request.
"""

from __future__ import annotations

import re
from http import HTTPStatus

from egress_policy.reasons import ErrorType, Reason, Refusal, Stage
from egress_policy.targets import HTTP_PORT, Target
from egress_policy.wire import PSEUDONYM
from egressd.framing import Chunked, Framing, Length, NoBody, UntilClose
from egressd.http_head import Fields, ReplyHead, RequestHead

# Ends here or is written anew. HTTP2-Settings belongs to Upgrade: h2c (RFC 7540 section 3.2.1). With an underscore, the
# lengths are no fields of HTTP, but origins that fold `_` and `-` into one would read a second length.
_ONE_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"http2-settings"),
        *(b"content-length", b"transfer-encoding", b"content_length", b"transfer_encoding"),
    }
)
_REQUEST_DROPS = _ONE_HOP | {b"host", b"via", b"forwarded", b"expect"}
_PREFIXES = (b"proxy-", b"oz0-egress-")
_REQUEST_PREFIXES = (*_PREFIXES, b"x-forwarded-")
# What passes in most requests and replies, with the line it starts; one look-up settles these. Names are sent in their
# usual spelling, because some origins and tests read them with the case they are used to.
_KNOWN = {
    name.lower().encode("ascii"): b"\r\n%b: " % name.encode("ascii")
    for name in (
        *("Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Accept-Ranges", "Age", "Alt-Svc"),
        *("Authorization", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language"),
        *("Content-Location", "Content-MD5", "Content-Range", "Content-Security-Policy", "Content-Type", "Cookie"),
        *("DNT", "Date", "ETag", "Expires", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range"),
        *("If-Unmodified-Since", "Last-Modified", "Link", "Location", "Origin", "Pragma", "Priority", "Range"),
        *("Referer", "Retry-After", "SOAPAction", "Sec-CH-UA", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site"),
        *("Sec-WebSocket-Accept", "Sec-WebSocket-Extensions", "Sec-WebSocket-Key", "Sec-WebSocket-Protocol"),
        *("Sec-WebSocket-Version", "Server", "Set-Cookie", "Strict-Transport-Security", "User-Agent", "Vary"),
        *("WWW-Authenticate", "X-API-Key", "X-Content-Type-Options", "X-Frame-Options", "X-Request-ID"),
    )
}
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode("ascii") for status in HTTPStatus}
_VIA = {minor: f"\r\nVia: 1.{minor} {PSEUDONYM}\r\n\r\n".encode("ascii") for minor in (0, 1)}
_PSEUDONYM = PSEUDONYM.encode("ascii")
_CHUNKED = b"\r\nTransfer-Encoding: chunked"
_WEBSOCKET = b"\r\nConnection: Upgrade\r\nUpgrade: websocket"
_CLOSE = b"\r\nConnection: close"
# Connection values that nominate no field.
_PLAIN_OPTIONS = frozenset({b"close", b"keep-alive"})
_CONNECTIONS = frozenset({b"connection", b"proxy-connection"})
_LIMITED_METHODS = frozenset({"TRACE", "OPTIONS"})
_FORWARDS = re.compile(rb"[0-9]{1,9}")


def wants_keep_alive(head: RequestHead) -> bool:
    """Whether the client's connection may carry another request after this one.

    Never for HTTP/1.0: a proxy keeps no such connection, since a client behind another old proxy would hang.

    Source: RFC 9112 section 9.3 and appendix C.2.2.
    """
    if not head.minor:
        return False
    for name, value in head.fields:
        if name in _CONNECTIONS and b"close" in value.lower() and b"close" in _members(value):
            return False
    return True


def origin_keeps_alive(head: ReplyHead) -> bool:
    """Whether the origin's connection may carry another request after this final reply, as far as its head says.

    Not after a reply without a body whose fields speak of one: those bytes may still come.

    Source: RFC 9112 section 9.3.
    """
    keeps = bool(head.minor)
    bodiless = head.status == 204 or head.status < 200
    for name, value in head.fields:
        if name == b"connection":
            options = _members(value)
            if b"close" in options:
                return False
            keeps = keeps or b"keep-alive" in options
        elif bodiless and (name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))):
            return False
    return keeps


def asks_websocket(head: RequestHead) -> bool:
    """Whether a request asks to switch to WebSocket, the only switch that is forwarded (case F13).

    Source: RFC 6455 section 4.1, RFC 9110 section 7.8.
    """
    return head.method == "GET" and bool(head.minor) and _switches(head.fields)


def is_last_hop(head: RequestHead) -> bool:
    """Whether an OPTIONS request may go no further than here, and is answered here.

    Source: RFC 9110 section 7.6.2.
    """
    return head.method == "OPTIONS" and head.get_all(b"max-forwards") == [b"0"]


def unfit_reply(head: ReplyHead, target: Target, *, asked_websocket: bool = False) -> Refusal | None:
    """Why a reply cannot be passed on: it plays the proxy (407), or switches to what nobody asked for (101)."""
    if head.status == 407 or (head.status == 101 and not (asked_websocket and head.minor and _switches(head.fields))):
        return Refusal(Reason.UPSTREAM_FAILED, Stage.UPSTREAM, target, error=ErrorType.HTTP_PROTOCOL_ERROR)
    return None


def forwarded_request(  # noqa: C901 - one pass, on the path of every request: no calls inside it
    head: RequestHead, target: Target, path: bytes, framing: Framing, *, websocket: bool = False
) -> bytes | Refusal:
    """Build a request's head for its origin.

    Args:
        path: Origin-form with the query, as parsed from the request-target.
        websocket: Ask the origin to switch to WebSocket; only where `asks_websocket` says so.

    Returns:
        The head with its empty line; or a refusal: TRACE, an OPTIONS that may go no further, a request that has
        passed a node before (case F24).

    Source: RFC 9110 section 7.6, RFC 9112 section 3.2.
    """
    method = head.method
    fields = head.fields
    if method in _LIMITED_METHODS:
        limited = _limited(head, target)
        if isinstance(limited, Refusal):
            return limited
        fields = limited
        if not (b"/" in head.target[7:] or b"?" in head.target):
            path = b"*"  # RFC 9112 section 3.2.4: neither path nor query was given
    authority = target.authority
    host = authority[:-3] if target.port == HTTP_PORT else authority
    out = [f"{method} ".encode("ascii"), path, f" HTTP/1.1\r\nHost: {host}".encode("ascii")]
    known = _KNOWN.get
    nominated: set[bytes] = set()
    for name, value in fields:
        line = known(name)
        if line is not None:
            out += (line, value)
        elif name in _REQUEST_DROPS:
            if name == b"via":
                if _has_passed(value):
                    return Refusal(Reason.LOOP_DETECTED, Stage.PARSE, target)
            elif name == b"expect":
                if head.minor:  # RFC 9110 section 10.1.1: it means nothing in HTTP/1.0
                    out += (b"\r\nExpect: ", value)
            elif name == b"connection" and value.lower() not in _PLAIN_OPTIONS:
                nominated |= _members(value) - _REQUEST_DROPS
        elif not name.startswith(_REQUEST_PREFIXES):
            out += (b"\r\n", name.title(), b": ", value)
    if nominated:
        kept = _without(fields, nominated)
        return forwarded_request(head._replace(fields=kept), target, path, framing, websocket=websocket)
    if isinstance(framing, Length):
        out.append(b"\r\nContent-Length: %d" % framing.size)
    elif isinstance(framing, Chunked):
        out.append(_CHUNKED)
    if websocket:
        out.append(_WEBSOCKET)
    out.append(_VIA[head.minor])
    return b"".join(out)


def forwarded_reply(
    head: ReplyHead, framing: Framing, *, keep_alive: bool, client_minor: int, websocket: bool = False
) -> bytes:
    """Build a reply's head for the client.

    The phrase is the registered one and never the origin's, because phrases are what many programs show of a refusal.

    Args:
        framing: As `reply_framing` gave it.
        keep_alive: Whether the client's connection is to go on. Where the body ends with the connection
            (`ends_by_close`), or the client speaks HTTP/1.0, it is closed all the same.
        client_minor: Of the request's HTTP version.
        websocket: This 101 answers a request that was forwarded with `websocket`.

    Returns:
        The head with its empty line; nothing for an interim reply to an HTTP/1.0 client, which knows none.

    Source: RFC 9110 sections 7.6 and 15.2, RFC 9112 section 6.3.
    """
    status = head.status
    interim = status < 200
    if interim and not client_minor:
        return b""
    out = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status]
    # To HEAD and with 304 it tells the length that the body would have.
    keeps_length = isinstance(framing, NoBody) and not (interim or status == 204)
    known = _KNOWN.get
    nominated: set[bytes] = set()
    for name, value in head.fields:
        line = known(name)
        if line is not None:
            out += (line, value)
        elif name in _ONE_HOP:
            if name == b"connection" and value.lower() not in _PLAIN_OPTIONS:
                nominated |= _members(value) - _ONE_HOP
            elif keeps_length and name == b"content-length":
                out += (b"\r\nContent-Length: ", value)
        elif not name.startswith(_PREFIXES):
            out += (b"\r\n", name.title(), b": ", value)
    if nominated:
        bare = head._replace(fields=_without(head.fields, nominated))
        return forwarded_reply(bare, framing, keep_alive=keep_alive, client_minor=client_minor, websocket=websocket)
    if isinstance(framing, Length):
        out.append(b"\r\nContent-Length: %d" % framing.size)
    elif isinstance(framing, Chunked) and client_minor:
        out.append(_CHUNKED)
    if interim:
        if websocket and status == 101:
            out.append(_WEBSOCKET)
    elif not keep_alive or not client_minor or isinstance(framing, UntilClose):
        out.append(_CLOSE)
    out.append(_VIA[head.minor])
    return b"".join(out)


def ends_by_close(framing: Framing, *, client_minor: int) -> bool:
    """Whether the end of a reply's body is told to the client by closing, so that its connection cannot go on."""
    return isinstance(framing, UntilClose) or (isinstance(framing, Chunked) and not client_minor)


def _limited(head: RequestHead, target: Target) -> Fields | Refusal:
    """TRACE is refused, since it would show what a proxy adds; OPTIONS goes as far as Max-Forwards lets it."""
    if head.method == "TRACE":
        return Refusal(Reason.METHOD_NOT_ALLOWED, Stage.PARSE, target)
    limits = head.get_all(b"max-forwards")
    if not limits:
        return head.fields
    if len(limits) > 1 or _FORWARDS.fullmatch(limits[0]) is None:
        return Refusal(Reason.MALFORMED_HEADER, Stage.PARSE, target)
    left = int(limits[0])
    if not left:
        return Refusal(Reason.METHOD_NOT_ALLOWED, Stage.PARSE, target)
    return tuple([(name, b"%d" % (left - 1) if name == b"max-forwards" else value) for name, value in head.fields])


def _without(fields: Fields, nominated: set[bytes]) -> Fields:
    return tuple([field for field in fields if field[0] not in nominated and field[0] != b"connection"])


def _members(value: bytes) -> set[bytes]:
    """The members of a list of tokens, in lower case."""
    return {member.strip() for member in value.lower().split(b",")}


def _switches(fields: Fields) -> bool:
    """Whether fields ask for, or confirm, a switch to WebSocket."""
    options: set[bytes] = set()
    protocols: set[bytes] = set()
    for name, value in fields:
        if name == b"connection":
            options |= _members(value)
        elif name == b"upgrade":
            protocols |= _members(value)
    return b"upgrade" in options and b"websocket" in protocols


def _has_passed(via: bytes) -> bool:
    """Whether a member of Via says that a node of ours has sent this request on; what comments hold counts as well."""
    return any(member.split()[1:2] == [_PSEUDONYM] for member in via.lower().split(b","))
