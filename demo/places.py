"""Where the demo plays: three namespaces, or as much of them as this machine can make.

Makes the internet of the demo (one DNS server, three sites, and what nobody may reach), the node with egressd, and the
sandbox. Where there can be no namespaces it plays on loopback, and says so loudly. Called by the demo's `__main__`.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trustme

from support.dns_server import DnsServer
from support.lab import DNS_ADDRESS, Counters, Lab, lab, why_no_namespaces
from support.lab_daemon import BIN, Daemon, bare_environment, daemon, short_folder
from support.tls_site import Page, TlsSite, bind

ALLOWED, UNLISTED, INSIDE, SWINGING = "docs.example", "news.example", "intranet.example", "swings.example"
LIST = f"{ALLOWED}\n{INSIDE}\n{SWINGING}\n"
PRIVATE, METADATA = "10.0.0.7", "169.254.169.254"
NODE_FOLDER, SANDBOX_FOLDER = Path("/run/egressd"), Path("/run/egress")
SITES = {
    ALLOWED: """
        <title>Getting started</title>
        <h1>Getting started</h1>
        <p>This page came <em>by name</em>, through the <a href="/proxy">proxy</a>:</p>
        <ul><li>the sandbox has no resolver,</li><li>the proxy looked the name up and judged the address.</li></ul>
        """,
    UNLISTED: "<title>News</title><h1>News</h1><p>Nothing happened today.</p>",
    SWINGING: "<title>Swings</title><h1>Swings</h1><p>Served from the address that was judged.</p>",
}
TRAP_PAGE = "<title>Secret</title><h1>Secret</h1><p>Nobody may see this.</p>"


@dataclass
class Place:
    """A world to play in.

    Attributes:
        public: The address of each site.
        port: Where the sites speak TLS; 443 wherever that can be had.
        in_sandbox, on_node: What turns a command's words into words that run there.
        channel: The proxy's Unix socket as the sandbox sees it.
        counters: What the node has sent so far.
        sandboxed: Whether the sandbox has no other way out.
        no_way: What the kernel says of a direct connection in the sandbox.
    """

    dns: DnsServer
    running: Daemon
    public: dict[str, str]
    port: int
    in_sandbox: Callable[[Sequence[str]], list[str]]
    on_node: Callable[[Sequence[str]], list[str]]
    channel: Path
    admin: Path
    counters: Callable[[], Counters]
    ca_file: Path
    sandboxed: bool
    traps: TlsSite
    no_way: str = "Network is unreachable"
    description: Sequence[str] = field(default_factory=tuple)

    def url(self, name: str, path: str = "/") -> str:
        """The page of a site, with the port only where it is not 443."""
        return f"https://{name}{'' if self.port == 443 else f':{self.port}'}{path}"

    def environment(self) -> dict[str, str]:
        """What a program in the sandbox is given: where the proxy is, and whom to trust."""
        return bare_environment(OZ0_WEB_PROXY=f"unix:{self.channel}", SSL_CERT_FILE=str(self.ca_file))


@contextmanager
def place(*, loopback: bool = False) -> Iterator[tuple[Place, str | None]]:
    """The best place that can be had here.

    Args:
        loopback: Do not try namespaces.

    Yields:
        The place, and why it is not the real one (None when it is).
    """
    reason = "--loopback was given" if loopback else why_no_namespaces()
    with ExitStack() as stack:
        home = stack.enter_context(short_folder())
        authority = trustme.CA()
        authority.cert_pem.write_to_path(home / "ca.pem")
        if reason is None:
            yield _namespaces(stack, home, authority, stack.enter_context(lab())), None
        else:
            yield _loopback(stack, home, authority), reason


def _namespaces(stack: ExitStack, home: Path, authority: trustme.CA, spaces: Lab) -> Place:
    node = home / "node"
    (node / "job").mkdir(parents=True)
    spaces.node.mount_over_run({"egressd": node})
    spaces.sandbox.mount_over_run({"egress": node / "job"})
    public = {name: f"45.83.64.{host}" for host, name in enumerate(SITES, start=10)}
    udp, tcp = spaces.internet.sockets(("udp", DNS_ADDRESS, 53), ("tcp", DNS_ADDRESS, 53))
    dns = stack.enter_context(DnsServer(sockets=[(udp, tcp)]))
    sites = spaces.internet.sockets(*(("tcp", address, 443) for address in public.values()))
    traps = spaces.internet.sockets(*(("tcp", host, port) for host in (PRIVATE, METADATA) for port in (80, 443)))
    _serve(stack, authority, public, sites)
    settings = {"node": {"resolvers": [DNS_ADDRESS]}}
    running = stack.enter_context(
        daemon(node, {"default": LIST}, settings, space=spaces.node, seen_as=NODE_FOLDER),
    )
    made = Place(
        dns=dns, running=running, public=public, port=443,
        in_sandbox=lambda words: spaces.sandbox.command(*words), on_node=lambda words: spaces.node.command(*words),
        channel=SANDBOX_FOLDER / "proxy.sock", admin=NODE_FOLDER / "admin.sock", counters=spaces.node.counters,
        ca_file=home / "ca.pem", sandboxed=True, traps=stack.enter_context(_trap(traps)),
        description=(
            f"internet   a DNS server ({DNS_ADDRESS}) and TLS sites ({', '.join(public.values())});",
            f"           {PRIVATE} and {METADATA} are there too, and would answer",
            f"node       egressd, tenant default, one Unix socket for the job: {NODE_FOLDER}/job/proxy.sock",
            f"sandbox    no route, no resolver; that socket is {SANDBOX_FOLDER}/proxy.sock",
        ),
    )  # fmt: skip
    _names(made)
    return made


def _loopback(stack: ExitStack, home: Path, authority: trustme.CA) -> Place:
    node = home / "node"
    node.mkdir()
    public = {name: f"127.64.0.{host}" for host, name in enumerate(SITES, start=10)}
    dns = stack.enter_context(DnsServer([("127.0.0.1", 0)]))
    first, *others = public.values()
    sites = [bind(first, 0)]
    port = int(sites[0].getsockname()[1])
    sites += [bind(address, port) for address in others]
    served = _serve(stack, authority, public, sites)
    traps = stack.enter_context(_trap([bind("127.0.0.1", 0)]))
    rules = "".join(f"{rule}:{port}\n" for rule in LIST.split())
    settings = {"node": {"resolvers": [*dns.addresses], "unsafe_reach": ["127.64.0.0/24"]}}
    running = stack.enter_context(daemon(node, {"default": rules}, settings))
    bubble = _bubblewrap(running.channel.parent)
    made = Place(
        dns=dns, running=running, public=public, port=port,
        in_sandbox=lambda words: [*bubble, *words], on_node=list,
        channel=SANDBOX_FOLDER / "proxy.sock" if bubble else running.channel, admin=running.admin,
        counters=lambda: Counters(sum(site.accepted for site in served) + traps.accepted, dns.total),
        ca_file=home / "ca.pem", sandboxed=bool(bubble), traps=traps, no_way="Connection refused",
        description=(
            "internet   loopback: a DNS server, and TLS sites on 127.64.0.0/24, which egressd takes for public",
            'node       egressd on this machine itself, with unsafe_reach = ["127.64.0.0/24"]',
            "sandbox    " + ("bubblewrap: no network at all" if bubble else "NONE: what runs in it could go around"),
        ),
    )  # fmt: skip
    _names(made)
    return made


def _names(made: Place) -> None:
    for name, address in made.public.items():
        made.dns.set_addresses(name, address)
    made.dns.set_addresses(INSIDE, PRIVATE)
    made.dns.set_addresses(SWINGING, made.public[SWINGING], then=(PRIVATE,), ttl=4)


def _serve(
    stack: ExitStack, authority: trustme.CA, public: dict[str, str], sockets: Sequence[socket.socket]
) -> list[TlsSite]:
    made = []
    for name, listener in zip(public, sockets, strict=True):
        page = Page(f"<!doctype html><html>{SITES[name]}</html>".encode())
        made.append(stack.enter_context(TlsSite({"/": page}, names=[name], sockets=[listener], authority=authority)))
    return made


def _trap(sockets: Sequence[socket.socket]) -> TlsSite:
    """What nobody may reach; it would answer in the clear."""
    return TlsSite({"/": Page(TRAP_PAGE.encode())}, tls=False, sockets=sockets)


def _bubblewrap(folder: Path) -> list[str]:
    """The words that run a command in bubblewrap with the job's folder, or none where that does not work."""
    program = shutil.which("bwrap")
    if program is None:
        return []
    words = [
        program,
        "--unshare-net",
        "--dev-bind",
        "/",
        "/",
        "--tmpfs",
        "/run",
        "--bind",
        str(folder),
        str(SANDBOX_FOLDER),
    ]
    tried = subprocess.run([*words, "--", str(BIN / "python"), "-c", ""], capture_output=True, check=False)
    return [*words, "--"] if tried.returncode == 0 else []
