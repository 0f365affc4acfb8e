"""Background traffic for tests: loads by a pattern, from this host to another, each run a record."""
