"""Coordinators on the compacted internal topics: pure machines that turn commands into records and answers."""
