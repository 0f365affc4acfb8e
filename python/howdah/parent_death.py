"""Processes that must not outlive who started them."""

TIED = ("setpriv", "--pdeathsig=KILL", "--")
"""Before a command line: the kernel kills the program when the thread that started it ends."""
