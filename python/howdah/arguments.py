"""What callers of the library give: checks of types and values, whose messages name the argument.

A program and the command line know an argument by different names: ``for_s=7200`` is ``--for 2h``. A message
has ``{for_s}`` in its place, and whoever shows it says what stands there.
"""

import functools
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from howdah import HowdahError
from howdah.bounds import Bounds

Spell = Callable[[str, Mapping[str, object]], str]
"""What someone calls an argument, of its name and the values that are known."""

CallT = TypeVar("CallT", bound=Callable[..., Any])


class BadArgument(HowdahError):
    """What was given cannot be. Its text names arguments as programs give them."""

    def __init__(self, template: str, **values: object) -> None:
        """``template`` has ``{name}`` for each argument that it names, ``values`` those with their values.

        Other text of a caller's goes through ``literal``.
        """
        super().__init__(_filled(template, lambda name: _as_keyword(name, values)))
        self._template, self._values = template, values

    def spelt(self, spell: Spell) -> str:
        """The text for someone who knows the arguments as ``spell`` says, given a name and all values."""
        return _filled(self._template, lambda name: spell(name, self._values))


class NotHere(BadArgument):
    """What was given cannot be here: because of what this host, another host or a file is like."""


class Refusing:
    """Has an error inside of it be one of what was given, by its name where there is one."""

    def __init__(self, name: str | None = None) -> None:
        self._before = "" if name is None else f"{{{name}}}: "

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, HowdahError):
            raise BadArgument(self._before + literal(str(error))) from None


def _filled(template: str, spell: Callable[[str], str]) -> str:
    return re.sub(r"\{(\{|(\w+)\})", lambda found: spell(found[2]) if found[2] else "{", template)


def literal(text: str) -> str:
    """The text as part of a template, in which its braces name nothing."""
    return text.replace("{", "{{")


def _as_keyword(name: str, values: Mapping[str, object]) -> str:
    return f"{name}={values[name]!r}" if name in values else name


def check_within(name: str, value: float | None, bounds: Bounds, *, mend: str) -> None:
    """Raises BadArgument unless the number is within the bounds; None is no number."""
    if value is not None and (why := bounds.refused(value)) is not None:
        raise BadArgument(f"{{{name}}} is {why}; {mend}", **{name: value})


def check_above_0(name: str, value: float | None) -> None:
    """Raises BadArgument unless the number is above 0 and finite; None is no number."""
    if value is None or 0 < value < math.inf:
        return
    if value <= 0:
        why = "not above 0; give more, or leave it out"
    else:
        why = f"not {'a number' if math.isnan(value) else 'finite'}; give one that is, or leave it out"
    raise BadArgument(f"{{{name}}} is {why}", **{name: value})


def check_one_of(name: str, value: str | None, choices: Sequence[str], what: str) -> None:
    """Raises BadArgument unless the text is ``what``, one of these; None is no text."""
    if value is not None and value not in choices:
        raise BadArgument(f"{{{name}}} is not {what}; give one of {', '.join(choices)}", **{name: value})


def typed(call: CallT) -> CallT:
    """The same call, which raises TypeError for an argument of another type, before anything is done.

    Numbers of other libraries, such as NumPy's, become Python's.

    Its own type is that of an identity: a type checker then knows the call's where modules import each other.
    """
    names = call.__code__.co_varnames
    kinds: dict[str, Any] = {name: kind for name, kind in call.__annotations__.items() if name != "return"}

    # A class is made by its name.
    called = call.__qualname__.split(".")[-2] if call.__name__ == "__init__" else call.__name__

    @functools.wraps(call)
    def checked(*args: object, **keywords: object) -> object:
        first = [plain(value, kinds.get(name)) for name, value in zip(names, args, strict=False)]
        named = {name: plain(value, kinds.get(name)) for name, value in keywords.items()}
        check_types(called, kinds, {**dict(zip(names, first, strict=False)), **named})
        return call(*first, *args[len(first) :], **named)

    return cast("CallT", checked)


def plain(value: Any, kind: Any) -> Any:  # noqa: ANN401, whatever is given
    """The value; where a number is wanted, one of another library as Python's own."""
    kinds = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
    if type(value) in {int, float, bool} or not (int in kinds or float in kinds):
        return value
    import numbers  # noqa: PLC0415, hardly ever needed

    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if float in kinds and isinstance(value, numbers.Real) else value


def check_types(called: str, kinds: Mapping[str, Any], values: Mapping[str, object]) -> None:
    """Raises TypeError, in the name of what was called, for a value that is not of the kind of its name.

    Raises BadArgument for a text or a path that Linux takes nowhere.
    """
    for name, value in values.items():
        if name in kinds and not _is_a(value, kinds[name]):
            raise TypeError(f"{called}: {name} is {value!r}; it takes {_in_words(kinds[name])}")
        if not _is_spellable(value):
            raise BadArgument(f"{{{name}}} has a NUL byte or half a surrogate pair, which no name has")


def _is_spellable(value: object) -> bool:
    """Whether the texts and paths in it can be given to Linux."""
    if isinstance(value, list | tuple):
        return all(map(_is_spellable, value))
    if not isinstance(value, str | os.PathLike):
        return True
    try:
        return b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def _is_a(value: object, kind: Any) -> bool:  # noqa: ANN401, whatever annotates an argument
    """Whether a value may be of this type. What only its use can show, it may."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        fits = True
    elif origin in {Union, UnionType}:
        fits = any(_is_a(value, each) for each in inner)
    elif origin is Literal:
        # Which texts there are is a question of values.
        fits = isinstance(value, str)
    elif origin is tuple:
        fits = isinstance(value, tuple) and len(value) == len(inner) and all(map(_is_a, value, inner))
    elif origin is Sequence:
        # A text is a sequence of texts, and never meant as one.
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        fits = is_list and all(_is_a(each, inner[0]) for each in cast("Sequence[object]", value))
    elif kind in {int, float}:
        fits = isinstance(value, int | kind) and not isinstance(value, bool)
    elif getattr(kind, "_is_protocol", False):
        fits = callable(value)
    else:
        fits = isinstance(value, origin or kind)
    return fits


def _in_words(kind: Any) -> str:  # noqa: ANN401, as above
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return " or ".join(dict.fromkeys(map(_in_words, inner)))
    if origin is Literal:
        return _in_words(str)
    if origin is tuple:
        return f"({', '.join(map(_in_words, inner))})"
    if origin is os.PathLike:
        return "a path"
    name = getattr(origin or kind, "__name__", str(kind))
    return {"str": "a text", "int": "a whole number", "float": "a number", "bool": "True or False"}.get(
        name, {"NoneType": "None", "Callable": "a function", "Sequence": "a list"}.get(name, name)
    )
