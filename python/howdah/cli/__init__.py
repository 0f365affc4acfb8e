"""The command line: one file a command, no logic. Only the command that runs is loaded.

Exit codes: 0 done; 1 it failed, one line on standard error says why; 2 the command line is wrong;
130, 143, 129 stopped by Ctrl-C, TERM, HUP. A mistake of the user never shows a traceback; a mistake
of ours does with ``HOWDAH_DEBUG=1``.
"""
