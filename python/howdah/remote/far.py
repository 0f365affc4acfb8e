"""The far end until its hello has come."""

from collections.abc import Callable

import msgspec

from howdah import HowdahError, document, interrupt
from howdah.remote import standby
from howdah.remote.messages import FarHello
from howdah.remote.ssh import explain
from howdah.remote.standby import FarSession, take

TICK_S = 0.1
"""The time between two looks at progress; also the longest that a signal waits for its handler."""

CANCEL_S = 2.0
"""The longest that both ends take to stop after a cancel."""

_SAID = "far end: "
"""The beginning of an error that a far end told the session (crates/transfer/src/error.rs)."""


def hello(started: FarSession, far_says: Callable[[str], None]) -> FarHello:
    """Waits for the far end's hello; ``far_says`` is given what it wrote to standard error before.

    Raises HowdahError with the cause when no hello will come.
    """
    session, far = started.session, started.far
    try:
        while (answer := session.hello(TICK_S)) is None:
            interrupt.check()
            far.drain()
        far_says(far.new_stderr())
        return document.strange(msgspec.json.decode(answer, type=FarHello))
    except msgspec.ValidationError as error:
        raise HowdahError(
            f"howdah on {far.login.host} is another version ({error}); install the same version on both hosts"
        ) from None
    except HowdahError as error:
        # Where a far end has not said why, the session only saw its pipe end or carry something else.
        status, said = far.exit_status(CANCEL_S), str(error)
        if status and not said.startswith(_SAID):
            raise HowdahError(explain(far.login.host, status, far.stderr())) from None
        raise HowdahError(f"{far.login.host}: {said.removeprefix(_SAID)}") from None


def greet(host: str, far_howdah: str | None) -> FarHello:
    """The hello of ``host`` and nothing more; the next far end is left ready, as after a copy.

    Raises HowdahError where ssh or howdah does not answer there.
    """
    started, answer = None, None
    try:
        with interrupt.Held():
            started = take(host, far_howdah)
        answer = hello(started, lambda _: None)
    finally:
        if started is not None:
            started.session.cancel()
            if answer is None:
                started.far.end()
                started.far.close()
    standby.release(started)
    standby.leave(started.far.login, far_howdah)
    return answer
