"""Figures and a page, drawn from records alone: counterparts of the papers' figures, and what differs."""
