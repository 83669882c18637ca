"""The steps of the demo, in order: what is asked, what must come back, and what must not have been sent.

Each step says its expectations of the answers to the stage. Makes nothing of the world itself. Called by `__main__`.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from demo.places import ALLOWED, INSIDE, METADATA, PRIVATE, SWINGING, UNLISTED, Place
from demo.stage import TIMEOUT_SECONDS, Stage
from support.lab_daemon import BIN, bare_environment
from support.lab_wire import connect_request, get_request, parse_reply

RELOAD_SECONDS = 5.0
# Runs in the sandbox: what it reads goes to the socket named on its command line, what comes back is written.
_BY_HAND = """
import socket, sys
stream = socket.socket(socket.AF_UNIX)
stream.connect(sys.argv[1])
stream.sendall(sys.stdin.buffer.read())
while part := stream.recv(65536):
    sys.stdout.buffer.write(part)
"""


def fetch(stage: Stage, place: Place, url: str, *, code: int | None) -> str:
    """`oz0-web fetch URL` in the sandbox."""
    words = place.in_sandbox([str(BIN / "oz0-web"), "fetch", url])
    return stage.run("sandbox", f"oz0-web fetch {url}", words, place.environment(), code)


def raw(stage: Stage, place: Place, request: bytes) -> str:
    """The same question by hand: a request's bytes on the sandbox's socket, and the head of what comes back."""
    line, _, _ = request.decode().partition("\r\n")
    print(f"    sandbox> {line}", flush=True)
    words = place.in_sandbox([str(BIN / "python"), "-I", "-c", _BY_HAND, str(place.channel)])
    done = subprocess.run(words, input=request, stdout=subprocess.PIPE, timeout=TIMEOUT_SECONDS, check=True)
    reply = parse_reply(done.stdout)
    lines = [reply.line, *(f"Proxy-Status: {value}" for value in reply.get("proxy-status"))]
    stage.show(lines, "< ")
    return "\n".join(lines)


@contextmanager
def nothing_sent(stage: Stage, place: Place, *, looked_up: bool = False) -> Iterator[None]:
    """Check, by the kernel's count on the node, that no connection was begun (and no question sent) meanwhile."""
    before = place.counters()
    yield
    after = place.counters()
    stage.expect(after.dials == before.dials, "the node began a connection")
    if looked_up:
        print("    the node meanwhile: no connection begun")
        return
    stage.expect(after.datagrams == before.datagrams, "the node looked a name up")
    print("    the node meanwhile: no connection begun, no name looked up")


def allowed_page(stage: Stage, place: Place) -> None:
    """A page that the list allows comes as Markdown."""
    stage.step("A page that the list allows, asked for by name")
    said = fetch(stage, place, place.url(ALLOWED), code=0)
    stage.expect_all(said, "# Getting started", "the sandbox has no resolver")
    record = place.running.wait_for_record(host=ALLOWED, decision="allowed")
    stage.expect(record["address"] == place.public[ALLOWED], f"the record names {record['address']}")


def unlisted_name(stage: Stage, place: Place) -> None:
    """A name that is not on the list is refused to the client and to a bare CONNECT, and not even looked up."""
    stage.step("A name that is not on the list")
    with nothing_sent(stage, place):
        said = fetch(stage, place, place.url(UNLISTED), code=None)
        stage.expect_all(said, "not-on-allowlist", f"egressctl tenant default allow {UNLISTED}")
    print("\n    The proxy itself, asked by a bare CONNECT:\n")
    with nothing_sent(stage, place):
        said = raw(stage, place, connect_request(f"{UNLISTED}:{place.port}"))
        stage.expect_all(said, "HTTP/1.1 403 Refused by egress policy (not-on-allowlist)", "reason=not-on-allowlist")


