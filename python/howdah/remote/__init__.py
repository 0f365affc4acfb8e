"""The far end: how ssh reaches and starts it, what it says first, and what crosses to the native session."""
