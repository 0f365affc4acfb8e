"""Howdah moves data over long fat networks at the rate the path allows, and picks the transport itself."""

from howdah._native import HowdahError, __version__

__all__ = ["HowdahError", "__version__"]
