"""Network namespaces as a small world: an internet, the node that the proxy runs on, and a sandbox without a way out.

Makes the namespaces, the links between them and nothing else; what runs in them is started by `lab_world`. Works as
root and, where the kernel lets strangers make user namespaces, without it. Never touches the machine's own interfaces,
routes or `/run/netns`: a namespace lives as long as the process that holds it, and the holder ends when its standard
input does, so that even a killed test run leaves nothing behind. Called by the demo and by the system tests.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# The internet's addresses look public, since the proxy must judge them so; they are real only inside the namespace.
INTERNET_V4 = "45.83.64.0/25"
INTERNET_V6 = "2a0c:5ac0:1::/48"
DNS_ADDRESS = "45.83.64.53"
# Routed to the internet, which has no such address and drops what comes for it without a word.
BLACK_HOLE_V4 = "45.83.64.200"
NODE_V4 = "45.83.65.2"
NODE_V6 = "2a0c:5ac0:2::2"
# Networks that no proxy may reach. Here they answer, so that a dial which should not have been made is not lost.
TRAPS_V4 = (
    "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "192.88.99.0/24", "168.63.129.16/32", "240.0.0.0/4",
)  # fmt: skip
TRAPS_V6 = (
    "fc00::/7",
    "64:ff9b::/47",
    "2002::/16",
    "2001::/32",
    "2001:db8::/32",
    "3fff::/20",
    "5f00::/16",
    "fec0::/10",
)

_HOLD = "set -e; {setup} echo ready; exec cat"
# Runs inside a space: opens the sockets named on its command line and hands them over the socket that is descriptor 0.
_OPEN = """
import socket, sys
made = []
for kind, address, port in (word.split(",") for word in sys.argv[1:]):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made.append(socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM))
    if kind == "tcp":
        made[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:  # IPV6_FREEBIND (linux/in6.h): the address is local by a route, on no interface
        made[-1].setsockopt(socket.IPPROTO_IPV6, 78, 1)
    made[-1].bind((address, int(port)))
    if kind == "tcp":
        made[-1].listen(128)
socket.send_fds(socket.socket(fileno=0), [b"x"], [one.fileno() for one in made])
"""


class LabFault(Exception):
    """A namespace, link or mount could not be made; the text is what the tool said."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What the kernel counted in one namespace since it was made: the proof that something was, or was not, sent."""

    dials: int
    datagrams: int


@dataclass(slots=True)
class Space:
    """One network and mount namespace, held by a process of its own.

    Attributes:
        pid: The holder, by which `nsenter` finds the namespaces.
        enter: The command prefix that runs a command inside, as `root` of the namespace.
    """

    name: str
    pid: int
    enter: tuple[str, ...]

    def command(self, *words: str, cwd: Path | None = None) -> list[str]:
        """The words of a command that runs inside this space; the process that is started is the command itself."""
        where = () if cwd is None else (f"--wd={cwd}",)
        return [*self.enter, *where, "--", *words]

    def run(self, *words: str, text: str | None = None, timeout: float = 10.0) -> str:
        """Run a command inside to its end.

        Args:
            text: What it reads from standard input; nothing when None.
            timeout: Seconds.

        Returns:
            Its standard output.

        Raises:
            LabFault: It ended with another code than 0.
        """
        done = subprocess.run(
            self.command(*words), input=text, stdin=None if text is not None else subprocess.DEVNULL,
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        if done.returncode:
            raise LabFault(f"{self.name}: {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def ip(self, *lines: str) -> None:
        """Run lines of `ip` in one go; each is what follows the word `ip`."""
        self.run("ip", "-batch", "-", text="\n".join(lines) + "\n")

    def sockets(self, *wanted: tuple[str, str, int]) -> list[socket.socket]:
        """Sockets of this space for a server that runs outside it, so that what it counts can be read at once.

        Args:
            wanted: Kind (`tcp`: bound and listening, or `udp`: bound), address, port.

        Raises:
            LabFault: One of them could not be opened.
        """
        ours, theirs = socket.socketpair()
        with ours, theirs:
            words = self.command(
                sys.executable, "-I", "-c", _OPEN, *(f"{kind},{host},{port}" for kind, host, port in wanted)
            )
            done = subprocess.run(words, stdin=theirs.fileno(), capture_output=True, text=True, timeout=10, check=False)
            if done.returncode:
                raise LabFault(f"{self.name}: {done.stderr.strip()}")
            _, numbers, _, _ = socket.recv_fds(ours, 1, len(wanted))
        return [socket.socket(fileno=number) for number in numbers]

    def counters(self) -> Counters:
        """The kernel's count of connections begun and datagrams sent in this namespace."""
        snmp = Path(f"/proc/{self.pid}/net/snmp").read_text()
        snmp6 = Path(f"/proc/{self.pid}/net/snmp6").read_text()
        udp6 = next(int(line.split()[1]) for line in snmp6.splitlines() if line.startswith("Udp6OutDatagrams"))
        return Counters(_snmp(snmp, "Tcp", "ActiveOpens"), _snmp(snmp, "Udp", "OutDatagrams") + udp6)

    def mount_over_run(self, folders: Mapping[str, Path]) -> None:
        """Give this space an empty `/run` with only the named folders, so that paths in it are the same on every run.

        Args:
            folders: Name below `/run` to the folder outside that appears there.
        """
        self.run("mount", "-t", "tmpfs", "tmpfs", "/run")
        for name, folder in folders.items():
            self.run("mkdir", "-p", f"/run/{name}")
            self.run("mount", "--bind", str(folder), f"/run/{name}")

    def take_resolver_away(self) -> None:
        """Leave this space's `/etc/resolv.conf` empty; where it is a link to nothing there is none to take."""
        path = Path("/etc/resolv.conf").resolve()
        if path.exists():
            self.run("mount", "--bind", "/dev/null", str(path))


@dataclass(slots=True)
class Lab:
    """Three spaces: `internet` and `node` joined by a link, `sandbox` joined to nothing."""

    internet: Space
    node: Space
    sandbox: Space


@functools.cache
def why_no_namespaces() -> str | None:
    """Why this process cannot make network namespaces, or None where it can."""
    if os.uname().sysname != "Linux":
        return "network namespaces are a Linux thing"
    try:
        with ExitStack() as stack:
            outer = _outer(stack)
            one, two = _hold("probe-1", outer, stack), _hold("probe-2", outer, stack)
            join(one, ("45.83.65.1/30",), two, ("45.83.65.2/30",))
    except (LabFault, OSError) as fault:
        return str(fault)
    return None


@contextmanager
def lab() -> Iterator[Lab]:
    """Make the three spaces, and end them with everything in them when left, after a failure too.

    Raises:
        LabFault: They cannot be made here; `why_no_namespaces` says why beforehand.
    """
    with ExitStack() as stack:
        outer = _outer(stack)
        internet, node, sandbox = (_hold(name, outer, stack) for name in ("internet", "node", "sandbox"))
        join(internet, ("45.83.65.1/30", "2a0c:5ac0:2::1/64"), node, (f"{NODE_V4}/30", f"{NODE_V6}/64"))
        internet.ip(*(f"route add local {network} dev lo" for network in (INTERNET_V4, *TRAPS_V4)))
        internet.ip(*(f"route add local {network} dev lo" for network in (INTERNET_V6, *TRAPS_V6)))
        node.ip("route add default via 45.83.65.1", "route add default via 2a0c:5ac0:2::1")
        sandbox.take_resolver_away()
        yield Lab(internet, node, sandbox)


def join(one: Space, ones: Sequence[str], two: Space, twos: Sequence[str]) -> None:
    """Lay a point-to-point link between two spaces, with these addresses (with prefix lengths) on its ends."""
    near, far = f"to-{two.name}"[:15], f"to-{one.name}"[:15]
    one.ip(f"link add {near} type veth peer name {far} netns {two.pid}")
    for space, device, addresses in ((one, near, ones), (two, far, twos)):
        nodad = [f"addr add {address} dev {device}" + (" nodad" if ":" in address else "") for address in addresses]
        space.ip(*nodad, f"link set {device} up")


def _outer(stack: ExitStack) -> Space | None:
    """The user namespace in which a stranger is root; None where this process may make namespaces as it is."""
    if os.geteuid() == 0:
        try:
            with ExitStack() as probe:
                _hold("probe", None, probe)
        except LabFault:
            pass
        else:
            return None
    return _start("user", ("unshare", "--user", "--map-root-user", "--net", "--mount"), ("-U", "-n", "-m"), stack)


def _hold(name: str, outer: Space | None, stack: ExitStack) -> Space:
    unshare = ("unshare", "--net", "--mount", "--propagation", "private")
    if outer is None:
        return _start(name, unshare, ("-n", "-m"), stack, setup="ip link set lo up;")
    return _start(name, (*outer.enter, "--", *unshare), ("-U", "-n", "-m"), stack, setup="ip link set lo up;")


def _start(name: str, make: Sequence[str], kinds: Sequence[str], stack: ExitStack, setup: str = "") -> Space:
    """Start a holder; `make` and what it starts replace one another, so the holder's number is the one started."""
    words = [*make, "sh", "-c", _HOLD.format(setup=setup)]
    try:
        holder = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    except FileNotFoundError as fault:
        raise LabFault(f"{fault.filename} is not installed (package util-linux)") from fault
    stack.enter_context(holder)
    stack.callback(holder.kill)
    assert holder.stdout is not None
    assert holder.stderr is not None
    if holder.stdout.readline() != "ready\n":
        raise LabFault(holder.stderr.read().strip() or f"{make[0]} ended at once")
    keep = ("--preserve-credentials",) if "-U" in kinds else ()
    return Space(name, holder.pid, ("nsenter", "-t", str(holder.pid), *kinds, *keep))


def _snmp(text: str, protocol: str, counter: str) -> int:
    names, values = (line.split() for line in text.splitlines() if line.startswith(protocol + ":"))
    return int(values[names.index(counter)])
