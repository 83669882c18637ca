"""A stop to words: what happened, who decided it, what allows it, and whether another try or route has any point.

Pure. The words are for a model and for a person at a terminal alike. A refusal by the policy or the proxy is always
told as that, and never looks like an error of the site; the advice on it is the shared vocabulary's own
(`egress_policy.reasons`), filled in with the command that the grant names. Called by the façades and `cli`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egress_policy.addresses import AddressClass, classify
from egress_policy.names import HostName
from egress_policy.reasons import RETRYABLE, Reason, Refusal, Stage, sentence
from egress_policy.wire import GrantDocument
from oz0_web.stops import POLICY_CODES, By, Code, Stop

# Where the grant cannot be read, the tenant is not known and the command is the usual one.
_USUAL_COMMAND = "egressctl tenant {tenant} allow {host}"
_UNKNOWN_TENANT = "TENANT"
_RETRYABLE_CODES = frozenset({Code.RESOLVE_FAILED, Code.CONNECTION_FAILED, Code.TIMED_OUT, Code.ROBOTS_UNREACHABLE})
_REFUSALS = frozenset({Code.NOT_ALLOWED, Code.NOT_PUBLIC, Code.PROXY_REFUSED})
_NO_OTHER_ROUTE = "This is the egress policy, not a fault of the network: do not look for another route."
_CREDENTIALS_BELONG = "Put the job's credential into the proxy variable (http://JOB:TOKEN@ADDRESS:PORT)."
_CHECK_PROXY = "Nothing is sent past it: check that it runs, and that the proxy variable names it."
_NO_COMMAND_LIFTS = "This is the site's wish and not the egress policy: no command lifts it, and no other route should."
_WHO = {
    By.CLIENT: "oz0-web",
    By.LIST: "the egress policy as this job's grant shows it",
    By.PROXY: "the egress proxy",
    By.SITE: "the site",
}


@dataclass(frozen=True, slots=True)
class Told:
    """A stop in words and for programs.

    Attributes:
        text: One or more sentences.
        is_policy: Whether a policy decided it.
        is_retryable: Whether the same request may work later without anybody changing anything.
    """

    text: str
    is_policy: bool
    is_retryable: bool


def tell(stop: Stop, grant: GrantDocument | None) -> Told:
    """Tell a stop.

    Args:
        stop: What ended the visit.
        grant: The job's grant where it is known; it names the tenant and the command.
    """
    happened = _refused(stop, grant) if stop.code in _REFUSALS else _happened(stop)
    if stop.robots_of is not None:
        happened = f"{happened} It was met on the way to robots.txt, which is read before {stop.robots_of}."
    return Told(
        text=f"{happened} {_way(stop.chain, stop.url)}".rstrip(),
        is_policy=stop.code in POLICY_CODES,
        is_retryable=_is_retryable(stop),
    )


def _refused(stop: Stop, grant: GrantDocument | None) -> str:
    """Tell a refusal of the policy or the proxy: who, the reason's token, and the shared sentence with the command."""
    who = _WHO[stop.by]
    host = stop.target.authority if stop.target is not None else stop.url
    if stop.reason == Reason.CREDENTIALS_REQUIRED.value:
        return f"Refused by {who} ({stop.reason}): {host}: it wants to know which job asks. {_CREDENTIALS_BELONG}"
    reason = _known(stop.reason)
    if reason is None:
        said = "; ".join(part for part in (stop.reason, stop.detail) if part)
        return f"Refused by {who} ({said or 'without a reason'}): {host}. {_NO_OTHER_ROUTE}"
    decided = f"{stop.reason}, rule {stop.rule}" if stop.rule else stop.reason
    refusal = Refusal(reason, _stage(stop), target=stop.target)
    command = grant.command if grant is not None and grant.command else _USUAL_COMMAND
    tenant = grant.tenant if grant is not None else _UNKNOWN_TENANT
    return f"Refused by {who} ({decided}): {sentence(refusal, tenant=tenant, command_template=command)}"


