"""Commands to records: what the active controller decides. Pure: no clock, chance, disk or network of its own."""
