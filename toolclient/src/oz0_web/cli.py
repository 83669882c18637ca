"""The `oz0-web` command: arguments to a call, a result to bytes on the terminal and an exit code.

Decides wording of help, exit codes and what goes to which stream: content to standard output, everything about it to
standard error, or all of it as one JSON object to standard output with `--json`. Imports only what the chosen command
needs, so that the first byte of a fetch leaves early.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from oz0_web.identity import PRODUCT, VERSION

if TYPE_CHECKING:
    from oz0_web.facades.oz0 import FetchArguments, FetchResult
    from oz0_web.facades.oz0_answers import Form
    from oz0_web.grants import Grant, Unreadable
    from oz0_web.stops import Stop
    from oz0_web.tools import Web


class Exit(IntEnum):
    """Exit codes, as `--help` lists them."""

    OK = 0
    USAGE = 2
    REFUSED = 3
    FAILED = 4
    PROXY = 5
    NOT_READ = 6
    INTERRUPTED = 130


EXIT_CODES = """\
exit codes:
  0  done (a site's own error, such as 404, is a page too: its status is shown)
  2  wrong usage: an argument, or a URL that is none
  3  refused: by the egress policy, the proxy, oz0-web's own rules, or the site's robots.txt
  4  the network or the site failed: no such name, no connection, TLS, time-out, broken HTTP
  5  no proxy is set, it cannot be used, or it did not work
  6  reached but not read: the type is not text, or the redirects lead nowhere
"""

ENVIRONMENT = """\
environment:
  OZ0_WEB_PROXY              the egress proxy: http://ADDRESS:PORT or unix:/PATH; an address or localhost, no other name
  HTTPS_PROXY, HTTP_PROXY    the same where OZ0_WEB_PROXY is not set (either case; not unix:)
  SSL_CERT_FILE              trusted certificates in place of the system's file
  OZ0_WEB_ESTIMATOR          whose tokens --budget counts: generic (default) or claude
  NO_COLOR                   no colours on a terminal either
Every request goes through the proxy; without one nothing is sent. NO_PROXY is ignored.
"""

FETCH_EXAMPLES = """\
examples:
  oz0-web fetch https://docs.python.org/3/
  oz0-web fetch https://example.com/ --output text --max-chars 2000
  oz0-web fetch https://example.com/data.json --output raw --json
  oz0-web fetch https://example.com/guide --budget 2000 --query Install
  oz0-web fetch https://example.com/guide --query 40-90
"""

FIND_EXAMPLES = """\
examples:
  oz0-web find https://docs.python.org/3/library/os.html EINTR
  oz0-web find https://example.com/ 'more information' --budget 500
"""

GRANT_EXAMPLES = """\
examples:
  oz0-web grant              what this job may reach, and the command that allows more
  oz0-web grant --json
"""

COMPLETION_EXAMPLES = """\
examples:
  eval "$(oz0-web completion bash)"
  oz0-web completion fish > ~/.config/fish/completions/oz0-web.fish
"""


_FETCH_NAMES = ("url", "output", "max_chars", "max_bytes", "view", "budget", "query", "fresh")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: Arguments without the program's name; the process's own by default.

    Returns:
        The exit code.
    """
    arguments = _parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A page may hold any character, and a console need not know it (case S16).
            stream.reconfigure(encoding="utf-8", errors="replace")
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has enough; keep the interpreter's last flush from saying so.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return Exit.OK


def _parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog=PRODUCT,
        description="Reads web pages for agents, by name through the node's egress proxy and in no other way.",
        epilog=f"{FETCH_EXAMPLES}{GRANT_EXAMPLES.partition(chr(10))[2]}\n{ENVIRONMENT}\n{EXIT_CODES}",
        formatter_class=layout,
    )
    parser.add_argument("--version", action="version", version=f"{PRODUCT} {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    fetch = commands.add_parser(
        "fetch",
        help="read one page as Markdown, text or as it is",
        description="Reads one page. Content goes to standard output, what is said about it to standard error.",
        epilog=f"{FETCH_EXAMPLES}\n{ENVIRONMENT}\n{EXIT_CODES}",
        formatter_class=layout,
    )
    fetch.add_argument("url", metavar="URL", help="an http or https URL")
    fetch.add_argument("--output", metavar="FORM", help="markdown (default), text or raw (decoded, not converted)")
    fetch.add_argument("--max-chars", metavar="N", type=_number, help="most characters of content (default 20000)")
    fetch.add_argument(
        "--max-bytes", metavar="N", type=_number, help="most bytes to read (default 2000000, at most 10000000)"
    )
    fetch.add_argument("--budget", metavar="N", type=_number, help="most tokens of the whole answer (at least 100)")
    fetch.add_argument(
        "--query", metavar="Q", help="a heading, a path such as 'Install > Linux', lines 40-90, or words"
    )
    fetch.add_argument("--view", metavar="V", help="full, section, summary, stub, lines or find (default: what fits)")
    fetch.add_argument("--fresh", action="store_true", default=None, help="ask the site anew, whatever was kept")
    fetch.add_argument("--json", action="store_true", help="one JSON object on standard output, errors too")
    fetch.set_defaults(run=_fetch)

    find = commands.add_parser(
        "find",
        help="find the lines of a page in which a text stands",
        description="Prints the lines of a page's Markdown in which a text stands, numbered, with the lines around.",
        epilog=f"{FIND_EXAMPLES}\n{ENVIRONMENT}\n{EXIT_CODES}",
        formatter_class=layout,
    )
    find.add_argument("url", metavar="URL", help="an http or https URL")
    find.add_argument("query", metavar="TEXT", help="what to look for, literally and without regard to case")
    find.add_argument("--budget", metavar="N", type=_number, help="most tokens of the whole answer (at least 100)")
    find.add_argument(
        "--max-bytes", metavar="N", type=_number, help="most bytes to read (default 2000000, at most 10000000)"
    )
    find.add_argument("--json", action="store_true", help="one JSON object on standard output, errors too")
    find.set_defaults(run=_fetch, view="find")

    grant = commands.add_parser(
        "grant",
        help="show what this job may reach",
        description="Asks the egress proxy what this job may reach and with which command a host is allowed.",
        epilog=f"{GRANT_EXAMPLES}\n{ENVIRONMENT}\n{EXIT_CODES}",
        formatter_class=layout,
    )
    grant.add_argument("--json", action="store_true", help="the grant as one JSON object")
    grant.set_defaults(run=_grant)

    completion = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Prints a completion script.",
        epilog=COMPLETION_EXAMPLES,
        formatter_class=layout,
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    completion.set_defaults(run=_completion)
    return parser


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number") from None


