"""The command `egressctl`, whole: with a daemon, without one, and with whatever can go wrong between."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from egressd.ctl import cli, node
from support.egressd_process import Process, running


class Told:
    """What a command came to."""

    def __init__(self, code: int, captured: tuple[str, str]) -> None:
        self.code = code
        self.out, self.err = captured


class Command:
    """Runs `egressctl` in this process, on a folder of lists."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys

    @property
    def path(self) -> Path:
        return self.folder / "lists/tenants/default.list"

    def __call__(self, *words: str, lists: bool = True, socket: str = "none.sock") -> Told:
        before = ["--socket", str(self.folder / socket)]
        before += ["--lists", str(self.folder / "lists")] if lists else []
        code = cli.main([*before, *words])
        return Told(code, self.capsys.readouterr())


@pytest.fixture
def egressctl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    (tmp_path / "lists/tenants").mkdir(parents=True)
    return Command(tmp_path, capsys)


@pytest.fixture
def egressd(egressctl: Command) -> Iterator[Process]:
    words = ("--lists", "lists", "--listen", "127.0.0.1:0", "--admin", "admin.sock")
    with running(egressctl.folder, *words) as process:
        process.told("ready")
        yield process


def test_without_a_daemon_it_edits_and_says_so(egressctl: Command) -> None:
    told = egressctl("tenant", "default", "allow", "docs.python.org", "*.wikipedia.org")
    assert told.code == 0
    assert egressctl.path.read_text() == "docs.python.org\n*.wikipedia.org\n"
    assert "no daemon listens there" in told.err
    assert "no daemon was asked to load it" in told.err
    assert "in force" not in told.out


def test_the_folder_of_tenants_is_made_where_there_was_none(egressctl: Command) -> None:
    egressctl.path.parent.rmdir()
    assert egressctl("tenant", "default", "allow", "docs.python.org").code == 0
    assert egressctl.path.read_text() == "docs.python.org\n"


def test_options_may_stand_anywhere(egressctl: Command) -> None:
    assert egressctl("tenant", "default", "allow", "a.example", "--for", "1h", "b.example", "--json").code == 0
    first, second = egressctl.path.read_text().splitlines()
    assert first.startswith("a.example until=20")
    assert second.startswith("b.example until=20")


def test_an_end_is_counted_from_now(egressctl: Command) -> None:
    options = cli.make_parser().parse_intermixed_args(
        ["--lists", str(egressctl.folder / "lists"), "tenant", "default", "allow", "a.example", "--for", "1h30m"]
    )
    outcome = cli.run(options, now=1_764_547_200.0)
    assert outcome.changes[0].rule == "a.example until=2025-12-01T01:30:00Z"


def test_denying_removing_and_listing(egressctl: Command) -> None:
    egressctl.path.write_text("# the team's\n*.wikipedia.org # reading\n")
    assert egressctl("tenant", "default", "deny", "upload.wikimedia.org").code == 0
    assert egressctl("tenant", "default", "remove", "*.wikipedia.org").code == 0
    assert egressctl.path.read_text() == "# the team's\n# reading\n! upload.wikimedia.org\n"
    told = egressctl("tenant", "default", "list")
    assert (told.code, told.out) == (0, "! upload.wikimedia.org\n")
    row = json.loads(egressctl("tenant", "default", "list", "--json").out)
    assert row["rules"] == [{"rule": "! upload.wikimedia.org", "deny": True, "line": 3, "until": None, "comment": None}]


def test_nothing_to_do_is_no_failure(egressctl: Command) -> None:
    egressctl.path.write_text("a.example\n")
    before = egressctl.path.stat()
    assert egressctl("tenant", "default", "allow", "A.example").code == 0
    assert egressctl("tenant", "default", "remove", "b.example").code == 0
    assert egressctl.path.stat() == before