def _happened(stop: Stop) -> str:
    host = stop.target.authority if stop.target is not None else stop.url
    detail = f": {stop.detail}" if stop.detail else ""
    match stop.code:
        case Code.BAD_URL:
            return f"Not fetched: {stop.url} is not a URL that can be fetched{detail}."
        case Code.SCHEME_REFUSED:
            return f"Not fetched: {stop.url} is neither http nor https, and nothing else is fetched."
        case Code.DOWNGRADE_REFUSED:
            return f"Not followed: the site redirects from https to {stop.url}, and http can be read on the way."
        case Code.TYPE_REFUSED:
            return (
                f"Not read: {stop.url} is {stop.detail}; only HTML, plain text, Markdown, CSV, JSON and XML are read."
            )
        case Code.ROBOTS_REFUSED:
            return f"Not fetched: the site's robots.txt asks for that. {stop.detail}. {_NO_COMMAND_LIFTS}"
        case Code.ROBOTS_UNREACHABLE:
            return f"Not fetched: what {host} allows cannot be told, because its robots.txt cannot be read{detail}."
        case Code.REDIRECT_LIMIT:
            return f"Not followed: too many redirects ({stop.detail})."
        case Code.REDIRECT_LOOP:
            return "Not followed: the redirects go round in a loop."
        case Code.RESOLVE_FAILED:
            return f"The egress proxy found no address for {host}{_reason(stop)}."
        case Code.CONNECTION_FAILED if stop.by is By.PROXY:
            return f"The egress proxy could not connect to {host}{_reason(stop)}."
        case Code.CONNECTION_FAILED:
            return f"The connection to {host} failed{detail}."
        case Code.TLS_FAILED:
            return f"No trusted TLS connection to {host}{detail}."
        case Code.TIMED_OUT if stop.by is By.PROXY:
            return f"The egress proxy had no reply from {host} in time{_reason(stop)}."
        case Code.TIMED_OUT:
            return f"Gave up on {host}{detail}."
        case Code.SITE_BROKE_HTTP if stop.by is By.PROXY:
            return f"The egress proxy had no usable reply from {host}{_reason(stop)}."
        case Code.SITE_BROKE_HTTP:
            return f"The site {host} broke HTTP{detail}."
        case Code.PROXY_FAILED:
            return f"The egress proxy did not work{detail}. {_CHECK_PROXY}"
        case Code.TRUST_STORE:
            return f"No certificate could be trusted{detail}."
        case Code.NOT_ALLOWED | Code.NOT_PUBLIC | Code.PROXY_REFUSED:
            raise AssertionError(stop.code)  # `_refused` tells these


def _reason(stop: Stop) -> str:
    """Give the proxy's reason for a failure, in brackets; its own words only where the reason is not known."""
    said = stop.reason if _known(stop.reason) is not None else stop.reason or stop.detail
    return f" ({said})" if said else ""


def _stage(stop: Stop) -> Stage:
    """Give the stage that the advice depends on; it does not travel in the header."""
    if stop.code is Code.PROXY_REFUSED:
        return Stage.CHANNEL
    host = stop.target.host if stop.target is not None else None
    is_private = host is not None and not isinstance(host, HostName) and classify(host) is AddressClass.PRIVATE
    return Stage.FLOOR if stop.code is Code.NOT_PUBLIC and not is_private else Stage.ALLOW


def _known(token: str | None) -> Reason | None:
    if token is None:
        return None
    try:
        return Reason(token)
    except ValueError:
        return None


def _is_retryable(stop: Stop) -> bool:
    if (reason := _known(stop.reason)) is not None:
        return reason in RETRYABLE
    return stop.code in _RETRYABLE_CODES


def _way(chain: Sequence[str], url: str) -> str:
    return f"Redirected: {' → '.join([*chain, url])}." if chain else ""


def tell_grant(grant: GrantDocument) -> str:
    """Tell a job what it may reach, for `oz0-web grant`."""
    who = [
        f"tenant {grant.tenant}",
        *([f"plugin {grant.plugin}"] if grant.plugin else []),
        *([f"job {grant.job}"] if grant.job else []),
    ]
    lines = [f"Grant of {', '.join(who)} (policy version {grant.version})"]
    for entry in grant.lists:
        lines.append(f"{entry.kind}:")
        lines += [f"  {rule}" for rule in entry.rules] or ["  nothing"]
    if grant.endpoints:
        lines.append("endpoints (for search backends; fetch does not use them):")
        lines += [f"  {endpoint}" for endpoint in grant.endpoints]
    lines.append(f"To allow a host: {grant.command}")
    return "\n".join(lines)
