"""Congestion controls."""
