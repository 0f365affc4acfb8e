"""Steering a copy on a shared path: who else is there, and how to send beside them."""
