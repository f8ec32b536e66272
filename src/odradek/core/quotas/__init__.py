"""Client quotas: rates of clients and their limits, without clocks and connections."""
