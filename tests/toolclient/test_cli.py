"""The command: what goes to which stream, exit codes, help, and that nothing is sent without a proxy."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from oz0_web.cli import EXIT_CODES, Exit, exit_code, main
from oz0_web.grants import GRANT_PATH
from oz0_web.stops import By, Code, Stop
from support.fake_proxy import FakeProxy, Script, Site, redirect, refusal, reply
from support.web_rig import authority, grant, run_command, site

URL = "https://a.example/"
AUDIT_FOLDER = Path(__file__).parents[1] / "support" / "audit_site"


@pytest.fixture
def trusted(tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority().cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch, trusted: str) -> pytest.MonkeyPatch:
    """An environment without any proxy, trusting the tests' authority."""
    for name in ("OZ0_WEB_PROXY", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    return monkeypatch


def proxy_with(page: Script) -> FakeProxy:
    pages = {"/": page, "/end": reply(b"end")}
    return FakeProxy({GRANT_PATH: grant("a.example"), "a.example:443": site("a.example", pages)})


@pytest.mark.slow
def test_a_fetch_by_a_process_of_its_own_prints_the_page_and_exits_with_0(trusted: str) -> None:
    with proxy_with(reply(b"<title>T</title><h1>Page</h1>")) as proxy:
        done = run_command("fetch", URL, environ={"OZ0_WEB_PROXY": proxy.url, "SSL_CERT_FILE": trusted})

    assert (done.code, done.out) == (0, "# Page\n")
    assert done.err == f"{URL} · 200 · text/html · T\n"


@pytest.mark.slow
def test_a_unix_socket_works_the_same(trusted: str, tmp_path: Path) -> None:
    routes: dict[str, Script | Site] = {GRANT_PATH: grant("a.example")}
    routes["a.example:443"] = site("a.example", {"/": reply(b"page")})
    with FakeProxy(routes, path=tmp_path / "job.sock") as proxy:
        done = run_command("fetch", URL, environ={"OZ0_WEB_PROXY": proxy.url, "SSL_CERT_FILE": trusted})

    assert (done.code, done.out) == (0, "page\n")


def run(*arguments: str, proxy: FakeProxy | None, environ: pytest.MonkeyPatch) -> int:
    if proxy is not None:
        environ.setenv("OZ0_WEB_PROXY", proxy.url)
    return main(arguments)


def test_json_is_one_object_with_the_facades_fields(
    environ: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with proxy_with(redirect("/end")) as proxy:
        code = run("fetch", URL, "--json", "--max-chars", "2", proxy=proxy, environ=environ)
    out, err = capfd.readouterr()

    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "url": "https://a.example/end",
        "status": 200,
        "type": "text/html",
        "title": "",
        "content": "en",
        "truncated": True,
        "redirects": [URL],
    }


def test_what_is_said_about_a_page_goes_to_standard_error(
    environ: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    environ.setenv("NO_PROXY", "*")
    with proxy_with(redirect("/end")) as proxy:
        code = run("fetch", URL, "--output", "raw", "--max-chars", "2", proxy=proxy, environ=environ)
    out, err = capfd.readouterr()

    assert (code, out) == (0, "en\n")
    assert [line.split(":")[0].split(" ")[0] for line in err.splitlines()] == ["NO_PROXY", "redirected", "https", "cut"]
    assert "\x1b" not in err


@pytest.mark.requirement("OZ-40")
def test_a_refusal_is_told_with_its_command_and_exits_with_3(
    environ: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with proxy_with(b"") as proxy:
        plain = run("fetch", "https://b.example/", proxy=proxy, environ=environ)
        out, err = capfd.readouterr()
        as_json = run("fetch", "https://b.example/", "--json", proxy=proxy, environ=environ)
        json_out, json_err = capfd.readouterr()

    assert (plain, out) == (3, "")
    assert "oz0-web: Refused by the egress policy" in err
    assert "egressctl tenant acme allow b.example" in err
    assert (as_json, json_err) == (3, "")
    error = json.loads(json_out)["error"]
    assert (error["code"], error["by"], error["reason"], error["policy"], error["retryable"]) == (
        *("not-allowed", "list", "not-on-allowlist", True),
        False,
    )
    assert err.strip().endswith(error["text"])


@pytest.mark.case("H21", "H22")
@pytest.mark.parametrize("command", [("fetch", URL), ("grant",)])
@pytest.mark.parametrize("value", [None, "", "http://proxy.internal:3128"])
def test_without_a_proxy_nothing_is_sent_and_the_variables_are_named(
    command: tuple[str, ...], value: str | None, environ: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if value is not None:
        environ.setenv("OZ0_WEB_PROXY", value)

    code = run(*command, proxy=None, environ=environ)

    assert code == 5
    assert "OZ0_WEB_PROXY" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fetch", URL, "--max-bytes", "10000001"), "--max-bytes must be at most 10000000"),
        (("fetch", URL, "--max-chars", "0"), "--max-chars must be at least 1"),
        (("fetch", URL, "--output", "html"), "--output must be one of markdown, text, raw"),
        (("fetch", ""), "url must be"),
    ],
)
def test_arguments_out_of_range_are_wrong_usage_before_anything_is_sent(
    arguments: tuple[str, ...], said: str, environ: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with FakeProxy() as proxy:
        code = run(*arguments, proxy=proxy, environ=environ)

    assert (code, proxy.connections) == (2, 0)
    assert said in capfd.readouterr().err


@pytest.mark.parametrize("arguments", [(), ("fetch",), ("fetch", URL, "--max-chars", "many"), ("search", "x")])
def test_what_the_parser_does_not_know_is_wrong_usage(
    arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert "usage: oz0-web" in capfd.readouterr().err


@pytest.mark.parametrize("arguments", [("--help",), ("fetch", "--help"), ("grant", "--help")])
def test_help_has_examples_the_variables_and_every_exit_code(
    arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    text = capfd.readouterr().out

    assert caught.value.code == 0
    assert "examples:" in text
    assert "OZ0_WEB_PROXY" in text
    assert [code for code in Exit if code < 100 and f"\n  {int(code)}  " not in text] == []


def test_the_help_names_no_exit_code_that_does_not_exist() -> None:
    named = [int(line.split()[0]) for line in EXIT_CODES.splitlines() if line[:3].strip().isdigit()]

    assert named == [int(code) for code in Exit if code < 100]


def test_version_and_completion_are_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capfd.readouterr().out.startswith("oz0-web ")
    assert main(["completion", "bash"]) == 0
    assert "complete -F _oz0_web oz0-web" in capfd.readouterr().out


def test_the_grant_is_shown_as_text_and_as_json(environ: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    with proxy_with(b"") as proxy:
        assert run("grant", proxy=proxy, environ=environ) == 0
        text = capfd.readouterr().out
        assert run("grant", "--json", proxy=proxy, environ=environ) == 0
        document = json.loads(capfd.readouterr().out)

    assert "  a.example\n" in text
    assert (document["tenant"], document["lists"][0]["rules"]) == ("acme", ["a.example"])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(reply(b"no", status="404 Not Found"), 3), (refusal("identity-unknown"), 3), (b"nonsense\r\n\r\n", 5)],
)
def test_a_grant_that_is_not_shown_is_told(
    answer: bytes, expected: int, environ: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with FakeProxy({GRANT_PATH: answer}) as proxy:
        code = run("grant", proxy=proxy, environ=environ)

    assert code == expected
    assert "does not show this job's grant" in capfd.readouterr().err


def test_a_proxy_that_is_gone_exits_with_5(environ: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    with FakeProxy() as proxy:
        pass
    assert run("grant", proxy=proxy, environ=environ) == 5
    assert run("fetch", URL, proxy=proxy, environ=environ) == 5
    assert capfd.readouterr().err.count("connection refused") == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(environ: pytest.MonkeyPatch, page: bytes) -> tuple[str, str]:
    out, err = Terminal(), Terminal()
    environ.setattr(sys, "stdout", out)
    environ.setattr(sys, "stderr", err)
    with proxy_with(reply(page, kind="text/plain")) as proxy:
        run("fetch", URL, proxy=proxy, environ=environ)
    return out.getvalue(), err.getvalue()


def test_colours_are_for_terminals_and_can_be_switched_off(environ: pytest.MonkeyPatch) -> None:
    environ.delenv("NO_COLOR", raising=False)
    assert "\x1b[2m" in on_a_terminal(environ, b"x")[1]
    environ.setenv("NO_COLOR", "1")
    assert "\x1b" not in on_a_terminal(environ, b"x")[1]


def test_a_page_cannot_speak_to_the_terminal(environ: pytest.MonkeyPatch) -> None:
    out, _ = on_a_terminal(environ, b"a\x1b]0;title\x07\tb\r\xc2\x9b31m\n")

    assert out == "a�]0;title�\tb��31m\n"


def test_a_reader_that_has_enough_is_no_error(environ: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            return descriptor

    with Path("/dev/null").open("w", encoding="utf-8") as spare:
        descriptor = spare.fileno()
        environ.setattr(sys, "stdout", Gone())
        with proxy_with(reply(b"page")) as proxy:
            assert run("fetch", URL, proxy=proxy, environ=environ) == 0


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (Code.BAD_URL, Exit.USAGE),
        (Code.SCHEME_REFUSED, Exit.REFUSED),
        (Code.NOT_ALLOWED, Exit.REFUSED),
        (Code.NOT_PUBLIC, Exit.REFUSED),
        (Code.PROXY_REFUSED, Exit.REFUSED),
        (Code.DOWNGRADE_REFUSED, Exit.REFUSED),
        (Code.TYPE_REFUSED, Exit.NOT_READ),
        (Code.REDIRECT_LIMIT, Exit.NOT_READ),
        (Code.REDIRECT_LOOP, Exit.NOT_READ),
        (Code.RESOLVE_FAILED, Exit.FAILED),
        (Code.CONNECTION_FAILED, Exit.FAILED),
        (Code.TLS_FAILED, Exit.FAILED),
        (Code.TIMED_OUT, Exit.FAILED),
        (Code.SITE_BROKE_HTTP, Exit.FAILED),
        (Code.TRUST_STORE, Exit.FAILED),
        (Code.PROXY_FAILED, Exit.PROXY),
    ],
)
def test_each_kind_of_stop_has_its_exit_code(code: Code, expected: Exit) -> None:
    assert exit_code(Stop(code=code, by=By.CLIENT, url=URL)) is expected


def test_a_bad_url_that_a_site_gave_is_not_wrong_usage() -> None:
    assert exit_code(Stop(code=Code.BAD_URL, by=By.CLIENT, url="x", chain=(URL,))) is Exit.FAILED


def test_ctrl_c_exits_with_130(environ: pytest.MonkeyPatch) -> None:
    def interrupt(*unused: object) -> None:
        raise KeyboardInterrupt

    environ.setattr("oz0_web.cli._run", interrupt)
    with proxy_with(b"") as proxy:
        assert run("fetch", URL, proxy=proxy, environ=environ) == 130


@pytest.mark.slow
def test_neither_parser_nor_schema_library_is_loaded_before_the_first_byte_leaves() -> None:
    heavy = {
        "turbohtml",
        "html5lib",
        "bs4",
        "markdownify",
        "pydantic",
        "asyncio",
        "email",
        "http.client",
        "urllib.request",
    }
    modules = "oz0_web.cli, oz0_web.tools, oz0_web.facades.oz0, trio"
    program = f"import sys, {modules}; print([name for name in sys.argv[1:] if name in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", program, *sorted(heavy)], capture_output=True, text=True, check=True, timeout=30
    )

    assert done.stdout == "[]\n"


@pytest.mark.slow
@pytest.mark.case("H21")
@pytest.mark.parametrize("target", [URL, "http://a.example/", "https://b.example/"])
def test_a_fetch_looks_nothing_up_and_connects_to_nothing_but_the_proxy(target: str, trusted: str) -> None:
    with proxy_with(reply(b"page")) as proxy:
        proxy.routes["http://a.example/"] = reply(b"page")
        done = run_command(
            "fetch",
            target,
            environ={
                "OZ0_WEB_PROXY": proxy.url,
                "SSL_CERT_FILE": trusted,
                "PYTHONPATH": str(AUDIT_FOLDER),
                "AUDIT_ALLOW": proxy.url,
            },
        )

    assert "audit:" not in done.err
    assert done.code == (3 if "b.example" in target else 0)
