"""Runs nodes on this machine: topology, files, formatting and supervision."""
