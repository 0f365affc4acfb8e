"""What people read, where it is said in more than one place."""


def count(number: int, noun: str) -> str:
    """As ``1 file`` and ``1,200 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
