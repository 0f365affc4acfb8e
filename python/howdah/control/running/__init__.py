"""Controllers and agents at work: their cores, which have no clock and no network, joined to those."""
