"""What the tests of the tool client share: certificates, a `Web`, grants as bytes, a started command."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import trustme

from egress_policy.rules import ListKind
from egress_policy.wire import GrantDocument, GrantList, write_grant
from oz0_web.settings import read_config
from oz0_web.tools import Web
from support.fake_proxy import FakeProxy, Script, Site, reply

COMMAND = "egressctl tenant acme allow {host}"


@cache
def authority() -> trustme.CA:
    """One certificate authority for all tests; making one takes a tenth of a second."""
    return trustme.CA()


@cache
def certificate(*names: str) -> trustme.LeafCert:
    """A certificate of that authority for exactly these names or addresses."""
    return authority().issue_cert(*names)


@cache
def trusting() -> ssl.SSLContext:
    """TLS settings that trust that authority and nobody else."""
    context = ssl.create_default_context()
    authority().configure_trust(context)
    context.set_alpn_protocols(["http/1.1"])
    return context


def site(name: str, pages: Mapping[str, Script]) -> Site:
    """A TLS site with a right certificate."""
    return Site(certificate(name), pages)


def grant(*rules: str, plugin: Sequence[str] = (), endpoints: Sequence[str] = (), version: int = 1) -> bytes:
    """A reply with the grant of tenant acme."""
    document = GrantDocument(
        job="job-1",
        tenant="acme",
        plugin="web" if plugin else None,
        version=version,
        lists=(
            GrantList(kind=ListKind.TENANT, source="tenant", rules=tuple(rules)),
            GrantList(kind=ListKind.PLUGIN, source="plugin", rules=tuple(plugin)),
        ),
        endpoints=tuple(endpoints),
        limits={},
        command=COMMAND,
    )
    return reply(write_grant(document), kind="application/json")


def web_for(
    proxy: FakeProxy,
    *,
    listed_literals: bool = True,
    robots_token: str | None = None,
    trusted: ssl.SSLContext | None = None,
) -> Web:
    """The engine behind this proxy, trusting the tests' authority."""
    config = read_config({"OZ0_WEB_PROXY": proxy.url})
    return Web(config, listed_literals=listed_literals, robots_token=robots_token, trusted=trusted or trusting())


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


def run_command(*arguments: str, environ: Mapping[str, str] | None = None) -> Done:
    """Run `oz0-web` as a process of its own, with only these variables set."""
    variables = {"PATH": os.environ["PATH"], "PYTHONWARNINGS": "error", **(environ or {})}
    done = subprocess.run(
        [sys.executable, "-m", "oz0_web", *arguments],
        env=variables,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)
