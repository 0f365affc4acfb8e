"""Ranges of TCP ports as people write them: ``50000-50100``, or one port."""

PORT_MAX = 65535


def parse(text: str) -> tuple[int, int]:
    """The first and the last port. Raises ValueError, in words."""
    least, dash, most = text.partition("-")
    numbers = [least, most] if dash else [least, least]
    if all(each.isascii() and each.isdecimal() and len(each) <= len(str(PORT_MAX)) for each in numbers):
        first, last = map(int, numbers)
        if 0 < first <= last <= PORT_MAX:
            return first, last
    raise ValueError(f'ports {text!r} is no range of ports; give for example "50000-50999"')


def in_words(ports: tuple[int, int]) -> str:
    """``50000-50100``, or of one port its number."""
    first, last = ports
    return str(first) if first == last else f"{first}-{last}"
