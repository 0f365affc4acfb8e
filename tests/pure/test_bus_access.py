"""Who a NATS server lets in, by what it is trusted, and what is said where that fails."""

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import identities
import nats
import pytest
from buses import Pretender, pretended, served, served_as

from bench.nats_server import NatsServer
from howdah import HowdahError
from howdah.cli import app
from howdah.control.bus import Access, Unreachable
from howdah.control.bus.access import login
from howdah.control.bus.jetstream import JetStreamBus
from howdah.control.bus.leadership import stand

DOCUMENT = Path(__file__).parents[2] / "docs" / "bus.md"


def put(url: str, access: Access | None = None, key: str = "key") -> None:
    """One whole use of the bus."""

    async def main() -> None:
        async with await JetStreamBus.connect(url, access, wait_s=2) as bus:
            await bus.put(key, b"value")

    asyncio.run(main())


def as_user(user: str, password: str, ca: Path | None = None) -> Access:
    return Access(user=user, password=password, ca=ca)


def with_token(token: str) -> Access:
    return Access(token=token)


@contextmanager
def refused(words: str, kind: type[HowdahError] = HowdahError) -> Iterator[None]:
    with pytest.raises(kind, match=words) as refusal:
        yield
    assert isinstance(refusal.value, Unreachable) == (kind is Unreachable)
    assert "\n" not in str(refusal.value)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> identities.Certificates:
    return identities.certificates(tmp_path_factory.mktemp("certificates"))


def test_user_and_password() -> None:
    with served({"authorization": {"users": [{"user": "agent", "password": "right"}]}}) as server:
        put(server.url, as_user("agent", "right"))
        put(server.url.replace("//", "//agent:right@"))
        with refused("refuses user agent: Authorization Violation"):
            put(server.url, as_user("agent", "wrong"))
        with refused("refuses no credentials: Authorization Violation"):
            put(server.url)
        with pytest.raises(HowdahError) as refusal:
            put(server.url.replace("//", "//agent:hidden@"))
        assert "hidden" not in str(refusal.value)


def test_who_is_no_longer_let_in_is_told_so_while_watching() -> None:
    async def main(server: NatsServer) -> None:
        async with (
            await JetStreamBus.connect(server.url, as_user("agent", "right")) as bus,
            bus.watch() as changes,
        ):
            configuration = server.folder / "nats.conf"
            configuration.write_text(configuration.read_text().replace("right", "another"))
            os.kill(server.pid or 0, signal.SIGHUP)
            with refused("refuses user agent: authorization failed"):
                async with asyncio.timeout(10):
                    await anext(changes)
            with refused("refuses user agent: authorization failed"):
                await bus.put("key", b"")

    with served({"authorization": {"users": [{"user": "agent", "password": "right"}]}}) as server:
        asyncio.run(main(server))


def test_token() -> None:
    with served({"authorization": {"token": "right"}}) as server:
        put(server.url, with_token("right"))
        with refused("refuses a token: Authorization Violation"):
            put(server.url, with_token("wrong"))


def test_nkey(tmp_path: Path) -> None:
    one, other = identities.user(), identities.user()
    for identity, name in ((one, "one"), (other, "other")):
        (tmp_path / name).write_text(identity.seed + "\n")
    with served({"authorization": {"users": [{"nkey": one.public}]}}) as server:
        put(server.url, Access(nkey=tmp_path / "one"))
        with refused(f"refuses the nkey of {tmp_path}/other: Authorization Violation"):
            put(server.url, Access(nkey=tmp_path / "other"))


def test_credentials_file(tmp_path: Path) -> None:
    settings = identities.account(tmp_path / "right.creds")
    identities.account(tmp_path / "other.creds")
    with served(settings) as server:
        put(server.url, Access(credentials=tmp_path / "right.creds"))
        with refused(f"refuses the credentials of {tmp_path}/other.creds: Authorization Violation"):
            put(server.url, Access(credentials=tmp_path / "other.creds"))


def test_a_file_with_user_and_password(tmp_path: Path) -> None:
    file = tmp_path / "login"
    file.touch(mode=0o600)
    file.write_text("agent:ri:ght\n")
    assert login(file) == ("agent", "ri:ght")
    file.chmod(0o640)
    with refused("others may read the password: chmod 600"):
        login(file)
    for text in (b"", b"agent", b"agent:", b"two\nlines:x", b"agent:\xff"):
        file.write_bytes(text)
        with refused("contains no USER:PASSWORD"):
            login(file)
    with refused("cannot read .*no: No such file"):
        login(tmp_path / "no")


