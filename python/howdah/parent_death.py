"""Processes that must not outlive who started them."""

DIES_WITH_PARENT = ("setpriv", "--pdeathsig=KILL", "--")
"""Before a command line: the kernel kills the program when the thread that started it ends."""
