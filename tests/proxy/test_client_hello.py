"""What a tunnel's first bytes say about the server's name, and whether the tunnel may go on with them."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from egress_policy.names import HostName
from egress_policy.reasons import End
from egressd.client_hello import (
    NEED_MORE,
    NOT_TLS,
    Answer,
    BadHello,
    Hello,
    HelloReader,
    NeedMore,
    Pass,
    judge_hello,
    read_client_hello,
    read_server_name,
)
from egressd.limits import CLIENT_HELLO_MAX_BYTES
from support.corpora import corpus_json
from support.grants import target
from support.hellos import (
    ECH,
    Listener,
    Vector,
    body,
    extension,
    feed_in_pieces,
    hello,
    message,
    name_list,
    named,
    names_in,
    openssl_says,
    openssl_sees,
    records,
    vectors,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VECTORS = vectors()
NAME = HostName("a.example.com")
GOOD = Hello(NAME, has_ech=False)
# Names that a hello cannot have by our grammar, but that OpenSSL hands to its application.
LENIENT = {"final dot", "IPv4 literal", "IPv6 literal", "hexadecimal IPv4", "name with a port", "wildcard"}
LENIENT |= {"empty label", "name of 254", "empty name"}


def told(answer: Answer) -> str:
    """An answer in the words of the vectors."""
    if isinstance(answer, Hello):
        return answer.server_name.text if answer.server_name is not None else "no name"
    return answer.end.value if isinstance(answer, BadHello) else answer.value


def read(data: bytes, *sizes: int) -> Answer:
    return feed_in_pieces(HelloReader(), data, sizes)[0]


# ---------------------------------------------------------------------------------------------- the reader


@pytest.mark.case("D1", "E6", "E7", "E13")
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_a_vector_is_read_as_it_says(vector: Vector) -> None:
    assert told(read(vector.data)) == vector.answer, vector.why


def test_vectors_have_names_of_their_own() -> None:
    assert max(Counter(vector.name for vector in VECTORS).values()) == 1


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_a_vector_is_read_alike_in_every_split(vector: Vector) -> None:
    for size in (1, 2, 3, 5, 7, 64):
        assert told(read(vector.data, *[size] * len(vector.data))) == vector.answer
    for cut in range(1, len(vector.data)):
        assert told(read(vector.data, cut)) == vector.answer


@pytest.mark.case("E7")
def test_case_e7_a_hello_in_records_of_every_size_is_one_hello() -> None:
    whole = message(body(named(b"a.example.com")))

    for size in range(1, len(whole) + 1):
        data = records(whole, [size] * len(whole))
        assert read(data) == read(data, *[1] * len(data)) == GOOD


@pytest.mark.case("E7")
def test_case_e7_the_outer_name_of_an_encrypted_hello_is_the_name() -> None:
    assert read(hello(b"a.example.com", extension(ECH, b"\0" + bytes(60)))) == Hello(NAME, has_ech=True)


@pytest.mark.parametrize(
    ("data", "settled"),
    [
        (b"GET / HTTP/1.1\r\n", 1),
        (b"\x16\x10rest", 2),
        (b"\x14\x02rest", 2),
        (b"\x15\x03rest", 2),
        (b"\x15\x02\x00\x00\x03rest", 5),
        (b"\x16\x02\x00\x00\x09\x02rest", 6),
        (b"\x16\x03\x01\x40\x01rest", 5),
        (b"\x16\x03\x01\x00\x00rest", 5),
        (b"\x16\x03\x01\x00\x09\x02rest", 6),
        (b"\x16\x03\x01\x40\x00\x01\xff\xff\xffrest", 9),
    ],
)
def test_an_answer_comes_with_the_first_byte_that_settles_it(data: bytes, settled: int) -> None:
    answer, fed = feed_in_pieces(HelloReader(), data, [1] * len(data))

    assert fed == settled
    assert answer is not NEED_MORE
    assert answer == read(data)


def test_a_good_hello_is_told_with_its_last_byte() -> None:
    data = hello()

    assert read(data[:-1]) is NEED_MORE
    assert read(data) == GOOD


@pytest.mark.case("E2")
def test_case_e2_every_byte_is_kept_for_the_origin_in_its_order() -> None:
    data = hello() + b"what comes early"
    reader = HelloReader()

    assert reader.feed(data[:20]) is NEED_MORE
    assert reader.held == data[:20]
    assert reader.feed(data[20:]) == GOOD
    assert reader.held == data


def padded(length: int) -> bytes:
    """A hello whose one record has this many bytes, header included."""
    bare = len(hello(b"a.example.com", extension(21, b"")))
    data = hello(b"a.example.com", extension(21, bytes(length - bare)))
    assert len(data) == length
    return data


def test_a_hello_of_the_bound_is_read_and_one_byte_more_is_not() -> None:
    assert read(padded(CLIENT_HELLO_MAX_BYTES)) == GOOD
    assert told(read(padded(CLIENT_HELLO_MAX_BYTES + 1))) == End.SNI_MISSING.value


def test_headers_of_records_count_towards_the_bound() -> None:
    content = padded(CLIENT_HELLO_MAX_BYTES - 5)[5:]

    assert read(records(content, [5_000])) == GOOD
    assert told(read(records(content, [5_000, 5_000]))) == End.SNI_MISSING.value


def test_a_hello_that_stays_below_what_it_announces_ends_at_the_bound() -> None:
    data = records(message(bytes(16_000)), [1] * 16_004)

    answer, fed = feed_in_pieces(HelloReader(), data, [1] * len(data))

    assert told(answer) == End.SNI_MISSING.value
    assert fed == CLIENT_HELLO_MAX_BYTES


def test_another_bound_holds_as_well() -> None:
    data = hello()

    assert HelloReader(len(data)).feed(data) == GOOD
    assert told(HelloReader(len(data) - 1).feed(data)) == End.SNI_MISSING.value


def test_thousands_of_extensions_byte_by_byte_take_no_time() -> None:
    data = hello(b"a.example.com", *[extension(kind, b"") for kind in range(100, 4_000)])
    reader = HelloReader()
    began = time.process_time()

    answer, _ = feed_in_pieces(reader, data, [1] * len(data))

    assert answer == GOOD
    assert reader.examined <= 2 * len(data)
    assert time.process_time() - began < 1


def test_nothing_of_a_bad_name_is_shown() -> None:
    answer = read(hello(b"secret_token.\xff"))

    assert isinstance(answer, BadHello)
    assert "secret" not in answer.detail


# ---------------------------------------------------------------------------------------------- its parts


def test_a_body_may_have_any_version() -> None:
    for version in (b"\0\0", b"\2\0", b"\3\4", b"\xff\xff"):
        assert read_client_hello(body(named(b"a.example.com"), version=version)) == GOOD


@pytest.mark.parametrize("length", [0, 1, 32])
def test_a_session_id_may_have_up_to_32_bytes(length: int) -> None:
    assert read_client_hello(body(named(b"a.example.com"), session_id=bytes(length))) == GOOD


def test_a_body_that_is_cut_anywhere_has_no_name() -> None:
    whole = body(named(b"a.example.com"))
    without = len(body(None))

    for cut in range(len(whole)):
        answer = read_client_hello(whole[:cut])
        assert answer == Hello(None, has_ech=False) if cut == without else isinstance(answer, BadHello)


def test_a_name_of_253_characters_is_read() -> None:
    name = b".".join([b"a" * 63, b"b" * 63, b"c" * 63, b"d" * 61])

    assert read_server_name(name_list(name)) == HostName(name.decode("ascii"))
    assert isinstance(read_server_name(name_list(name + b"d")), BadHello)


@pytest.mark.parametrize("byte", [byte for byte in range(256) if not chr(byte).isalnum() or byte > 127])
def test_an_odd_byte_is_in_no_name(byte: int) -> None:
    answer = read_server_name(name_list(b"a" + bytes([byte]) + b"b.example"))

    assert isinstance(answer, HostName) if byte in b"-._" else isinstance(answer, BadHello)


# ---------------------------------------------------------------------------------------------- the judgement


def judged(result: Answer | None, authority: str = "a.example.com:443", mode: str = "enforce") -> Pass | End | NeedMore:
    asked = target(authority)
    return judge_hello(result, asked, mode=mode, port=asked.port)


OTHER = Hello(HostName("b.example.com"), has_ech=False)
NAMELESS = Hello(None, has_ech=False)
BAD = BadHello(End.NOT_TLS, "broken")
BAD_NAME = BadHello(End.SNI_MISMATCH, "no name")
# The result, and what it means on 443 and on any other port under `enforce`.
RULES: list[tuple[Answer | None, Pass | End | NeedMore, Pass | End | NeedMore]] = [
    (GOOD, Pass(), Pass()),
    (Hello(NAME, has_ech=True), Pass(), Pass()),
    (OTHER, End.SNI_MISMATCH, End.SNI_MISMATCH),
    (Hello(HostName("example.com"), has_ech=False), End.SNI_MISMATCH, End.SNI_MISMATCH),
    (Hello(HostName("x.a.example.com"), has_ech=True), End.SNI_MISMATCH, End.SNI_MISMATCH),
    (NAMELESS, End.SNI_MISSING, End.SNI_MISSING),
    (BAD, End.NOT_TLS, End.NOT_TLS),
    (BAD_NAME, End.SNI_MISMATCH, End.SNI_MISMATCH),
    (NOT_TLS, End.NOT_TLS, Pass()),
    (NEED_MORE, End.HELLO_TIMEOUT, End.HELLO_TIMEOUT),
    (None, End.HELLO_TIMEOUT, NEED_MORE),
]


@pytest.mark.case("E6", "E8", "E12")
@pytest.mark.parametrize(("result", "on_443", "elsewhere"), RULES)
def test_case_e6_a_tunnel_to_a_name_carries_that_name(
    result: Answer | None, on_443: Pass | End | NeedMore, elsewhere: Pass | End | NeedMore
) -> None:
    assert judged(result) == on_443
    for port in (1, 22, 80, 442, 444, 8443, 65_535):
        assert judged(result, f"a.example.com:{port}") == elsewhere


@pytest.mark.parametrize(("result", "on_443", "elsewhere"), RULES)
def test_count_passes_and_says_what_it_would_have_been(
    result: Answer | None, on_443: Pass | End | NeedMore, elsewhere: Pass | End | NeedMore
) -> None:
    for expected, port in ((on_443, 443), (elsewhere, 8443)):
        counted = Pass(expected) if isinstance(expected, End) else expected
        assert judged(result, f"a.example.com:{port}", "count") == counted


@pytest.mark.parametrize("result", [row[0] for row in RULES])
def test_off_passes_everything_and_so_does_a_literal(result: Answer | None) -> None:
    assert judged(result, mode="off") == Pass()
    for literal in ("192.0.2.1:443", "[2001:db8::1]:443", "192.0.2.1:8443"):
        for mode in ("enforce", "count", "off"):
            assert judged(result, literal, mode) == Pass()


def test_a_mode_that_is_none_enforces() -> None:
    assert judged(OTHER, mode="of") is End.SNI_MISMATCH


@pytest.mark.case("D3", "E6")
@pytest.mark.parametrize("authority", ["A.Example.com:443", "a.example.com.:443"])
def test_case_d3_the_spelling_of_the_connect_name_does_not_matter(authority: str) -> None:
    assert judged(read(hello(b"a.example.COM")), authority) == Pass()


@pytest.mark.case("E12")
def test_case_e12_a_record_that_was_begun_elsewhere_than_on_443_cannot_wait_the_check_out() -> None:
    assert judged(read(hello()[:1]), "a.example.com:8443") is End.HELLO_TIMEOUT


@pytest.mark.case("E13")
def test_case_e13_a_connect_inside_a_tunnel_is_no_tls() -> None:
    inner = read(b"CONNECT b.example.com:443 HTTP/1.1\r\n\r\n")

    assert judged(inner) is End.NOT_TLS
    assert judged(inner, "a.example.com:8443") == Pass()


# ---------------------------------------------------------------------------------------------- other readers


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a name beyond ASCII in its callback
def test_no_hello_that_openssl_reads_a_name_from_passes_with_another(vector: Vector) -> None:
    answer = read(vector.data)
    seen = openssl_sees(vector.data)

    if isinstance(answer, Hello):
        name = answer.server_name.text if answer.server_name is not None else None
        assert [each.lower() if each is not None else None for each in seen] in ([name], [])
    elif seen:
        assert isinstance(answer, BadHello)
    if isinstance(answer, BadHello) and answer.end is End.SNI_MISMATCH and seen:
        assert vector.name in LENIENT


# The corpus calls four rows good whose message is two bytes shorter by its own length than what is in it (a reader
# that looks at the record's length alone does not see it), and the same bytes once more bad. OpenSSL refuses all four.
CORPUS_SHORT = {"good_data_2", "good_data_3", "good_data_4", "bad_data_4"}
# And one bad only because its name is not the one that was asked for.
CORPUS_OTHER = {"bad_data_1": "lodalhost"}
CORPUS_REST = {
    "ssl30_request": "no name",
    "ssl20_client_hello": "not tls",
    "bad_data_2": "need more",
    "bad_data_3": "need more",
}


def test_the_corpus_is_read_by_the_message_and_not_by_the_record() -> None:
    for row in corpus_json("sniproxy-clienthello/clienthello.json"):
        data = bytes.fromhex(row["hex"])
        answer = read(data)
        if row["name"] in CORPUS_SHORT:
            assert told(answer) == End.NOT_TLS.value
            assert openssl_sees(data) == []
        elif row["name"] in CORPUS_OTHER:
            assert told(answer) == CORPUS_OTHER[row["name"]]
        else:
            assert told(answer) == CORPUS_REST.get(row["name"], row["sni"])
        if row["expect"] != "sni":
            assert judged(answer, "localhost:443") != Pass()


@pytest.mark.parametrize(
    "versions",
    [(), (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2), (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)],
    ids=["any", "1.2", "1.3"],
)
def test_pythons_own_hello_is_read(versions: tuple[ssl.TLSVersion, ...]) -> None:
    data = openssl_says("a.example.com", versions=versions)

    assert read(data) == read(data, *[1] * len(data)) == GOOD


def test_a_hello_without_a_name_is_told_from_pythons_client() -> None:
    assert read(openssl_says("192.0.2.1")) == NAMELESS  # it sends no literal, as RFC 6066 asks for


def curl(port: int, _: Path) -> list[str]:
    return ["curl", "-sk", "-m", "20", "-x", f"http://127.0.0.1:{port}", "https://a.example.com/"]


def wget(port: int, _: Path) -> list[str]:
    proxy = f"https_proxy=http://127.0.0.1:{port}"
    return ["wget", "-q", "-t", "1", "-T", "20", "-O", "/dev/null", "-e", proxy, "https://a.example.com/"]


def openssl(port: int, _: Path) -> list[str]:
    return ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-servername", "a.example.com"]


def node(port: int, _: Path) -> list[str]:
    options = f"{{host: '127.0.0.1', port: {port}, servername: 'a.example.com'}}"
    return ["node", "-e", f"require('tls').connect({options}).on('error', () => {{}})"]


JAVA = """
public class Speak {
    public static void main(String[] args) throws Exception {
        var plain = new java.net.Socket("127.0.0.1", Integer.parseInt(args[0]));
        var factory = (javax.net.ssl.SSLSocketFactory) javax.net.ssl.SSLSocketFactory.getDefault();
        try (var made = (javax.net.ssl.SSLSocket) factory.createSocket(plain, "a.example.com", 443, true)) {
            made.startHandshake();
        } catch (java.io.IOException gone) {
            System.exit(1);
        }
    }
}
"""


def java(port: int, folder: Path) -> list[str]:
    source = folder / "Speak.java"
    source.write_text(JAVA, encoding="ascii")
    return ["java", str(source), str(port)]


@pytest.mark.slow
@pytest.mark.parametrize("command", [curl, wget, openssl, node, java], ids=lambda command: command.__name__)
def test_the_hello_of_a_real_client_is_read(command: Callable[[int, Path], list[str]], tmp_path: Path) -> None:
    name = command.__name__
    if shutil.which(name) is None:
        pytest.skip(f"no {name} here")
    kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    with Listener() as listener:
        subprocess.run(
            command(listener.port, tmp_path),
            env=kept,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )

    [data] = listener.taken
    assert read(data) == read(data, *[1] * len(data)) == GOOD
    assert names_in(data) == ["a.example.com"]
    assert openssl_sees(data) == ["a.example.com"]
