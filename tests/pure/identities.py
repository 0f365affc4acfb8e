"""Who one can be before a NATS server: certificates, nkeys, and the JWTs of operator, account and user."""

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import nkeys

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Certificates(NamedTuple):
    ca: Path
    certificate: Path
    key: Path


def certificates(folder: Path) -> Certificates:
    """A CA of its own, and a certificate by it for both ends on 127.0.0.1."""
    folder.mkdir(parents=True, exist_ok=True)
    ca, ca_key, certificate, key = (folder / name for name in ("ca.pem", "ca.key", "end.pem", "end.key"))
    _openssl("-subj", "/CN=ca", "-keyout", ca_key, "-out", ca)
    _openssl(
        *("-CA", ca, "-CAkey", ca_key, "-subj", "/CN=end", "-keyout", key, "-out", certificate),
        *("-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE"),
    )
    return Certificates(ca, certificate, key)


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", "req", "-x509", *_EC, *map(str, words)], check=True, capture_output=True)


class Identity:
    def __init__(self, prefix: int) -> None:
        self.seed = nkeys.encode_seed(os.urandom(32), prefix).decode()
        self._keys = nkeys.from_seed(self.seed.encode())
        self.public = self._keys.public_key.decode()

    def sign(self, other: "Identity", nats: dict[str, Any]) -> str:
        """A JWT that says what ``other`` is and may."""
        claims = {
            "iss": self.public,
            "sub": other.public,
            "iat": 1,
            "jti": "1",
            "nats": {"version": 2, **nats},
        }
        words = ".".join(_base64(json.dumps(part).encode()) for part in (_HEADER, claims))
        return f"{words}.{_base64(self._keys.sign(words.encode()))}"


_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_MOST = dict.fromkeys(("subs", "data", "payload"), -1)
_ACCOUNT = dict.fromkeys(
    ("imports", "exports", "conn", "leaf", "mem_storage", "disk_storage", "streams", "consumer"), -1
)


def user() -> Identity:
    return Identity(nkeys.PREFIX_BYTE_USER)


def account(credentials: Path) -> dict[str, Any]:
    """Writes the credentials of a user; returns the settings of a server that lets the user in."""
    operator, one = Identity(nkeys.PREFIX_BYTE_OPERATOR), user()
    account, system = Identity(nkeys.PREFIX_BYTE_ACCOUNT), Identity(nkeys.PREFIX_BYTE_ACCOUNT)
    limits = {**_MOST, **_ACCOUNT, "wildcards": True}
    jwt = account.sign(one, {"type": "user", **_MOST})
    credentials.write_text(
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{one.seed}\n------END USER NKEY SEED------\n"
    )
    return {
        "operator": operator.sign(operator, {"type": "operator"}),
        "resolver": "MEMORY",
        "resolver_preload": {
            account.public: operator.sign(account, {"type": "account", "limits": limits}),
            system.public: operator.sign(system, {"type": "account", "limits": {**_MOST, "conn": -1}}),
        },
        "system_account": system.public,
    }


def _base64(what: bytes) -> str:
    return base64.urlsafe_b64encode(what).decode().rstrip("=")
