"""Who may do what over the control API: tokens, roles, other sites, other hosts, TLS."""

import itertools
import string
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from controlled import Controlled, controlled
from hypothesis import given
from hypothesis import strategies as st
from test_control_api import error, send

from howdah import HowdahError
from howdah.control.http import tokens
from howdah.control.http.address import Listening, is_loopback, open_socket, parse
from howdah.control.http.client import Client
from howdah.control.http.tokens import Token, Tokens

READ, READER = tokens.make("wall", "read")
OPERATE, OPERATOR = tokens.make("scheduler", "operate")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tokens") / "tokens.toml"
    file.write_text(READER + OPERATOR)
    return file


@pytest.fixture(scope="module")
def guarded(file: Path) -> Iterator[Controlled]:
    with controlled(Listening(address="127.0.0.1:0", tokens=file)) as here:
        yield here


@pytest.fixture(scope="module")
def unguarded() -> Iterator[Controlled]:
    with controlled() as here:
        yield here


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


@pytest.mark.parametrize("target", ["/v1/status", "/v1/watch", "/metrics", "/openapi.json"])
def test_nothing_is_read_without_a_token(guarded: Controlled, target: str) -> None:
    answer, said = send(guarded, "GET", target)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert "a token is needed" in error(said)


def test_the_page_itself_tells_nothing_and_is_open(guarded: Controlled) -> None:
    answer, said = send(guarded, "GET", "/")
    assert answer.status == 200
    assert b"lsst" not in said


@pytest.mark.parametrize(
    "sent",
    [
        {"Authorization": f"Bearer {READ}x"},
        {"Authorization": f"Bearer {READ[:-1]}"},
        {"Authorization": f"Basic {READ}"},
        {"Authorization": READ},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer ü"},
        {"Cookie": f"token={READ}"},
    ],
)
def test_what_is_no_good_token_is_refused(guarded: Controlled, sent: dict[str, str]) -> None:
    assert send(guarded, "GET", "/v1/status", **sent)[0].status == 401


def test_a_token_in_the_address_is_none(guarded: Controlled) -> None:
    assert send(guarded, "GET", f"/v1/status?token={READ}")[0].status == 401


CHANGES = [
    ("PUT", "/v1/asked/images/me"),
    ("DELETE", "/v1/asked/images/me"),
    ("PUT", "/v1/classes/background"),
    ("DELETE", "/v1/classes/background"),
    ("PUT", "/v1/drained/base23"),
    ("DELETE", "/v1/drained/base23"),
]


@pytest.mark.parametrize(("method", "target"), CHANGES)
def test_a_reader_reads_and_changes_nothing(guarded: Controlled, method: str, target: str) -> None:
    answer, said = send(guarded, method, target, Howdah_Client="test", **bearer(READ))
    assert answer.status == 403
    assert error(said) == "the token wall has the role read; this takes the role operate"
    status = Client(guarded.url, READ).status()
    assert not status.asked
    assert not status.changed
    assert not any(host.drained for host in status.hosts)


def test_an_operator_does_both(guarded: Controlled) -> None:
    client = Client(guarded.url, OPERATE)
    assert client.status().policy == "lsst"
    client.ask("images", "me")
    client.release("images", "me")


def test_the_caller_is_told_its_role(guarded: Controlled, unguarded: Controlled) -> None:
    roles = {secret: send(guarded, "GET", "/v1/status", **bearer(secret))[0] for secret in (READ, OPERATE)}
    assert {secret: answer.headers["Howdah-Role"] for secret, answer in roles.items()} == {
        READ: "read",
        OPERATE: "operate",
    }
    assert send(unguarded, "GET", "/v1/status")[0].headers["Howdah-Role"] == "operate"


