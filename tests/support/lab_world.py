"""The small world that the system tests play in: names, sites, traps, and a daemon that stands between.

`namespace_world` fills the namespaces of `lab`: an internet with public-looking addresses, where every forbidden
address answers too. `loopback_world` does the same on 127.64.0.0/24, which its daemons are told to take for public.
Servers run in this process, so that a test reads at once what reached them. Called by `tests/system`.
"""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trustme

from support.dns_server import DnsServer
from support.lab import DNS_ADDRESS, Counters, Lab
from support.lab_daemon import Daemon, Settings, daemon, short_folder
from support.lab_origin import Origin, Talk, listener
from support.lab_wire import connect_request, parse_reply, read_all, read_head
from support.tls_site import Page, TlsSite

PAGE_V4 = "45.83.64.10"
PAGE_V6 = "2a0c:5ac0:1::10"
OTHER_V4 = "45.83.64.11"
TRAP_V4 = "10.0.0.7"
METADATA_V4 = "169.254.169.254"
LOOPBACK_SITE = "127.64.0.10"
LOOPBACK_REACH = "127.64.0.0/24"
PAGE = b"<!doctype html><title>The page</title><h1>The page of the lab</h1><p>Fetched by name.</p>\n"
EVERYTHING = "*:*\n0.0.0.0/0:*\n[::]/0:*\n"
# The client's reason to trust a site; every name that `name_with` makes is below `lab.example`.
CERTIFIED = ("page.example", "other.example", "echo.example", "inside.example", "*.lab.example")


@dataclass
class World:
    """One world, with two daemons: one that lists a few names, and one whose tenant lists everything.

    Attributes:
        dns: The one DNS server.
        page, other: Well-behaved sites.
        trap: A site at addresses that nobody may reach, which would answer.
        daemon: Lists `page.example`, `inside.example`, and `echo.example` on every port.
        open_daemon: Lists every name, address and port.
        ca_file: The authority that signed the sites.
    """

    dns: DnsServer
    home: Path
    authority: trustme.CA
    stack: ExitStack
    spaces: Lab | None = None
    echo_name: str = "echo.example"
    _names: Iterator[int] = field(default_factory=itertools.count)
    _origins: list[Origin] = field(default_factory=list)
    _sites: dict[str, TlsSite] = field(default_factory=dict)
    _daemons: dict[str, Daemon] = field(default_factory=dict)

    @property
    def lab(self) -> Lab:
        assert self.spaces is not None, "this world has no namespaces"
        return self.spaces

    @property
    def ca_file(self) -> Path:
        return self.home / "ca.pem"

    @property
    def page(self) -> TlsSite:
        return self._sites["page"]

    @property
    def other(self) -> TlsSite:
        return self._sites["other"]

    @property
    def trap(self) -> TlsSite:
        return self._sites["trap"]

    @property
    def daemon(self) -> Daemon:
        return self._daemon("listed", "page.example\ninside.example\necho.example:*\n")

    @property
    def open_daemon(self) -> Daemon:
        return self._daemon("open", EVERYTHING)

    def sent(self) -> Counters:
        """What the node has sent so far: by the kernel's count in a namespace, else by what reached the servers."""
        if self.spaces is not None:
            return self.spaces.node.counters()
        return Counters(sum(origin.accepted for origin in self._origins), self.dns.total)

    def is_quiet(self) -> bool:
        """Whether no connection is open at the lasting sites."""
        return not any(site._open for site in self._sites.values())

    def launch(
        self,
        folder: Path,
        lists: Mapping[str, str],
        settings: Settings | None = None,
        *,
        listeners: Iterable[Mapping[str, object]] = (),
        serves: bool = True,
    ) -> AbstractContextManager[Daemon]:
        """A daemon of this world with its own lists; see `lab_daemon.daemon`."""
        given = dict(settings or {})
        node: dict[str, object] = {"resolvers": [*self.dns.addresses]}
        if self.spaces is None:
            node["unsafe_reach"] = [LOOPBACK_REACH]
        given["node"] = {**node, **given.get("node", {})}
        space = None if self.spaces is None else self.spaces.node
        return daemon(folder, lists, given, listeners=listeners, space=space, serves=serves)

    def origin(self, talk: Talk, tls: ssl.SSLContext | str | None = None) -> Origin:
        """A site on loopback under `echo_name`, at a port of its own.

        Args:
            tls: The name that its certificate is for, or a whole context; plain when None.
        """
        made = Origin([listener(LOOPBACK_SITE)], talk, self.certified(tls) if isinstance(tls, str) else tls)
        self._origins.append(made)
        return made

    def certified(self, *names: str) -> ssl.SSLContext:
        """A server's context with a certificate for these names."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert(*names).configure_cert(context)
        return context

    def name_with(self, *addresses: str, then: tuple[str, ...] = (), ttl: int = 60) -> str:
        """A fresh name with these addresses; with `then`, its second and every later answer is another."""
        name = f"n{next(self._names)}.lab.example"
        self.dns.set_addresses(name, *addresses, then=then or None, ttl=ttl)
        return name

    def name_that_is(self, how: str, *addresses: str) -> str:
        """A fresh name that the DNS server answers in one of `dns_server.HOWS`."""
        name = f"{how}{next(self._names)}.lab.example"
        self.dns.set_how(name, how, *addresses)
        return name

    def status_of_connect(self, running: Daemon, authority: str, *fields: str) -> tuple[int, str | None]:
        """Status and reason of one CONNECT."""
        with closing(running.connect()) as client:
            client.sendall(connect_request(authority, *fields))
            reply, _ = read_head(client)
            return reply.status, reply.reason

    def tls_status(self, host: str, running: Daemon) -> int:
        """The status of `GET /` from a site on 443, inside TLS that is verified for the name."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        with closing(running.connect()) as client:
            client.sendall(connect_request(f"{host}:443"))
            reply, rest = read_head(client)
            assert (reply.status, rest) == (200, b""), reply
            with context.wrap_socket(client, server_hostname=host.rstrip(".").lower()) as inside:
                inside.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                inside.settimeout(10)
                return parse_reply(_read_some(inside)).status

    def _daemon(self, name: str, text: str) -> Daemon:
        """One of the two lasting daemons, started when first asked for."""
        if name not in self._daemons:
            folder = self.home / name
            folder.mkdir(mode=0o755)
            self._daemons[name] = self.stack.enter_context(self.launch(folder, {"default": text}))
        return self._daemons[name]


