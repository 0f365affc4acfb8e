"""The arguments of ``howdah cp``, and a reading of them that needs no library.

The command line's library takes longer to load than a round trip of most paths, and a copy pays for
every millisecond before its first byte. So a line that cannot be misread is read here; any other, and
whatever asks for help, is left to ``howdah.cli``. A test holds the two against each other.
"""

from collections import namedtuple

VALUES = frozenset(
    {
        *("--memory", "--streams", "--cc", "--buffer", "--pace", "--plan", "--path", "--class"),
        *("--fairness", "--far-howdah"),
    }
)
"""Options that take a value."""

FLAGS = frozenset({"--plaintext", "--dry-run", "--no-listen", "--json", "--quiet"})

_SHORT = {"-q": "--quiet"}

Arguments = namedtuple("Arguments", ["names", "values", "flags"])
Arguments.__doc__ = "``names``: SRC… DST; ``values``: text by option; ``flags``: those given."


def parse(words: list[str]) -> Arguments | None:
    """The arguments when nothing about them is in doubt, else None."""
    names: list[str] = []
    values: dict[str, str] = {}
    flags: set[str] = set()
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "--":
            names += rest
        elif name in VALUES:
            given = value if equals else next(rest, "-")
            if given.startswith("-"):
                return None
            values[name] = given
        elif _SHORT.get(word, word) in FLAGS:
            flags.add(_SHORT.get(word, word))
        elif word.startswith("-") and word != "-":
            return None
        else:
            names.append(word)
    return Arguments(names, values, flags) if names else None