@pytest.mark.case("D7")
def test_broken_rules_change_nothing_and_all_are_told(egressctl: Command) -> None:
    egressctl.path.write_text("a.example\n")
    told = egressctl("tenant", "default", "allow", "b.example", "*.*", "http://x/y", "*.co.uk")
    assert told.code == 65
    assert egressctl.path.read_text() == "a.example\n"
    assert len(told.err.splitlines()) == 4
    assert told.err.count("; write ") == 3


def test_a_list_that_is_broken_already_is_not_added_to_but_can_be_mended(egressctl: Command) -> None:
    egressctl.path.write_text("a.example\n*.*\n")
    told = egressctl("tenant", "default", "allow", "b.example")
    assert told.code == 65
    assert "tenants/default.list:2:" in told.err
    assert egressctl.path.read_text() == "a.example\n*.*\n"
    assert egressctl("tenant", "default", "remove", "*.*").code == 0
    assert egressctl.path.read_text() == "a.example\n"


def test_a_rule_that_can_never_take_effect_is_warned_about(egressctl: Command) -> None:
    egressctl.path.write_text("! docs.python.org\n")
    told = egressctl("tenant", "default", "allow", "docs.python.org")
    assert told.code == 0
    assert "warning: can never take effect" in told.err
    assert egressctl("tenant", "default", "lint").code == 0


def test_a_deny_that_puts_an_older_rule_out_of_effect_is_warned_about(egressctl: Command) -> None:
    egressctl.path.write_text("docs.python.org\n")
    told = egressctl("tenant", "default", "deny", ".python.org")
    assert told.code == 0
    assert "tenants/default.list:1:1: warning: can never take effect" in told.err


