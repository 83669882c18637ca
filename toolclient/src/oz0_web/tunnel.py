"""CONNECT and TLS: from a link to a stream that speaks with the named site, or to the proxy's own answer.

The two fields that the proxy is to see go here and nowhere inside the tunnel: `Oz0-Egress-Public-Only`, always on, and
the credential. TLS verifies the name that CONNECT carried against the system's trust store (or the file SSL_CERT_FILE
names); there is no way to switch that off. Called by `exchange`.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass

import trio

from egress_policy.targets import Target
from egress_policy.wire import PUBLIC_ONLY
from oz0_web.config import Config
from oz0_web.conversation import Conversation
from oz0_web.faults import PeerBroke, PeerCut, ProxyBroke, TlsFault, TrustFault
from oz0_web.identity import USER_AGENT
from oz0_web.link import Link
from oz0_web.replies import ReplyHead


@dataclass(frozen=True, slots=True)
class ProxyAnswer:
    """The proxy's own final reply that is not a success: the only place a refusal is believed from.

    Attributes:
        head: The reply's head.
    """

    head: ReplyHead


def proxy_fields(config: Config) -> list[tuple[str, str]]:
    """Give the fields that are for the proxy alone, for CONNECT and for a plain request alike."""
    fields = [(PUBLIC_ONLY, "1")]
    if config.authorization is not None:
        fields.append(("Proxy-Authorization", config.authorization))
    return fields


async def open_tunnel(link: Link, target: Target, config: Config) -> trio.SocketStream | ProxyAnswer:
    """Ask the proxy for a tunnel to a target, by name.

    A 2xx reply's Content-Length or Transfer-Encoding is ignored, as RFC 9110 section 9.3.6 asks; but bytes that follow
    the head at once are an error, because in TLS the client speaks first: they would be the proxy's (or a forger's)
    words.

    Args:
        target: Host and port; the host is sent as it is and never looked up here.

    Returns:
        The stream inside the tunnel, or what the proxy answered instead.

    Raises:
        ProxyUnreachable: The proxy takes no connection.
        ProxyBroke: What answered is not a proxy that understands CONNECT.
    """
    stream = await link.open()
    tunnelled = False
    try:
        conversation = Conversation(stream)
        fields = [("Host", target.authority), ("User-Agent", USER_AGENT), *proxy_fields(config)]
        try:
            head = await conversation.ask("CONNECT", target.authority, fields)
        except PeerBroke as error:
            raise ProxyBroke(f"what it answered to CONNECT is not HTTP/1.1: {error.detail}") from error
        except PeerCut as error:
            raise ProxyBroke(f"it closed the connection without an answer to CONNECT: {error.detail}") from error
        if not head.is_success:
            return ProxyAnswer(head)
        if conversation.early_bytes:
            raise ProxyBroke("it sent bytes into the tunnel before the site could have: the 200 came with a body")
        tunnelled = True
        return stream
    finally:
        if not tunnelled:
            await trio.aclose_forcefully(stream)


def trust(config: Config) -> ssl.SSLContext:
    """Give the TLS settings: the system's trust store, names verified, TLS 1.2 or newer, HTTP/1.1 by ALPN.

    OpenSSL reads SSL_CERT_FILE and SSL_CERT_DIR by itself, and says nothing when the file is not there (every
    certificate would then look untrusted), so the file is tried here.

    Raises:
        TrustFault: SSL_CERT_FILE names no file of certificates.
    """
    context = ssl.create_default_context()
    if config.ca_file is not None:
        try:
            context.load_verify_locations(cafile=config.ca_file)
        except ssl.SSLError as error:
            raise TrustFault(config.ca_file, "it holds no certificate in PEM form") from error
        except OSError as error:
            raise TrustFault(config.ca_file, os.strerror(error.errno or 0).lower()) from error
    context.set_alpn_protocols(["http/1.1"])
    return context


async def secure(stream: trio.SocketStream, host: str, context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
    """Shake hands with the site inside a tunnel and verify its certificate for the name.

    Args:
        stream: The tunnel. It is closed when the handshake fails.
        host: The name or address literal that CONNECT carried.

    Raises:
        TlsFault: The certificate is not trusted, not for this name or out of date; or the handshake failed or was cut.
    """
    # Not https_compatible: that would take a cut for a clean end, and a page without a length could be cut unseen.
    inside: trio.SSLStream[trio.SocketStream] = trio.SSLStream(stream, context, server_hostname=host)
    done = False
    try:
        await inside.do_handshake()
        done = True
    except trio.BrokenResourceError as error:
        raise _tls_fault(host, error.__cause__) from error
    finally:
        if not done:
            await trio.aclose_forcefully(stream)
    return inside


def _tls_fault(host: str, cause: BaseException | None) -> TlsFault:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return TlsFault(host, cause.verify_message or "the certificate does not verify", is_certificate=True)
    if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError) or not isinstance(cause, ssl.SSLError):
        return TlsFault(host, "the connection ended during the TLS handshake", is_certificate=False)
    reason = (cause.reason or "it failed").lower().replace("_", " ")
    return TlsFault(host, f"TLS handshake: {reason}", is_certificate=False)