def test_the_client_says_where_a_token_goes(guarded: Controlled, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HowdahError, match=r"a token is needed.*; give one in HOWDAH_CONTROL_TOKEN"):
        Client(guarded.url).status()
    with pytest.raises(HowdahError, match="the token is not known here; give one in HOWDAH_CONTROL_TOKEN"):
        Client(guarded.url, "howdah_wrong").status()
    with pytest.raises(HowdahError, match="the token wall has the role read"):
        Client(guarded.url, READ).drain("base23")
    monkeypatch.setenv("HOWDAH_CONTROL", guarded.url)
    monkeypatch.setenv("HOWDAH_CONTROL_TOKEN", READ)
    assert Client().status().policy == "lsst"


@pytest.mark.parametrize(("method", "target"), CHANGES)
@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"Howdah_Client": ""},
        {"Howdah_Client": "x", "Origin": "https://elsewhere.example"},
        {"Howdah_Client": "x", "Origin": "null"},
        {"Howdah_Client": "x", "Origin": "http://127.0.0.1:1"},
        {"Howdah_Client": "x", "Sec_Fetch_Site": "cross-site"},
        {"Howdah_Client": "x", "Sec_Fetch_Site": "same-site"},
        {"Howdah_Client": "x", "Origin": "http://["},
        {"Howdah_Client": "x", "Host": "["},
        {"Howdah_Client": "x", "Host": "elsewhere.example"},
        {"Howdah_Client": "x", "Host": "127.0.0.1.elsewhere.example:7310"},
    ],
)
def test_another_site_changes_nothing(
    unguarded: Controlled, method: str, target: str, sent: dict[str, str]
) -> None:
    answer, said = send(unguarded, method, target, **sent)
    assert answer.status == 403, said
    assert error(said)
    assert not Client(unguarded.url).status().asked


def test_another_site_reads_nothing(unguarded: Controlled) -> None:
    for sent in ({"Host": "elsewhere.example"}, {"Origin": "https://elsewhere.example"}):
        assert send(unguarded, "GET", "/v1/status", **sent)[0].status == 403
    assert send(unguarded, "GET", "/", Host="elsewhere.example")[0].status == 403


def test_our_own_page_may(unguarded: Controlled) -> None:
    host = unguarded.url.removeprefix("http://")
    for sent in (
        {"Origin": unguarded.url},
        {"Sec_Fetch_Site": "same-origin", "Host": f"localhost:{host[-5:]}"},
    ):
        answer, said = send(unguarded, "PUT", "/v1/asked/images/me", Howdah_Client="page", **sent)
        assert answer.status == 200, said
    Client(unguarded.url).release("images", "me")


def test_behind_another_name_tokens_are_enough(guarded: Controlled) -> None:
    answer, _ = send(guarded, "GET", "/v1/status", Host="control.example", **bearer(READ))
    assert answer.status == 200


@given(st.text(alphabet=string.printable, max_size=60))
def test_no_text_but_the_token_is_the_token(text: str) -> None:
    known = Tokens([Token("one", "read", sha256(READ.encode()).hexdigest())])
    assert known.find(text) is None
    found = known.find(READ)
    assert found is not None
    assert found.name == "one"


def test_the_file_does_not_hold_the_secret(file: Path) -> None:
    assert READ not in file.read_text()
    assert tokens.make("wall", "read")[0] != READ
    assert tokens.load(file).find(OPERATE) == Token("scheduler", "operate", OPERATOR.split('"')[5])


