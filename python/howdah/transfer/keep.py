"""What a copy keeps of files beside names and contents, by the words of rsync's options."""

from collections.abc import Sequence

import msgspec

from howdah import HowdahError
from howdah.remote.messages import Keep

_SETS = {
    "archive": ("owner", "group", "devices", "specials", "top"),
    "D": ("devices", "specials"),
}
_BACK = {"archive": ("perms", "times"), "acls": ("perms",)}
"""What a word says as well of what is kept anyway, so that it takes back a ``no_`` before it."""
WORDS = (*_SETS, *Keep.__struct_fields__)
"""The words there are. With ``no_`` before it a word takes back what one before it says."""


def read(words: Sequence[str]) -> Keep:
    """What ``words`` say in their order, of which the last counts: ``["archive", "no_owner"]``.

    Raises HowdahError for a word that is none.
    """
    kept: dict[str, bool] = {}
    for word in words:
        name = word.removeprefix("no_")
        if name not in WORDS:
            raise HowdahError(f"keep {word} is unknown; it is one of {', '.join(WORDS)}, or no_ before one")
        kept |= dict.fromkeys(_SETS.get(name, (name,)), name == word)
        if name == word:
            kept |= dict.fromkeys(_BACK.get(name, ()), True)
    return msgspec.convert(kept, Keep)
