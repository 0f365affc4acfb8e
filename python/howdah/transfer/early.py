"""Starts ssh for ``howdah cp`` before the command line is parsed, and hands it to the run.

Loading the command line's libraries takes longer than a round trip of most paths. What is read here
is only what cannot be misread: if a word is not known, nothing is started early and nothing is lost.
"""

from howdah import HowdahError, _native, interrupt
from howdah.transfer import endpoints, ssh

TAKES_VALUE = frozenset(
    {"--memory", "--streams", "--cc", "--buffer", "--pace", "--plan", "--path", "--far-howdah"}
)
FLAGS = frozenset({"--plaintext", "--dry-run", "--json", "--quiet", "-q"})
"""The options of ``howdah cp`` that start a copy (a test holds them against the command's own)."""


class Started:
    """An ssh on its way and the session that speaks through it."""

    def __init__(self, host: str, command: str | None) -> None:
        self.key = (host, command)
        self.far = ssh.Far(host, command)
        self.session = _native.Session(self.far.read_fd, self.far.write_fd)


_started: list[Started] = []


def begin(arguments: list[str]) -> None:
    """Starts ssh if these arguments of ``howdah cp`` name one far host beyond doubt."""
    interrupt.install()
    key = far_end(arguments)
    if key is not None:
        try:
            _started.append(Started(*key))
        except HowdahError:
            # The run comes to the same place and reports it as it reports everything.
            return


def take(host: str, command: str | None) -> Started:
    """What was started early for this far end, or a new start."""
    if _started and _started[0].key == (host, command):
        return _started.pop()
    drop()
    return Started(host, command)


def drop() -> None:
    """Ends what was started and is not wanted: the command line was refused."""
    while _started:
        started = _started.pop()
        started.session.cancel()
        started.far.end()


def far_end(arguments: list[str]) -> tuple[str, str | None] | None:
    """(host, howdah there) of a command line, None when in doubt."""
    values: dict[str, str] = {}
    words: list[str] = []
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "--":
            words += rest
        elif name in TAKES_VALUE:
            given = value if equals else next(rest, None)
            if given is None:
                return None
            values[name] = given
        elif word.startswith("-") and word not in FLAGS and word != "-":
            return None
        elif word not in FLAGS:
            words.append(word)
    try:
        host = endpoints.route(words, memory="--memory" in values).host
    except HowdahError:
        return None
    return host, values.get("--far-howdah")
