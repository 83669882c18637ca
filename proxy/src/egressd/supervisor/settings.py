"""The spellings that single configuration values may have: addresses, networks, names, sockets, templates.

Each function takes the text from the file and gives the canonical text, or raises `PydanticCustomError` with what to
write instead. No value here depends on another; `config` checks what does.
"""

from __future__ import annotations

import re
import string
from ipaddress import IPv6Network, ip_network
from typing import TYPE_CHECKING, NoReturn

from pydantic_core import PydanticCustomError

from egress_policy.addresses import AddressClass, classify, fold, parse_address
from egress_policy.names import BadName, to_name
from egress_policy.targets import BadTarget, parse_authority
from egressd.list_files import NAME, NAME_FORM

if TYPE_CHECKING:
    from egress_policy.addresses import Address, Network

PORT = re.compile(r"[0-9]{1,5}")
PORT_MAX = 65_535
DNS_PORT = 53
# sun_path holds 108 bytes with its final NUL (unix(7)).
UNIX_PATH_MAX_BYTES = 107
NAT64_LENGTHS = (32, 40, 48, 56, 64, 96)  # RFC 6052 section 2.2
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def refuse(problem: str, write_instead: str) -> NoReturn:
    """Say what is wrong with the value that is being read, and what to write instead."""
    kind = "egressd"
    # the texts go in as values: braces of the operator's own would be taken for pydantic's
    raise PydanticCustomError(kind, "{problem}", {"problem": problem, "write_instead": write_instead})


def label(text: str) -> str:
    """Accept the name of a tenant, a plugin or a listener."""
    if NAME.fullmatch(text) is None:
        refuse("not a name", NAME_FORM)
    return text


def address(text: str) -> str:
    """Accept an IP address; IPv4-mapped IPv6 becomes the IPv4 that it is."""
    found = parse_address(text)
    if found is None:
        refuse("not an address", 'an IP address, such as "192.0.2.7" or "2001:db8::7"')
    return str(fold(found))


def network(text: str) -> str:
    """Accept a network in CIDR form or a single address."""
    example = 'a network, such as "192.0.2.0/24" or "2001:db8::/32"'
    base, slash, length = text.partition("/")
    found = parse_address(base)
    if found is None or (slash and not (length.isascii() and length.isdigit())):
        refuse("not a network", example)
    if fold(found) != found:
        refuse("an IPv4 network in IPv6 clothes", f"it as IPv4: {fold(found)}")
    try:
        wide = ip_network(text, strict=False)
    except ValueError:
        refuse("not a network", example)
    if wide.network_address != found:
        refuse("an address inside a network", f'"{wide}", or "{found}" for the one address')
    return str(wide)


def private_network(text: str) -> str:
    """Accept a network that may be opened to a tenant: all of it private, none of it floor."""
    found: Network = ip_network(network(text))
    if {classify(found.network_address), classify(found.broadcast_address)} != {AddressClass.PRIVATE}:
        refuse(
            "not private address space",
            "a network inside 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10 or fc00::/7",
        )
    return str(found)


def nat64_prefix(text: str) -> str:
    """Accept an IPv6 prefix of a length that RFC 6052 knows; the empty text is none."""
    if text == "":
        return text
    found = ip_network(network(text))
    if not isinstance(found, IPv6Network) or found.prefixlen not in NAT64_LENGTHS:
        refuse("not a NAT64 prefix", 'an IPv6 prefix of length 32, 40, 48, 56, 64 or 96, such as "64:ff9b::/96"')
    return str(found)


def split_address(text: str) -> tuple[Address, int] | None:
    """Split `ip:port` or `[ip]:port`; None where it is neither. Port 0 passes: the kernel chooses one."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host, bracketed = host[1:-1], True
    else:
        bracketed = False
    found = parse_address(host)
    if not colon or found is None or PORT.fullmatch(port) is None or int(port) > PORT_MAX:
        return None
    return (found, int(port)) if bracketed == (found.version == 6) else None


def join_address(host: Address | str, port: int) -> str:
    """Write an address and a port as one text, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def tcp_address(text: str) -> str:
    """Accept the address of a TCP listener. A name is not one: it could mean other addresses tomorrow."""
    found = split_address(text)
    if found is None:
        refuse("not an address with a port", 'an IP address and a port, such as "127.0.0.1:3128" or "[::1]:3128"')
    return join_address(fold(found[0]), found[1])


def loopback_tcp_address(text: str) -> str:
    """Accept the address of a TCP listener that only this machine reaches."""
    found = split_address(tcp_address(text))
    if found is None or not any(found[0] in net for net in LOOPBACK if net.version == found[0].version):
        refuse("not a loopback address", 'a loopback address, such as "127.0.0.1:3129"')
    return text


def resolver(text: str) -> str:
    """Accept a name server: `ip`, `ip:port` or `[ip]:port`."""
    found = parse_address(text)
    if found is not None:
        return str(found)
    split = split_address(text)
    if split is None or split[1] == 0:
        refuse("not a name server's address", 'an IP address, with a port if it is not 53, such as "127.0.0.53"')
    return str(split[0]) if split[1] == DNS_PORT else join_address(*split)


def host_name(text: str) -> str:
    """Accept a host name as people write it, and give its A-label form."""
    found = to_name(text)
    if isinstance(found, BadName):
        refuse(found.detail, 'a host name, such as "searx.internal"')
    return found.text


def authority(text: str) -> str:
    """Accept an exact host and port."""
    found = parse_authority(text.encode("ascii", "backslashreplace"))
    if isinstance(found, BadTarget):
        refuse(found.detail, 'a host and a port, such as "searx.internal:8080"')
    return found.authority


def command_template(text: str) -> str:
    """Accept the template of the command that allows a host."""
    example = 'a command with {tenant} and {host} in it, such as "egressctl tenant {tenant} allow {host}"'
    try:
        names = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
    except ValueError:
        refuse("braces that do not match", example)
    if not names <= {"tenant", "host"} or "host" not in names:
        refuse("not a template that names the host", example)
    if not text.isprintable():
        refuse("a control character", example)
    return text


def unix_path(text: str) -> str:
    """Accept the path of a Unix socket; `config` makes it absolute."""
    if text == "" or "\0" in text or len(text.encode()) > UNIX_PATH_MAX_BYTES:
        refuse("not a socket's path", f"a path of at most {UNIX_PATH_MAX_BYTES} bytes")
    return text


def optional_unix_path(text: str) -> str:
    """Accept the path of a Unix socket, or the empty text for none."""
    return text if text == "" else unix_path(text)


def file_mode(text: str) -> str:
    """Accept a file mode in octal digits."""
    if re.fullmatch(r"0?[0-7]{3}", text) is None:
        refuse("not a file mode", 'octal digits, such as "0660"')
    return text
