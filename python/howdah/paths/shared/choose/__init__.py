"""Choosing beside others: from who is heard to how to send. Pure: time and rates are arguments.

``background`` is who is there, ``share`` what a way to send should get beside them, ``value`` what that is
worth, ``weigh`` and ``paper`` the two policies, ``steer`` when a change is made, kept and undone.
"""
