"""What nats-py raises, in plain words: what was wrong, where, and what to do."""

import re
import ssl

import nats.errors
import nats.js.errors

from howdah import HowdahError
from howdah.control.bus.interface import Unreachable

NOT_FOUND = {10014, 10037, 10059}
"""JetStream's error codes where there is no such consumer, message or stream."""
NAME_IN_USE = {10058}
"""Likewise, for a stream that is there with another layout."""
OTHER_REVISION = {10071, 10164}
"""Likewise, for a subject whose last message is not the expected one."""
_FULL = {10023, 10047, 10077, 10122}
"""Likewise, for no room: in memory or on disk, in the account, in the stream."""
_DENIED = re.compile(r"permissions violation for \w+ to \"(?P<subject>[^\"]+)\"", re.IGNORECASE)
_LOGIN = re.compile("authorization|authentication", re.IGNORECASE)


class Refused(HowdahError):
    """JetStream's own refusal of a request."""

    def __init__(self, words: str, code: int | None) -> None:
        super().__init__(words)
        self.code = code


class Denied(HowdahError):
    """The permissions of the one who asks do not allow it."""


class NoStream(Unreachable):
    """No stream takes what was sent: it was never made, or was lost, or is not back yet."""


class Speaker:
    """Knows which server is meant and who is asking."""

    def __init__(self, where: str, who: str) -> None:
        self._server = f"the NATS server at {where}"
        self._who = who

    def of_connecting(self, error: Exception) -> HowdahError:
        """Why there is no connection: a refusal, or Unreachable."""
        if isinstance(error, nats.errors.SecureConnWantedError):
            return HowdahError(
                f"{self._server} does not offer TLS; turn it on there, or use nats:// without certificates"
            )
        if isinstance(error, ssl.SSLCertVerificationError):
            return HowdahError(
                f"the certificate of {self._server} is not to be trusted ({error.verify_message}); "
                "name the CA that signed it"
            )
        if isinstance(error, ssl.SSLError):
            return HowdahError(
                f"no TLS with {self._server}: {error.reason}; does it ask for a client's certificate?"
            )
        if is_refusal(error):
            return HowdahError(f"{self._server} refuses {self._who}: {_words(error)}")
        return Unreachable(
            f"{self._server} cannot be reached: {_words(error)}; does it run, and is the address right?"
        )

    def of_request(self, error: nats.js.errors.APIError) -> HowdahError:
        """Why JetStream did not do what it was asked."""
        if error.err_code in _FULL:
            return HowdahError(
                f"{self._server} has no room left ({error.description}); its limits or its disk must grow"
            )
        if isinstance(error, nats.js.errors.ServiceUnavailableError):
            return Unreachable(f"{self._server} has no JetStream at present; is it on, and has it a leader?")
        return Refused(f"{self._server} refuses: {error.description}", error.err_code)

    def of_denial(self, subject: str) -> "Denied":
        """One may not write there."""
        return Denied(
            f"{self._server} does not let {self._who} write to {subject}; its permissions say who may"
        )

    def of_silence(self, after_s: float) -> Unreachable:
        """No reply came."""
        return Unreachable(f"no answer from {self._server} within {after_s:g} s")

    def of_break(self) -> Unreachable:
        """The connection went while a request was on its way."""
        return Unreachable(f"the connection to {self._server} broke")

    def of_age(self, found: str, oldest: str) -> HowdahError:
        """The server is older than what this bus needs."""
        return HowdahError(
            f"{self._server} is version {found}, whose values cannot end by themselves; "
            f"it must be {oldest} or later"
        )


def is_refusal(error: Exception) -> bool:
    """Whether trying again is of no use until somebody changes something."""
    if isinstance(error, nats.errors.Error) and _LOGIN.search(str(error)):
        return True
    return isinstance(error, ssl.SSLError | nats.errors.SecureConnWantedError)


def denied_subject(error: Exception) -> str | None:
    """The subject, in small letters, that a message was sent to without permission."""
    denied = _DENIED.search(str(error))
    return denied["subject"].lower() if denied else None


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).removeprefix("nats: ").strip("'") or type(error).__name__
