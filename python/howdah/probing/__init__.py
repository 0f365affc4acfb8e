"""Round trips of a path: probes and their answers, the series they make, and what a series shows."""