def test_a_password_among_the_arguments_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "nats://agent:secret@127.0.0.1:4222"
    words = ["control", "agent", f"--controller={url}", "--host=base20"]
    monkeypatch.setattr("sys.argv", ["howdah", *words])
    with refused("every user of this host can read"):
        app.main(words)


def test_nobody_reads_what_another_one_is_told() -> None:
    def may(name: str) -> dict[str, Any]:
        return {"publish": ["$KV.howdah.>", "$JS.API.>"], "subscribe": [f"_INBOX_{name}.>"]}

    users = [{"user": name, "password": "p", "permissions": may(name)} for name in ("a", "b")]
    with served({"authorization": {"users": users}}) as server:
        own = as_user("a", "p")
        put(server.url, replace(own, inbox="_INBOX_a"))
        with refused(".", Unreachable):
            put(server.url, replace(own, inbox="_INBOX_b"))

        async def listen(subject: str, within_s: float) -> str | None:
            """What the server says to it; its word comes to the client in a task of its own."""
            said: asyncio.Future[str] = asyncio.get_running_loop().create_future()

            async def erred(error: Exception) -> None:
                said.set_result(str(error))

            client = await nats.connect(server.url.replace("//", "//a:p@"), error_cb=erred)
            await client.subscribe(subject)
            await client.flush()
            await asyncio.wait([said], timeout=within_s)
            await client.close()
            return said.result() if said.done() else None

        assert asyncio.run(listen("_INBOX_a.x", 0.5)) is None
        for closed in ("_INBOX_b.>", "_INBOX.>", ">"):
            assert "permissions violation" in str(asyncio.run(listen(closed, 20))).lower()


def test_a_key_one_may_not_write_is_named() -> None:
    one = {"user": "a", "password": "p", "permissions": {"publish": ["$JS.API.>", "$KV.howdah.report.a"]}}
    with served({"authorization": {"users": [one]}}) as server:
        put(server.url, as_user("a", "p"), key="report.a")
        with refused(r"does not let user a write to \$KV.howdah.grant.a; its permissions say who may"):
            put(server.url, as_user("a", "p"), key="grant.a")


def test_the_documented_server_lets_agents_and_controllers_do_their_own(
    ours: identities.Certificates, tmp_path: Path
) -> None:
    (documented,) = re.findall(r"^```nats\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    configuration = (
        documented.replace("/etc/nats/server.pem", str(ours.certificate))
        .replace("/etc/nats/server.key", str(ours.key))
        .replace("/var/lib/nats", str(tmp_path))
        .replace("0.0.0.0:4222", "127.0.0.1:-1")
    )
    agent, controller = (
        Access(user=user, password=password, ca=ours.ca, inbox=f"_INBOX_{user}")
        for user, password in (("base22", "change-me-2"), ("controller", "change-me-1"))
    )

    async def main(url: str) -> None:
        with refused("there is no bucket howdah at .* yet, and only a controller may make it", Unreachable):
            await JetStreamBus.connect(url, agent)
        async with (
            await JetStreamBus.connect(url, controller) as leading,
            await JetStreamBus.connect(url, agent) as bus,
            bus.watch("grant.") as grants,
            stand(leading, "control", ttl_s=1.0) as leadership,
        ):
            await leadership.won()
            await leading.put("grant.base22", b"", ttl_s=2)
            assert (await anext(grants)).key == "grant.base22"
            await bus.put("report.base22", b"")
            assert await leading.get("report.base22") and await bus.get("grant.base22")
            for key in ("grant.base22", "report.base23", "leader.control"):
                with refused(r"does not let user base22 write to"):
                    await bus.put(key, b"")

    with served_as(configuration, tmp_path) as url:
        asyncio.run(main(url))


def test_tls_to_a_server_of_a_ca_that_is_named(ours: identities.Certificates) -> None:
    with served({"tls": {"cert_file": str(ours.certificate), "key_file": str(ours.key)}}) as server:
        put(server.url, Access(ca=ours.ca))
        put(server.url.replace("tls:", "nats:"), Access(ca=ours.ca))
        with refused("the certificate of the NATS server at .* is not trusted .*; name the CA that signed"):
            put(server.url)