GOOD = OPERATOR.split('"')[5]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "no token"),
        ("[[token]\n", "is not TOML"),
        (f'[[token]]\nname = "a"\nsha256 = "{GOOD}"', "token 1: the key role is missing"),
        (
            f'[[token]]\nname = "a"\nrole = "root"\nsha256 = "{GOOD}"',
            "token 1: role: 'root' is unknown; give read or operate",
        ),
        (
            f'[[token]]\nname = "a"\nrole = "read"\nsha256 = "{GOOD}"\nx = 1',
            "token 1: unknown key x; known are name, role, sha256",
        ),
        (f'[[token]]\nname = "a b"\nrole = "read"\nsha256 = "{GOOD}"', "token 1: name 'a b'"),
        (
            '[[token]]\nname = "a"\nrole = "read"\nsha256 = "12"',
            "token 1 (a): sha256 is not 64 hexadecimal digits",
        ),
        (
            READER + READER.replace("wall", "other"),
            "token 2 (other): an earlier token has the same name or sha256",
        ),
        (
            READER + OPERATOR.replace("scheduler", "wall"),
            "token 2 (wall): an earlier token has the same name",
        ),
    ],
    # Secrets differ from process to process, and the names of tests must not.
    ids=itertools.count(),
)
def test_a_wrong_file_is_refused_before_anything_listens(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    with pytest.raises(HowdahError) as caught:
        tokens.load(file)
    assert line in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("address", ["[::]:0", "192.0.2.1:0", "localhost.example:0"])
def test_others_are_not_let_in_by_mistake(address: str, file: Path) -> None:
    with pytest.raises(HowdahError, match="can be reached from other hosts: name a file of tokens"):
        open_socket(Listening(address=address))
    with pytest.raises(HowdahError, match="tokens would travel in the clear"):
        open_socket(Listening(address=address, tokens=file))


def test_where_something_else_encrypts_tokens_are_enough(file: Path) -> None:
    open_socket(Listening(address="[::]:0", tokens=file, plain=True)).close()


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "howdah.control.http.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with (
        pytest.raises(HowdahError, match=r"needs Starlette and uvicorn; .*pip install 'WHEEL\[control\]'"),
        controlled(),
    ):
        pass


def test_an_address_in_use_is_said_plainly() -> None:
    with open_socket(Listening(address="127.0.0.1:0")) as first:
        port = first.getsockname()[1]
        with pytest.raises(HowdahError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            open_socket(Listening(address=f"127.0.0.1:{port}"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("control", ("control", 7310)),
        ("[::1]:80", ("::1", 80)),
        ("[::1]", ("::1", 7310)),
        ("::1", ("::1", 7310)),
    ],
)
def test_addresses(text: str, place: tuple[str, int]) -> None:
    assert parse(text) == place


@pytest.mark.parametrize("text", ["", ":80", "host:", "host:x", "host:65536", "host:-1", "host:²"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(HowdahError, match="is not an address: give HOST:PORT"):
        parse(text)


@pytest.mark.parametrize(
    ("host", "its_own"),
    [("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.1", False),
     ("::", False), ("10.0.0.1", False), ("localhost.example", False), ("", False)],
)  # fmt: skip
def test_what_only_this_host_reaches(host: str, its_own: bool) -> None:
    assert is_loopback(host) is its_own


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    pair = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-out", pair[0], "-keyout", pair[1]),
        ],
        check=True,
        capture_output=True,
    )
    return pair


def test_over_tls(certificate: tuple[Path, Path], file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = certificate
    wanted = Listening(address="127.0.0.1:0", tokens=file, certificate=cert, key=key)
    with controlled(wanted) as here:
        assert here.url.startswith("https://")
        with pytest.raises(HowdahError, match=r"is not trusted here: .*; name its issuer's in SSL_CERT_FILE"):
            Client(here.url, READ).status()
        with pytest.raises(HowdahError, match="no controller"):
            Client(here.url.replace("https", "http"), READ).status()
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert Client(here.url, READ).status().policy == "lsst"
        assert next(Client(here.url, READ).watch()).policy == "lsst"


def test_a_certificate_that_cannot_be_used_is_refused(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    nothing = tmp_path / "nothing.pem"
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("rubbish")
    for wrong, line in (
        (Listening(certificate=cert), "both a certificate and its key"),
        (Listening(certificate=cert, key=nothing), f"cannot read {nothing}"),
        (Listening(certificate=cert, key=rubbish), "must be a certificate and its key"),
        (Listening(certificate=key, key=cert), "must be a certificate and its key"),
    ):
        with pytest.raises(HowdahError, match=line):
            open_socket(wrong)


def test_a_key_with_a_passphrase_is_refused_unasked(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    locked = tmp_path / "locked.pem"
    subprocess.run(
        ["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:word", "-out", locked],
        check=True,
        capture_output=True,
    )
    with pytest.raises(HowdahError, match="without a passphrase"):
        open_socket(Listening(certificate=cert, key=locked))