@contextmanager
def namespace_world(spaces: Lab) -> Iterator[World]:
    """The world of the namespaces: sites at public-looking addresses, and traps behind the node and on it."""
    with ExitStack() as stack:
        udp, tcp = spaces.internet.sockets(("udp", DNS_ADDRESS, 53), ("tcp", DNS_ADDRESS, 53))
        made = _world(stack, DnsServer(sockets=[(udp, tcp)]), spaces)
        made.dns.set_addresses("page.example", PAGE_V4, PAGE_V6)
        made.dns.set_addresses("other.example", OTHER_V4)
        made.dns.set_addresses("inside.example", TRAP_V4)
        inside = spaces.internet.sockets(
            ("tcp", PAGE_V4, 443), ("tcp", PAGE_V6, 443), ("tcp", OTHER_V4, 443),
            *(("tcp", host, port) for host in (TRAP_V4, METADATA_V4) for port in (80, 443)),
        )  # fmt: skip
        own = spaces.node.sockets(("tcp", "0.0.0.0", 443), ("tcp", "0.0.0.0", 80))
        for name, sockets in (("page", inside[:2]), ("other", inside[2:3]), ("trap", [*inside[3:], *own])):
            site = TlsSite(
                {"/": Page(PAGE)}, names=CERTIFIED, tls=name != "trap", sockets=sockets, authority=made.authority
            )
            made._sites[name] = stack.enter_context(site)
        yield made


@contextmanager
def loopback_world() -> Iterator[World]:
    """The world of loopback: sites come and go with the tests, at ports of their own."""
    with ExitStack() as stack:
        made = _world(stack, DnsServer([("127.0.0.1", 0)]), None)
        made.dns.set_addresses(made.echo_name, LOOPBACK_SITE)
        yield made


def _world(stack: ExitStack, dns: DnsServer, spaces: Lab | None) -> World:
    home = stack.enter_context(short_folder())
    authority = trustme.CA()
    authority.cert_pem.write_to_path(home / "ca.pem")
    stack.enter_context(dns)
    return World(dns, home, authority, stack, spaces)


def _read_some(stream: ssl.SSLSocket) -> bytes:
    try:
        return read_all(stream)
    except ssl.SSLEOFError:
        return b""
