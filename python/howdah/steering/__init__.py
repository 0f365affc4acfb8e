"""Steering a copy on a shared path: recognising who else is there, and choosing how to send beside them."""