def _fetch(arguments: argparse.Namespace) -> int:
    from oz0_web.facades.oz0 import LISTED_LITERALS, ROBOTS_TOKEN, ArgumentError, FetchResult, read_arguments
    from oz0_web.facades.oz0_answers import JSON_FORM, TEXT_FORM

    given = {name: getattr(arguments, name, None) for name in _FETCH_NAMES}
    try:
        checked = read_arguments({name: value for name, value in given.items() if value is not None})
        web = _web(arguments, listed_literals=LISTED_LITERALS, robots_token=ROBOTS_TOKEN)
        if isinstance(web, int):
            return web
        outcome = _run(web, checked, JSON_FORM if arguments.json else TEXT_FORM)
    except ArgumentError as error:
        return _fail(arguments, "bad-argument", _as_options(str(error)), Exit.USAGE)
    if isinstance(outcome, FetchResult):
        return _show(arguments, outcome)
    told = web.tell(outcome)
    code = exit_code(outcome)
    if not arguments.json:
        return _fail(arguments, outcome.code.value, told.text, code)
    _write_json(
        {
            "error": {
                "code": outcome.code.value,
                "by": outcome.by.value,
                "reason": outcome.reason,
                "url": outcome.url,
                "text": told.text,
                "policy": told.is_policy,
                "retryable": told.is_retryable,
                "redirects": list(outcome.chain),
            }
        }
    )
    return code


def _run(web: Web, checked: FetchArguments, form: Form) -> FetchResult | Stop:
    import functools

    import trio

    from oz0_web.facades.oz0 import fetch

    return trio.run(functools.partial(fetch, web, checked, form=form))


