"""Howdah moves data over long fat networks at the rate the path allows, and picks the transport itself."""

from howdah._native import HowdahError, __version__

__all__ = ["LAB_LINK_VARIABLE", "HowdahError", "__version__"]

LAB_LINK_VARIABLE = "HOWDAH_LAB_LINK"
"""Set by a lab for the commands it runs: its LinkSpec as JSON."""
