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
_RETRYABLE_CODES = frozenset({Code.RESOLVE_FAILED, Code.CONNECTION_FAILED, Code.TIMED_OUT})
# Where a rule would help; the floor and broken requests are lifted by nothing.
_NO_OTHER_ROUTE = (
    "This is the egress policy, not a fault of the network: another tool, address or proxy will not get there."
)


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
    text = " ".join(part for part in (_happened(stop), _advice(stop, grant), _way(stop.chain, stop.url)) if part)
    return Told(text, stop.code in POLICY_CODES, _is_retryable(stop))


def _happened(stop: Stop) -> str:
    host = stop.target.authority if stop.target is not None else stop.url
    rule = f" (rule: {stop.rule})" if stop.rule else ""
    detail = f": {stop.detail}" if stop.detail else ""
    match stop.code:
        case Code.BAD_URL:
            return f"Not fetched: {stop.url} is not a URL that can be fetched{detail}."
        case Code.SCHEME_REFUSED:
            return f"Not fetched: {stop.url} is neither http nor https, and nothing else is fetched."
        case Code.NOT_ALLOWED | Code.NOT_PUBLIC | Code.PROXY_REFUSED:
            return f"{_WHO[stop.by]} refused {host}{_reason(stop)}{rule}."
        case Code.DOWNGRADE_REFUSED:
            return f"Not followed: the site redirects from https to {stop.url}, and http can be read on the way."
        case Code.TYPE_REFUSED:
            return (
                f"Not read: {stop.url} is {stop.detail}; only HTML, plain text, Markdown, CSV, JSON and XML are read."
            )
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
            return f"The egress proxy did not work{detail}."
        case Code.TRUST_STORE:
            return f"No certificate could be trusted{detail}."


_WHO = {
    By.CLIENT: "oz0-web",
    By.LIST: "The egress policy (this job's grant)",
    By.PROXY: "The egress proxy",
    By.SITE: "The site",
}


def _reason(stop: Stop) -> str:
    parts = [stop.reason or "", stop.detail if stop.by is By.PROXY else ""]
    said = "; ".join(part for part in parts if part)
    return f" ({said})" if said else ""


def _advice(stop: Stop, grant: GrantDocument | None) -> str:
    if stop.code is Code.PROXY_FAILED:
        return "Nothing is sent past the proxy; check that it runs and that the proxy variable names it."
    if stop.code not in POLICY_CODES or stop.reason is None or stop.target is None:
        return ""
    if stop.reason == Reason.CREDENTIALS_REQUIRED.value:
        return "The proxy wants to know which job this is: put the job's credential into the proxy variable (http://JOB:TOKEN@…)."
    if (reason := _known(stop.reason)) is None:
        return _NO_OTHER_ROUTE
    refusal = Refusal(reason, _stage(stop), target=stop.target, rule=stop.rule)
    command = grant.command if grant is not None else _USUAL_COMMAND
    tenant = grant.tenant if grant is not None else _UNKNOWN_TENANT
    return sentence(refusal, tenant=tenant, command_template=command)


def _stage(stop: Stop) -> Stage:
    """Give the stage that the advice depends on; it does not travel in the header."""
    if stop.code is Code.PROXY_REFUSED:
        return Stage.CHANNEL
    host = stop.target.host if stop.target is not None else None
    is_private = host is not None and not isinstance(host, HostName) and classify(host) is AddressClass.PRIVATE
    return Stage.FLOOR if stop.code is Code.NOT_PUBLIC and not is_private else Stage.ALLOW


def _known(token: str) -> Reason | None:
    try:
        return Reason(token)
    except ValueError:
        return None


def _is_retryable(stop: Stop) -> bool:
    if stop.reason is not None and (reason := _known(stop.reason)) is not None:
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
