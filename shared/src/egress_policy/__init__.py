"""The contract between the proxy and its clients: names, addresses, targets, rules, reasons and the header. No I/O."""

from egress_policy.addresses import AddressClass, Reach, classify, parse_address
from egress_policy.names import HostName, parse_name, to_name
from egress_policy.reasons import Reason, Refusal, Stage
from egress_policy.rules import ListKind, Match, MatchOutcome, Rule, RuleList, RuleSet, parse_list, parse_rule
from egress_policy.targets import Target, Url, parse_absolute, parse_authority, parse_url
from egress_policy.wire import GrantDocument, read_grant, read_proxy_status, write_grant, write_proxy_status

__all__ = [
    "AddressClass",
    "GrantDocument",
    "HostName",
    "ListKind",
    "Match",
    "MatchOutcome",
    "Reach",
    "Reason",
    "Refusal",
    "Rule",
    "RuleList",
    "RuleSet",
    "Stage",
    "Target",
    "Url",
    "classify",
    "parse_absolute",
    "parse_address",
    "parse_authority",
    "parse_list",
    "parse_name",
    "parse_rule",
    "parse_url",
    "read_grant",
    "read_proxy_status",
    "to_name",
    "write_grant",
    "write_proxy_status",
]