def test_a_client_shows_its_certificate(ours: identities.Certificates, tmp_path: Path) -> None:
    tls = {
        "cert_file": str(ours.certificate),
        "key_file": str(ours.key),
        "ca_file": str(ours.ca),
        "verify": True,
    }
    theirs = identities.certificates(tmp_path)
    with served({"tls": tls}) as server:
        put(server.url, Access(ca=ours.ca, certificate=ours.certificate, key=ours.key))
        with refused("no TLS with the NATS server at .*; does it ask for a client's certificate?"):
            put(server.url, Access(ca=ours.ca))
        with refused("no TLS with the NATS server at .*"):
            put(server.url, Access(ca=ours.ca, certificate=theirs.certificate, key=theirs.key))


@pytest.mark.parametrize("scheme", ["nats", "tls"])
def test_no_secret_is_told_to_a_server_without_tls_where_tls_is_wanted(
    ours: identities.Certificates, scheme: str
) -> None:
    async def main() -> bytes:
        pretender = Pretender(auth_required=True)
        async with pretended(pretender) as address:
            access = as_user("agent", "secret", ca=ours.ca if scheme == "nats" else None)
            with refused("does not offer TLS; turn it on there, or use nats:// without certificates"):
                await JetStreamBus.connect(f"{scheme}://{address}", access, wait_s=2)
        return pretender.heard

    assert asyncio.run(main()) == b""


def test_a_server_too_old_is_refused() -> None:
    async def main() -> None:
        async with pretended(Pretender(version="2.10.26")) as address:
            await JetStreamBus.connect(f"nats://{address}", wait_s=2)

    with refused(r"is version 2\.10\.26, whose values cannot expire; it must be 2\.11\.1 or later"):
        asyncio.run(main())


def test_a_server_without_jetstream_is_said_to_have_none() -> None:
    with served({"jetstream": False}) as server, refused("has no JetStream at present", Unreachable):
        put(server.url)


def test_a_bucket_made_otherwise_is_refused() -> None:
    async def main(url: str) -> None:
        async with await nats.connect(url) as client:
            await client.jetstream().add_stream(name="KV_howdah", subjects=["$KV.howdah.>"])

    with served() as server:
        asyncio.run(main(server.url))
        with refused("the bucket howdah at .* was made without time to live for its values"):
            put(server.url)


def test_a_full_server_is_said_to_be_full(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with await JetStreamBus.connect(url) as bus:
            for number in range(10):
                await bus.put(f"key{number}", bytes(400_000))

    small = {"store_dir": str(tmp_path), "max_file_store": 1_000_000}
    with served({"jetstream": small}) as server, refused("has no room left"):
        asyncio.run(main(server.url))


def test_nobody_there_and_nobody_answering() -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(hold, "127.0.0.1", 0) as silent:
            host, port = silent.sockets[0].getsockname()
            with refused("cannot be reached: no answer", Unreachable):
                await JetStreamBus.connect(f"nats://{host}:{port}", wait_s=0.3)
        with refused("cannot be reached: Connect call failed .*; does it run", Unreachable):
            await JetStreamBus.connect(f"nats://{host}:{port}", wait_s=0.3)

    asyncio.run(main())


def test_the_second_of_two_servers_is_taken_when_the_first_is_away() -> None:
    with served() as server:
        put(f"nats://127.0.0.1:1, {server.url}")


@pytest.mark.parametrize(
    "address", ["", "here:4222", "http://here", "nats://", "nats://a/b", "nats://a,,nats://b"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with refused("is not the address of a NATS server; give nats://HOST:PORT"):
        put(address)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"user": "a"}, "give both a user and a password"),
        ({"user": "a", "password": "b", "token": "c"}, "give one of"),
        ({"key": Path("/k")}, "the key /k needs the certificate it belongs to"),
        ({"ca": Path("/none")}, "cannot read /none: No such file or directory"),
        ({"nkey": Path(__file__)}, "test_bus_access.py contains no seed of a user's nkey"),
        ({"credentials": Path(__file__)}, "test_bus_access.py contains no credentials as nsc writes them"),
        ({"ca": Path(__file__)}, "test_bus_access.py contains no certificates or keys in PEM"),
    ],
)
def test_access_that_does_not_go_together_is_refused(given: dict[str, Any], words: str) -> None:
    with refused(re.escape(words)):
        Access(**given)


def test_a_certificate_without_its_key_is_refused(ours: identities.Certificates) -> None:
    with refused("certificates or keys in .* cannot be used"):
        Access(ca=ours.ca, certificate=ours.certificate).read()


def test_secrets_do_not_show() -> None:
    assert "hidden" not in repr(as_user("a", "hidden"))
    assert "hidden" not in repr(with_token("hidden"))
