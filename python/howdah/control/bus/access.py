"""The login to a NATS server, and the check that the server is the right one."""

import importlib
import re
import ssl
import stat
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from howdah import HowdahError


@dataclass(frozen=True, kw_only=True)
class Access:
    """One way to log in, or none, and what TLS needs. Raises HowdahError for what does not go together."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    nkey: Path | None = None
    """A file with the seed of an nkey, as nk(1) writes it."""
    credentials: Path | None = None
    """A file with a JWT and the seed of its nkey, as nsc(1) writes it."""
    ca: Path | None = None
    """Certificates to trust the server by, PEM; null: those of this host."""
    certificate: Path | None = None
    """The certificate of this client, for servers that ask for one, PEM."""
    key: Path | None = None
    """The private key of the certificate, PEM; null: it is in the same file."""
    inbox: str = "_INBOX"
    """The beginning of the subjects of replies to this client, so that a server can keep others from them."""

    def __post_init__(self) -> None:
        if (self.user is None) != (self.password is None):
            raise HowdahError("NATS: give both a user and a password, or neither")
        ways = (self.user, self.token, self.nkey, self.credentials)
        if sum(way is not None for way in ways) > 1:
            raise HowdahError("NATS: give one of user and password, token, nkey and credentials, not several")
        if self.key is not None and self.certificate is None:
            raise HowdahError(f"NATS: the key {self.key} needs the certificate it belongs to")
        _check_file(self.nkey, "seed of a user's nkey", rb"\s*SU[A-Z2-7]{56}\s*")
        _check_file(self.credentials, "credentials as nsc writes them", rb"(?s).*JWT-----\s.*SEED-----\s.*")
        for file in (self.ca, self.certificate, self.key):
            _check_file(file, "certificates or keys in PEM", rb"(?s).*-----BEGIN .*")

    @property
    def wants_tls(self) -> bool:
        """Whether this login makes sense over TLS only."""
        return self.ca is not None or self.certificate is not None

    def read(self) -> None:
        """Reads every file now, so that a process can still log in when it has given up the privilege."""
        if self.nkey_seed or self.raw_credentials:
            importlib.import_module("nkeys")
        if self.wants_tls:
            _ = self.tls

    @cached_property
    def nkey_seed(self) -> str | None:
        """The content of the file of the nkey."""
        return None if self.nkey is None else self.nkey.read_text(encoding="ascii").strip()

    @cached_property
    def raw_credentials(self) -> str | None:
        """The content of the file of the credentials."""
        return None if self.credentials is None else self.credentials.read_text(encoding="utf-8")

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """The context that checks the server, and shows the client's certificate if there is one."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except ssl.SSLError as error:
            files = ", ".join(str(file) for file in (self.ca, self.certificate, self.key) if file)
            raise HowdahError(
                f"NATS: certificates or keys in {files} cannot be used: {error.reason}"
            ) from None
        return context

    def in_words(self) -> str:
        """The identity that is shown, without a secret."""
        if self.user is not None:
            return f"user {self.user}"
        if self.token is not None:
            return "a token"
        if self.nkey is not None:
            return f"the nkey of {self.nkey}"
        return f"the credentials of {self.credentials}" if self.credentials else "no credentials"


def login(file: Path) -> tuple[str, str]:
    """The user and the password in a file, as ``USER:PASSWORD``.

    Raises HowdahError when there are none, or when others than the owner may read the file.
    """
    _check_file(file, "USER:PASSWORD in one line", rb"[^:\s]+:[^\n]+\n?")
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & 0o077:
        raise HowdahError(
            f"NATS: {file} has mode {mode:o}, so others may read the password: chmod 600 {file}"
        )
    user, _, password = file.read_text(encoding="utf-8").rstrip("\n").partition(":")
    return user, password


def _check_file(file: Path | None, what: str, pattern: bytes) -> None:
    if file is None:
        return
    try:
        content = file.read_bytes()
    except OSError as error:
        raise HowdahError(f"NATS: cannot read {file}: {error.strerror}") from None
    if not re.fullmatch(pattern, content) or content != content.decode(errors="ignore").encode():
        raise HowdahError(f"NATS: {file} contains no {what}")
