"""Round trips of a path: probes and their answers, the series they make, and what moves in it."""
