"""Words for people: what the commands print of values, while they work and afterwards."""
