"""Congestion controls: models of them, and programs in the kernel."""