def allow_it(stage: Stage, place: Place) -> None:
    """The command that the refusal printed makes the same name work."""
    stage.step("The command from that refusal, run on the node; then the same name again")
    rule = UNLISTED if place.port == 443 else f"{UNLISTED}:{place.port}"
    where = [] if place.sandboxed and place.port == 443 else ["--socket", str(place.admin)]
    words = ["egressctl", *where, "tenant", "default", "allow", rule]
    version = place.running.version()
    command = place.on_node([str(BIN / words[0]), *words[1:]])
    stage.run("node", " ".join(words), command, bare_environment())
    end = time.monotonic() + RELOAD_SECONDS
    while place.running.version() == version and time.monotonic() < end:
        time.sleep(0.01)
    print()
    said = fetch(stage, place, place.url(UNLISTED), code=0)
    stage.expect_all(said, "# News", "Nothing happened today.")


def private_address(stage: Stage, place: Place) -> None:
    """A listed name that resolves to a private address is refused for its address."""
    stage.step(f"A name on the list whose address is private ({INSIDE} is {PRIVATE})")
    with nothing_sent(stage, place, looked_up=True):
        said = fetch(stage, place, place.url(INSIDE), code=None)
        stage.expect_all(said, "resolved-address-denied")
        stage.expect(PRIVATE not in said, "the refusal shows the address")
    stage.expect(place.traps.accepted == 0, "the private address was reached")


def rebinding(stage: Stage, place: Place) -> None:
    """A name whose second answer differs: the first goes where it was judged, the second is refused."""
    stage.step(f"Rebinding: {SWINGING} is {place.public[SWINGING]} when first asked, {PRIVATE} when asked again")
    said = fetch(stage, place, place.url(SWINGING), code=0)
    stage.expect_all(said, "# Swings")
    record = place.running.wait_for_record(host=SWINGING, decision="allowed")
    stage.expect(record["address"] == place.public[SWINGING], f"the record names {record['address']}")
    stage.expect(place.dns.count(SWINGING, "A") == 1, "the name was looked up more than once for one connection")
    print(f"    the node's record: looked up once, judged, connected to {record['address']}\n")
    print("    The answer was good for four seconds. After that:\n")
    time.sleep(4.2)
    with nothing_sent(stage, place, looked_up=True):
        said = fetch(stage, place, place.url(SWINGING), code=None)
        stage.expect_all(said, "resolved-address-denied")
    stage.expect(place.traps.accepted == 0, "the second address was reached")


def metadata(stage: Stage, place: Place) -> None:
    """The metadata address is refused in every way of asking, and no list can allow it."""
    stage.step("The cloud's metadata address")
    with nothing_sent(stage, place):
        said = fetch(stage, place, f"http://{METADATA}/latest/meta-data/", code=None)
        stage.expect_all(said, "forbidden-address")
    print()
    with nothing_sent(stage, place):
        said = raw(stage, place, get_request(f"http://{METADATA}/latest/meta-data/"))
        stage.expect_all(said, "403 Refused by egress policy (forbidden-address)")
        said = raw(stage, place, connect_request("metadata.google.internal:80"))
        stage.expect_all(said, "403 Refused by egress policy (forbidden-name)")
    stage.expect(place.traps.accepted == 0, "the metadata address was reached")


def direct(stage: Stage, place: Place) -> None:
    """Past the proxy there is no way."""
    address = place.public[ALLOWED]
    stage.step("Past the proxy: a direct connection, and a look-up, from the sandbox")
    if not place.sandboxed:
        stage.leave_out("there is no sandbox here, so a direct connection would succeed.")
        return
    for what, wanted in (
        (f"create_connection(('{address}', 443), 5)", place.no_way),
        (f"getaddrinfo('{ALLOWED}', 443)", "gaierror"),
    ):
        code = f"import socket; socket.{what}"
        words = place.in_sandbox([str(BIN / "python"), "-c", "import sys; sys.tracebacklimit = 0; " + code])
        said = stage.run("sandbox", f'python -c "{code}"', words, bare_environment(), code=1)
        stage.expect_all(said, wanted)


STEPS = (allowed_page, unlisted_name, allow_it, private_address, rebinding, metadata, direct)
