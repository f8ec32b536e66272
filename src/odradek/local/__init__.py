"""Nodes on this computer: topology, files, formatting and supervision."""