def _show(arguments: argparse.Namespace, result: FetchResult) -> int:
    from oz0_web.facades.oz0_answers import JSON_FORM, head_lines, tail_lines

    if arguments.json:
        sys.stdout.write(JSON_FORM.write(result) + "\n")
        return Exit.OK

    for line in head_lines(result):
        _say(line)
    content = result.content
    sys.stdout.write(_printable(content) if sys.stdout.isatty() else content)
    if content and not content.endswith("\n"):
        sys.stdout.write("\n")
    sys.stdout.flush()
    for line in tail_lines(result):
        _say(line)
    return Exit.OK


def _grant(arguments: argparse.Namespace) -> int:
    import trio

    from oz0_web.faults import ProxyUnreachable
    from oz0_web.grants import Unreadable
    from oz0_web.report import tell_grant

    web = _web(arguments, listed_literals=False)
    if isinstance(web, int):
        return web
    try:
        grant: Grant | Unreadable = trio.run(web.grant)
    except ProxyUnreachable as error:
        text = f"The egress proxy at {error.proxy} takes no connection: {error.detail}."
        return _fail(arguments, "proxy-failed", text, Exit.PROXY)
    if isinstance(grant, Unreadable):
        is_refused = grant.status is not None and 400 <= grant.status < 500
        text = f"The egress proxy does not show this job's grant: {grant.detail}."
        return _fail(arguments, "grant-unreadable", text, Exit.REFUSED if is_refused else Exit.PROXY)
    if arguments.json:
        from egress_policy.wire import write_grant

        sys.stdout.write(write_grant(grant.document).decode("utf-8").rstrip() + "\n")
    else:
        sys.stdout.write(tell_grant(grant.document) + "\n")
    return Exit.OK


def _completion(arguments: argparse.Namespace) -> int:
    from oz0_web.completion import SCRIPTS

    sys.stdout.write(SCRIPTS[arguments.shell])
    return Exit.OK


def _web(arguments: argparse.Namespace, *, listed_literals: bool, robots_token: str | None = None) -> Web | int:
    from oz0_web.config import ConfigError
    from oz0_web.tools import web_from_environment

    try:
        web = web_from_environment(listed_literals=listed_literals, robots_token=robots_token)
    except ConfigError as error:
        return _fail(arguments, "no-proxy", str(error), Exit.PROXY)
    if not arguments.json:
        for note in web.config.notes:
            _say(note)
    return web


def exit_code(stop: Stop) -> Exit:
    """Give the exit code for a visit that gave no page."""
    from oz0_web.stops import POLICY_CODES, Code

    if stop.code in POLICY_CODES:
        return Exit.REFUSED
    match stop.code:
        case Code.BAD_URL:
            return Exit.FAILED if stop.chain else Exit.USAGE
        case Code.PROXY_FAILED:
            return Exit.PROXY
        case Code.TYPE_REFUSED | Code.REDIRECT_LIMIT | Code.REDIRECT_LOOP:
            return Exit.NOT_READ
        case _:
            return Exit.FAILED


def _fail(arguments: argparse.Namespace, code: str, text: str, exit_with: Exit) -> int:
    if arguments.json:
        _write_json({"error": {"code": code, "text": text}})
    else:
        _say(f"{PRODUCT}: {text}", is_error=True)
    return exit_with


def _as_options(message: str) -> str:
    """Name the options as the command spells them, where the façade names its arguments."""
    first, space, rest = message.replace("max_chars", "--max-chars").replace("max_bytes", "--max-bytes").partition(" ")
    return (f"--{first}" if first in {"output", "view", "budget", "query"} else first) + space + rest


def _write_json(value: object) -> None:
    import json

    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def _say(text: str, *, is_error: bool = False) -> None:
    """Write a line about the page to standard error; coloured on a terminal only."""
    text = _printable(text)
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        text = f"\x1b[{'31' if is_error else '2'}m{text}\x1b[0m"
    sys.stderr.write(text + "\n")


def _printable(text: str) -> str:
    """Take out what a terminal would obey; a page's words are not to move the cursor or set the title."""
    return "".join(each if each in "\n\t" or each.isprintable() else "�" for each in text)
