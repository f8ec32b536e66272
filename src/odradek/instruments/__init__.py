"""Counters of a node: plain attributes, incremented where the event happens. No locks, no exposition."""
