"""Controllers and agents at work: their cores, which know no clock and no network, joined to those."""
