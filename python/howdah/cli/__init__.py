"""The command line: for each command a table, and beside it in ``*_command.py`` what a longer one does.

``table`` is what a table is and how a line is read by it, ``app`` finds the table of a line and calls its
function, ``pages`` and ``completion`` are made of all tables. Only the command that runs is loaded.

Exit codes: 0 done; 1 it failed, one line on standard error says why; 2 the command line is wrong;
130, 143, 129 stopped by Ctrl-C, TERM, HUP. A mistake of the user never shows a traceback; a mistake
of ours does with ``HOWDAH_DEBUG=1``.
"""
