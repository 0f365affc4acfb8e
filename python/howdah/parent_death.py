"""Processes that must not outlive who started them."""

DIES_WITH_PARENT = ("setpriv", "--pdeathsig=KILL", "--")
"""The words before a command line with which the kernel kills the program when the thread that started it
ends."""
