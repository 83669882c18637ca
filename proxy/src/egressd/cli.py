"""The command `egressd`: flags and exit codes.

Nothing heavy is imported until the worker processes are on their way, so that all start up side by side. Decides only
which of the two commands is meant; `supervisor.daemon` runs the daemon, `supervisor.config` judges the file.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from egressd.limits import WORKERS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from egressd.supervisor.config import Config
    from egressd.supervisor.workers import Spawned

EX_OK, EX_OSERR, EX_CONFIG = 0, 71, 78  # sysexits.h

_EXAMPLES = """\
examples:
  egressd --lists ./lists                         tenant "default" on 127.0.0.1:3128
  egressd --lists ./lists --listen 127.0.0.1:3200 --admin ./admin.sock
  egressd --config /etc/egressd/egressd.toml
  egressd check --config /etc/egressd/egressd.toml

SIGHUP loads lists and policy anew; what is broken leaves its old state in force.
SIGTERM drains, a second one ends at once.

exit codes: 0 ended as asked, 70 no worker can be had, 71 a listener or file of the system could not be had,
78 configuration
"""


class _Version(argparse.Action):
    """Shows the version. Looking it up reads package metadata, which a start has no time for."""

    def __call__(self, parser: argparse.ArgumentParser, *_rest: object) -> None:
        from importlib.metadata import version

        print(f"{parser.prog} {version('oz0-egressd')}")
        parser.exit()


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the flags; exits 2 with a message on a wrong one."""
    parser = argparse.ArgumentParser(
        prog="egressd",
        description="The node's egress proxy: it refuses what no list allows.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "command",
        nargs="?",
        choices=["run", "check"],
        default="run",
        help="run (default), or check the configuration and its lists",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--config", metavar="FILE", help="the configuration, in TOML")
    where.add_argument(
        "--lists", metavar="FOLDER", help="no configuration: tenant default, its list in FOLDER/tenants/default.list"
    )
    parser.add_argument("--listen", metavar="IP:PORT", help="with --lists: where to listen (default 127.0.0.1:3128)")
    parser.add_argument("--admin", metavar="FILE", help="with --lists: the admin socket")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version")
    options = parser.parse_args(arguments)
    if options.config is not None and (options.listen is not None or options.admin is not None):
        parser.error("--listen and --admin go with --lists; with --config, write them into the file")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    if options.command == "check":
        return _check(options)
    hang_ups: list[int] = []
    # a reload asked for during the start is done after it; without a handler the signal would end the process
    signal.signal(signal.SIGHUP, lambda number, _frame: hang_ups.append(number))
    return _run(options, lambda: len(hang_ups))


def _run(options: argparse.Namespace, hang_ups: Callable[[], int]) -> int:
    from egressd.supervisor import descriptors, workers

    # pydantic would look through every installed package for plugins: slow, and not theirs to read a configuration
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    for name in [name for name in os.environ if name.lower() in workers.PROXY_VARIABLES]:
        del os.environ[name]
    descriptors.raise_limit()
    user, count = _crew(options)
    spawned: list[Spawned] = []
    try:
        try:
            for _ in range(count):
                spawned.append(workers.spawn(user=user))  # noqa: PERF401 - those that started are to be ended below
        except OSError as error:
            _complain(f"a worker cannot be started: {error.strerror}")
            return EX_OSERR
        return _supervise(options, spawned, hang_ups)
    finally:
        for row in spawned:
            workers.discard(row)


def _supervise(options: argparse.Namespace, spawned: Sequence[Spawned], hang_ups: Callable[[], int]) -> int:
    from egressd.supervisor.problems import ConfigError

    try:
        config = _read(options)
    except ConfigError as error:
        for problem in error.problems:
            _complain(str(problem))
        return EX_CONFIG
    from egressd.supervisor import daemon

    return daemon.run(config, lambda: _read(options), spawned, hang_ups)


def _read(options: argparse.Namespace) -> Config:
    """Read the configuration that the flags name.

    Raises:
        ConfigError: With every problem in it.
    """
    from egressd.supervisor import config

    if options.config is None:
        raw = config.embedded(options.lists, listen=options.listen, admin=options.admin)
        return config.load(raw, file=config.COMMAND_LINE, base=Path.cwd())
    path = Path(options.config)
    return config.load(config.read_file(path), file=str(path), base=path.absolute().parent)


def _crew(options: argparse.Namespace) -> tuple[tuple[int, int] | None, int]:
    """Find out whom the workers run as and how many there are, without a look at the rest of the configuration.

    Whatever is wrong here is told, with everything else, when the configuration is read; and where the number is
    another then, the daemon starts or ends some.
    """
    from egressd.supervisor import descriptors

    if options.config is None:
        return None, 1
    default = descriptors.default_workers()
    try:
        text = Path(options.config).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None, 1
    if "user" not in text and "workers" not in text:
        return None, default
    import tomllib

    try:
        node = tomllib.loads(text).get("node", {})
    except tomllib.TOMLDecodeError:
        return None, 1
    table = node if isinstance(node, dict) else {}
    count = table.get("workers", default)
    return _user(table.get("user")), count if isinstance(count, int) and 1 <= count <= WORKERS_MAX else 1


def _user(name: object) -> tuple[int, int] | None:
    from egressd.supervisor import identity

    if os.geteuid() != identity.ROOT or not isinstance(name, str) or not name:
        return None
    try:
        return identity.find_user(name)
    except identity.UserFault:
        return None


def _check(options: argparse.Namespace) -> int:
    from egressd.list_files import show_problem
    from egressd.supervisor.lists import ListStore
    from egressd.supervisor.policy import idle_notices, list_keys, unsafe_notices
    from egressd.supervisor.problems import ConfigError

    try:
        config = _read(options)
    except ConfigError as error:
        for problem in error.problems:
            _complain(str(problem))
        return EX_CONFIG
    loaded = ListStore().load(config.lists_folder, list_keys(config)).values()
    for notice in unsafe_notices(config):
        _complain(f"UNSAFE: {notice}")
    for notice in idle_notices(config):
        _complain(notice)
    for row in loaded:
        for found in row.problems:
            _complain(show_problem(found))
        if row.unavailable is not None:
            _complain(f"policy unavailable: {row.unavailable}")
    if any(row.unavailable is not None for row in loaded):
        return EX_CONFIG
    print(f"{config.file}: no problem found, {len(loaded)} lists")
    return EX_OK


def _complain(text: str) -> None:
    print(f"egressd: {text}", file=sys.stderr)
