"""The share of one transfer: which flow of the policy it is, the request for it, and its enforcement here."""
