"""What howdah does, as calls: a module a subject. The command line calls nothing else.

A call returns a record, a plan or a Struct. It prints nothing, installs no signal handler and never ends
the process. What goes wrong is a HowdahError of one line; where a run had begun, ``error.record`` is its
record. What the far end writes to standard error goes to the logger ``howdah``. ``import howdah`` offers
the calls that most programs want, with twins for asyncio. docs/library.md shows them.
"""
