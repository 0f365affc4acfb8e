"""Measuring a path with many configurations: plans, their order, making the runs, going on after a stop."""
