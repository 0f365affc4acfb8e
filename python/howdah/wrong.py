"""What is wrong with a command line alone, whatever this host is and whatever its files hold."""

from howdah._native import HowdahError


class WrongLine(HowdahError):
    """A word that nothing knows, or options and values that cannot be; a command then ends with 2."""

    exit_code = 2