def test_lint_tells_errors_and_fails(egressctl: Command) -> None:
    egressctl.path.write_text("a.example\n*.*\n! b.example\nb.example\n")
    told = egressctl("tenant", "default", "lint")
    assert told.code == 1
    assert len(told.err.splitlines()) == 3  # the error, the warning, and that no daemon is there
    egressctl.path.write_text("a.example\n")
    assert egressctl("tenant", "default", "lint").code == 0


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["tenant"],
        ["tenant", "default"],
        ["tenant", "default", "permit", "a.example"],
        ["tenant", "default", "allow"],
        ["tenant", "default", "list", "a.example"],
        ["tenant", "../x", "list"],
        ["tenant", "default", "remove", "a.example", "--for", "1h"],
        ["tenant", "default", "allow", "a.example", "--for", "soon"],
        ["--completion", "csh"],
    ],
)
def test_wrong_usage_exits_2_with_what_to_write(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    assert "egressctl: error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--help"], "egressctl tenant default allow"),
        (["--version"], "egressctl "),
        (["--completion", "bash"], "complete -F"),
    ],
)
def test_what_explains_itself_goes_to_standard_output(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 0
    assert expected in capsys.readouterr().out


def test_without_a_daemon_and_without_a_folder_there_is_nothing_to_edit(
    egressctl: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "USUAL_LISTS", egressctl.folder / "none")
    told = egressctl("tenant", "default", "list", lists=False)
    assert told.code == 69
    assert "--lists FOLDER" in told.err
    monkeypatch.setattr(cli, "USUAL_LISTS", egressctl.folder / "lists")
    assert egressctl("tenant", "default", "list", lists=False).code == 0


def test_a_list_that_cannot_be_read_and_one_that_cannot_be_written(egressctl: Command) -> None:
    egressctl.path.write_bytes(b"\xff")
    assert egressctl("tenant", "default", "list").code == 66
    assert egressctl("tenant", "default", "allow", "a.example").code == 66
    (egressctl.folder / "lists").rename(egressctl.folder / "away")
    assert egressctl("tenant", "default", "list").code == 66
    assert egressctl("tenant", "default", "allow", "a.example").code == 73


@pytest.mark.slow
def test_with_a_daemon_the_rule_is_in_force_when_the_command_is_back(egressctl: Command, egressd: Process) -> None:
    told = egressctl("tenant", "default", "allow", "docs.python.org", lists=False, socket="admin.sock")
    assert (told.code, told.err) == (0, "")
    assert told.out.splitlines()[-1] == "in force: policy version 2"
    assert egressd.admin("GET", "/node")[1]["version"] == 2
    row = json.loads(egressctl("tenant", "default", "allow", "pypi.org", "--json", socket="admin.sock").out)
    assert (row["version"], row["changed"], row["notes"]) == (3, True, [])


@pytest.mark.slow
def test_a_daemon_that_reads_other_lists_is_not_asked(egressctl: Command, egressd: Process) -> None:
    (egressctl.folder / "other/tenants").mkdir(parents=True)
    told = egressctl(
        "--lists", str(egressctl.folder / "other"), "tenant", "default", "allow", "a.example", socket="admin.sock"
    )
    assert told.code == 0
    assert "reads other lists" in told.err
    assert (egressctl.folder / "other/tenants/default.list").read_text() == "a.example\n"
    assert egressd.admin("GET", "/node")[1]["version"] == 1


@pytest.mark.slow
def test_a_tenant_that_no_listener_belongs_to_is_told(egressctl: Command, egressd: Process) -> None:
    told = egressctl("tenant", "defualt", "allow", "a.example", socket="admin.sock")
    assert told.code == 0
    assert "no listener of this daemon belongs to tenant defualt (it has: default)" in told.err
    assert egressd.admin("GET", "/readyz")[0] == 200


@pytest.mark.slow
def test_a_rule_that_the_daemon_does_not_load_is_a_failure(egressctl: Command, egressd: Process) -> None:
    egressctl.path.write_text("a.example\n*.*\nb.example\n")
    told = egressctl("tenant", "default", "remove", "b.example", socket="admin.sock")
    assert told.code == 1
    assert "does not load, and the old one stays in force" in told.err
    assert egressd.admin("GET", "/readyz")[0] == 200


def test_a_daemon_that_does_not_answer_leaves_the_edit_and_fails(
    egressctl: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = egressctl.folder / "lists"

    def there(path: Path) -> node.Description:
        return node.Description(path, lists, ("default",), 1)

    def gone(path: Path) -> node.Reloaded:
        raise node.NoNode(f"{path}: no daemon listens there")

    monkeypatch.setattr(node, "describe", there)
    monkeypatch.setattr(node, "reload", gone)
    told = egressctl("tenant", "default", "allow", "a.example")
    assert told.code == 1
    assert "the list is written, but the daemon did not load it" in told.err
    assert egressctl.path.read_text() == "a.example\n"


def test_a_daemon_that_takes_no_commands_from_us_is_told(egressctl: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> node.Description:
        raise node.NodeFault(f"{path}: only root and the daemon's own user may command it")

    monkeypatch.setattr(node, "describe", refuse)
    told = egressctl("tenant", "default", "allow", "a.example")
    assert told.code == 0
    assert "only root and the daemon's own user may command it" in told.err


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert cli.may_colour(_Terminal())
    assert not cli.may_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not cli.may_colour(_Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not cli.may_colour(_Terminal())


@pytest.mark.slow
def test_the_command_starts_without_the_daemons_libraries() -> None:
    script = (
        "import sys; from egressd.ctl import cli; cli.make_parser();"
        "print([name for name in ('pydantic', 'aiohttp', 'asyncio', 'http.client') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.slow
def test_the_command_that_a_refusal_names_works_as_it_is_printed(
    egressctl: Command, egressd: Process, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(node, "USUAL_SOCKET", egressctl.folder / "admin.sock")
    assert cli.main(shlex.split("egressctl tenant default allow a.example")[1:]) == 0
    assert "in force: policy version 2" in capsys.readouterr().out
    assert egressctl.path.read_text() == "a.example\n"
    assert egressd.admin("GET", "/node")[1]["version"] == 2
