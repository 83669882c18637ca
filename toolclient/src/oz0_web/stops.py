"""Why a visit ended without a page, as one value: a refusal by somebody, or a failure of something.

Pure. Made by `hops`, `redirects`, `page`, `visit` and `robots_gate`; told in words by `report`. The code is stable and
for programs; the reason is a token of the vocabulary that proxy and client share, kept verbatim where the client does
not know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from egress_policy.reasons import Reason
from egress_policy.targets import Target, Url
from egress_policy.wire import Received


class Code(StrEnum):
    """What kind of end it was. The text after each is what `oz0-web fetch --help` and the documentation say of it."""

    BAD_URL = "bad-url"
    SCHEME_REFUSED = "scheme-refused"
    NOT_ALLOWED = "not-allowed"
    NOT_PUBLIC = "not-public"
    PROXY_REFUSED = "proxy-refused"
    DOWNGRADE_REFUSED = "downgrade-refused"
    TYPE_REFUSED = "type-refused"
    ROBOTS_REFUSED = "robots-refused"
    ROBOTS_UNREACHABLE = "robots-unreachable"
    REDIRECT_LIMIT = "redirect-limit"
    REDIRECT_LOOP = "redirect-loop"
    RESOLVE_FAILED = "resolve-failed"
    CONNECTION_FAILED = "connection-failed"
    TLS_FAILED = "tls-failed"
    TIMED_OUT = "timed-out"
    SITE_BROKE_HTTP = "site-broke-http"
    PROXY_FAILED = "proxy-failed"
    TRUST_STORE = "trust-store"


class By(StrEnum):
    """Who ended it: this program on its own rules, the egress policy as the grant shows it, the proxy, or the site."""

    CLIENT = "client"
    LIST = "list"
    PROXY = "proxy"
    SITE = "site"


# Ends that a policy decided; all others are failures.
POLICY_CODES = frozenset(
    {
        Code.SCHEME_REFUSED,
        Code.NOT_ALLOWED,
        Code.NOT_PUBLIC,
        Code.PROXY_REFUSED,
        Code.DOWNGRADE_REFUSED,
        Code.ROBOTS_REFUSED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The end of a visit that gave no page.

    Attributes:
        code: The kind.
        by: Who.
        url: The URL of the hop it happened at, user info never in it.
        target: Host and port of that hop, where the URL has one.
        reason: The shared vocabulary's token, for refusals of the policy and the proxy.
        detail: What is known beside that, as a clause without a full stop; parts of it may be a peer's words, bounded.
        status: The proxy's status, where it answered.
        rule: The rule that decided, where a rule did and it is known: of the grant, or of the site's robots.txt.
        chain: The URLs before this hop, first to last.
        robots_of: The page whose robots.txt was being read when it happened, or None.
    """

    code: Code
    by: By
    url: str
    target: Target | None = None
    reason: str | None = None
    detail: str = ""
    status: int | None = None
    rule: str | None = None
    chain: tuple[str, ...] = ()
    robots_of: str | None = None


# What the proxy's reasons mean to a caller. Those that are missing are refusals of the proxy as such.
_CODES = {
    Reason.NOT_ON_ALLOWLIST: Code.NOT_ALLOWED,
    Reason.PORT_NOT_ALLOWED: Code.NOT_ALLOWED,
    Reason.DENIED_BY_RULE: Code.NOT_ALLOWED,
    Reason.METHOD_NOT_ALLOWED: Code.NOT_ALLOWED,
    Reason.IP_NOT_ON_ALLOWLIST: Code.NOT_ALLOWED,
    Reason.FORBIDDEN_NAME: Code.NOT_PUBLIC,
    Reason.FORBIDDEN_ADDRESS: Code.NOT_PUBLIC,
    Reason.RESOLVED_ADDRESS_DENIED: Code.NOT_PUBLIC,
    Reason.SCOPED_IP: Code.NOT_PUBLIC,
    Reason.RESOLVE_FAILED: Code.RESOLVE_FAILED,
    Reason.DIAL_FAILED: Code.CONNECTION_FAILED,
    Reason.UPSTREAM_FAILED: Code.SITE_BROKE_HTTP,
    Reason.UPSTREAM_TIMEOUT: Code.TIMED_OUT,
}
_FORBIDDEN = 403
_CREDENTIALS = 407
_PHRASE_MAX_CHARACTERS = 80


def proxy_stop(url: Url, status: int, phrase: str, received: Received | None) -> Stop:
    """Make a stop of the proxy's own answer.

    Args:
        url: The hop.
        status: The proxy's status, not 2xx.
        phrase: Its reason phrase.
        received: What its Proxy-Status says, or None where it has none: then it is a proxy of another make, or no
            proxy.
    """
    words = "".join(each for each in phrase[:_PHRASE_MAX_CHARACTERS] if each.isprintable())
    answer = f"it answered {status} {words}".rstrip()
    if received is None:
        is_refusal = status in {_FORBIDDEN, _CREDENTIALS}
        return Stop(
            code=Code.PROXY_REFUSED if is_refusal else Code.PROXY_FAILED,
            by=By.PROXY,
            url=url.text,
            target=url.target,
            reason=Reason.CREDENTIALS_REQUIRED.value if status == _CREDENTIALS else None,
            detail=answer if is_refusal else f"{answer} and gave no reason, as a server that is no proxy would",
            status=status,
        )
    reason = received.reason
    return Stop(
        code=_CODES.get(reason, Code.PROXY_REFUSED) if isinstance(reason, Reason) else Code.PROXY_REFUSED,
        by=By.PROXY,
        url=url.text,
        target=url.target,
        reason=str(reason),
        detail=received.details or answer,
        status=status,
    )
